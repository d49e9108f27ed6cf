//! The outcome of every action in every state of a lease, as Azure's documents have it in tables: one
//! place for all who are asked whether they keep to it. Ours are asked in `lease_table.rs`, Microsoft's
//! emulator in `crates/bellwether/tests/lease_engines/azure/emulator.rs`.

/// `AP` `LeaseAlreadyPresent`, `MM` `LeaseIdMismatchWithLeaseOperation`,
/// `NP` `LeaseNotPresentWithLeaseOperation`, `BA` `LeaseIsBreakingAndCannotBeAcquired`,
/// `BR` `LeaseIsBrokenAndCannotBeRenewed`, `BC` `LeaseIsBreakingAndCannotBeChanged`; all 409.
/// `+` is a new term, which Azure does not have. Where no id is proposed one is drawn, here `D`.
/// A touch is a write of the object by whoever may.
pub(crate) const ACTIONS: &str = "
| action            | Available   | Leased(A)   | Breaking(A) | Broken(A)   | Expired(A)  |
| acquire           | Leased(D) + | AP          | AP          | Leased(D) + | Leased(D) + |
| acquire A         | Leased(A) + | Leased(A)   | BA          | Leased(A) + | Leased(A) + |
| acquire B         | Leased(B) + | AP          | AP          | Leased(B) + | Leased(B) + |
| renew A           | MM          | Leased(A)   | BR          | BR          | Leased(A)   |
| renew B           | MM          | MM          | MM          | MM          | MM          |
| touch, renew A    | MM          | Leased(A)   | BR          | MM          | MM          |
| change A B        | NP          | Leased(B) + | BC          | NP          | NP          |
| change B A        | NP          | Leased(A)   | MM          | NP          | NP          |
| change B C        | NP          | MM          | MM          | NP          | NP          |
| release A         | MM          | Available   | Available   | Available   | Available   |
| release B         | MM          | MM          | MM          | MM          | MM          |
| touch, release A  | MM          | Available   | Available   | MM          | MM          |
| break 0           | NP          | Broken(A)   | Broken(A)   | Broken(A)   | Broken(A)   |
| break 5           | NP          | Breaking(A) | Breaking(A) | Broken(A)   | Broken(A)   |
| break             | NP          | Breaking(A) | Breaking(A) | Broken(A)   | Broken(A)   |
| time runs out     | Available   | Expired(A)  | Broken(A)   | Broken(A)   | Expired(A)  |
| touch             | Available   | Leased(A)   | Breaking(A) | Available   | Available   |
| ask to step down  | NP          | Leased(A)   | Breaking(A) | NP          | NP          |
";

/// All refusals are 412. `wiped`: the write forgets the old id, the lease is Available. A foreign id
/// on a leased object is 412 too.
pub(crate) const USES: &str = "
| use               | Available   | Leased(A)   | Breaking(A) | Broken(A)   | Expired(A)  |
| write A           | NotPresent  | ok          | ok          | NotPresent  | NotPresent  |
| write B           | NotPresent  | IdMismatch  | IdMismatch  | NotPresent  | NotPresent  |
| write             | ok          | IdMissing   | IdMissing   | ok, wiped   | ok, wiped   |
| read A            | NotPresent  | ok          | ok          | NotPresent  | NotPresent  |
| read B            | NotPresent  | IdMismatch  | IdMismatch  | NotPresent  | NotPresent  |
| read              | ok          | ok          | ok          | ok          | ok          |
";

/// One line of a table in one of its states.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) action: String,
    pub(crate) state: String,
    pub(crate) wanted: String,
}

/// All of a table, line by line.
pub(crate) fn cells(table: &str) -> Vec<Cell> {
    let split = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = table.trim().lines().map(split);
    let states = lines.next().unwrap_or_default();
    assert_eq!(states.len(), 6, "a name and five states");
    let mut cells = Vec::new();
    for line in lines {
        assert_eq!(line.len(), states.len(), "{line:?}");
        cells.extend(states.iter().zip(&line).skip(1).map(|(state, wanted)| Cell {
            action: line[0].clone(),
            state: state.clone(),
            wanted: wanted.clone(),
        }));
    }
    cells
}
