//! The table of every action in every state, asked of Azurite: the very one that our ledger is asked
//! (`crates/bellwether-core/tests/lease_table.rs`). Where the emulator is not what it stands for, that
//! is listed, and a line of the list that is not true any more is a failure, too.

#[path = "../../../../bellwether-core/tests/lease_table/table.rs"]
mod table;

use std::time::Duration;

use table::{ACTIONS, Cell, USES, cells};

use super::{Answer, Container};

/// Where Azurite does otherwise: the action, the state, what it does, and why that is wrong.
const DIFFERENCES: &[(&str, &str, &str, &str)] = &[(
    "renew B",
    "Expired(A)",
    "Leased(A)",
    "when the time of a lease is over it looks at no id, and whoever renews makes it stand again",
)];

/// The shortest lease there is.
const SHORT_SECONDS: &str = "15";
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);
const FOLDER: &str = "/devstoreaccount1/tables";

fn id(name: &str) -> String {
    format!("{}-1111-4111-8111-111111111111", name.to_lowercase().repeat(8))
}

/// A blob for one cell.
struct Blob<'a> {
    place: &'a Container,
    path: String,
}

impl<'a> Blob<'a> {
    /// A new one, in a state that needs no waiting; in the two that do, on its way there.
    async fn prepare(place: &'a Container, name: String, cell: &Cell) -> Self {
        let blob = Self { place, path: format!("{FOLDER}/{name}") };
        blob.write(None).await.must();
        let waits = cell.action == "time runs out" || cell.state == "Expired(A)";
        let seconds = if waits { SHORT_SECONDS } else { "60" };
        blob.acquire(Some("A"), seconds).await.must();
        match cell.state.as_str() {
            "Leased(A)" | "Expired(A)" => {}
            "Available" => blob.ask("release", &[("x-ms-lease-id", &id("A"))]).await.must(),
            "Breaking(A)" => blob.end("60").await.must(),
            "Broken(A)" => blob.end("1").await.must(),
            other => panic!("no such state: {other}"),
        }
        blob
    }

    async fn ask(&self, action: &str, headers: &[(&str, &str)]) -> Answer {
        let mut all = vec![("x-ms-lease-action", action)];
        all.extend(headers);
        self.place.asked("PUT", &self.path, "comp=lease", &all).await
    }

    async fn acquire(&self, name: Option<&str>, seconds: &str) -> Answer {
        let proposed = name.map(id);
        let mut headers = vec![("x-ms-lease-duration", seconds)];
        headers.extend(proposed.as_deref().map(|id| ("x-ms-proposed-lease-id", id)));
        self.ask("acquire", &headers).await
    }

    async fn end(&self, seconds: &str) -> Answer {
        self.ask("break", &[("x-ms-lease-break-period", seconds)]).await
    }

    async fn write(&self, id: Option<&str>) -> Answer {
        let mut headers = vec![("x-ms-blob-type", "BlockBlob")];
        headers.extend(id.map(|id| ("x-ms-lease-id", id)));
        self.place.asked("PUT", &self.path, "", &headers).await
    }

    async fn read(&self, id: Option<&str>) -> Answer {
        let headers: Vec<_> = id.map(|id| ("x-ms-lease-id", id)).into_iter().collect();
        self.place.asked("GET", &self.path, "", &headers).await
    }

    /// As the service shows it to anybody.
    async fn state(&self) -> String {
        let shown = self.read(None).await.header("x-ms-lease-state").unwrap_or_default();
        let mut letters = shown.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
    }

    async fn until(&self, state: &str) {
        let reaching = async {
            while self.state().await != state {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reaching).await;
        assert!(reached.is_ok(), "{}: not {state} but {}", self.path, self.state().await);
    }

    /// Its state and whose it is. The service does not show the id, so it is tried who may read with
    /// his, or, when the time is over, release: nobody looks at the blob after this.
    async fn show(&self, drawn: Option<String>) -> String {
        let state = self.state().await;
        if state == "Available" {
            return state;
        }
        let named = ["C", "B", "A"].map(|name| (name, id(name)));
        let drawn = drawn.filter(|drawn| named.iter().all(|(_, id)| id != drawn));
        let drawn = drawn.map(|drawn| ("D", drawn));
        for (name, id) in drawn.into_iter().chain(named) {
            let tried = match state.as_str() {
                "Leased" | "Breaking" => self.read(Some(&id)).await,
                _ => self.ask("release", &[("x-ms-lease-id", &id)]).await,
            };
            if tried.is_done() {
                return format!("{state}({name})");
            }
        }
        format!("{state}(?)")
    }

    /// What comes of an action.
    async fn act(&self, cell: &Cell) -> String {
        let mut drawn = None;
        for part in cell.action.split(", ") {
            let words: Vec<&str> = part.split(' ').collect();
            let ids: Vec<String> = words[1..].iter().map(|name| id(name)).collect();
            let before = self.mark().await;
            let answer = match words[..] {
                ["time", "runs", "out"] => {
                    match cell.state.as_str() {
                        "Leased(A)" => self.until("Expired").await,
                        "Breaking(A)" => self.until("Broken").await,
                        _ => {}
                    }
                    continue;
                }
                ["touch"] => {
                    self.write(Some(id("A").as_str()).filter(|_| cell.is_held())).await.must();
                    continue;
                }
                ["acquire"] => self.acquire(None, "60").await,
                ["acquire", who] => self.acquire(Some(who), "60").await,
                ["renew" | "release", _] => self.ask(words[0], &[("x-ms-lease-id", &ids[0])]).await,
                ["change", ..] => {
                    let to = ("x-ms-proposed-lease-id", &*ids[1]);
                    self.ask("change", &[("x-ms-lease-id", &ids[0]), to]).await
                }
                ["break"] => self.ask("break", &[]).await,
                ["break", seconds] => self.end(seconds).await,
                _ => panic!("no such action: {part}"),
            };
            if !answer.is_done() {
                return answer.code(409);
            }
            let status = match words[0] {
                "acquire" => 201,
                "break" => 202,
                _ => 200,
            };
            assert_eq!(answer.status, status, "{part} in state {}", cell.state);
            assert_eq!(self.mark().await, before, "a lease is not the blob (LE-85): {part}");
            drawn = answer.header("x-ms-lease-id");
        }
        self.show(drawn).await
    }

    /// What comes of a use.
    async fn used(&self, cell: &Cell) -> String {
        let (what, name) = cell.action.split_once(' ').unwrap_or((&cell.action, ""));
        let shown = (!name.is_empty()).then(|| id(name));
        let before = self.state().await;
        let answer = match what {
            "write" => self.write(shown.as_deref()).await,
            _ => self.read(shown.as_deref()).await,
        };
        if !answer.is_done() {
            return answer.code(412);
        }
        let after = self.state().await;
        match after.as_str() {
            _ if after == before => "ok".to_owned(),
            "Available" => "ok, wiped".to_owned(),
            _ => format!("ok, {after}"),
        }
    }

    /// What changes with every write of the blob.
    async fn mark(&self) -> [Option<String>; 2] {
        let shown = self.read(None).await;
        ["etag", "last-modified"].map(|name| shown.header(name))
    }
}

impl Cell {
    /// Whether somebody holds the lease to begin with.
    fn is_held(&self) -> bool {
        self.state.starts_with("Leased") || self.state.starts_with("Breaking")
    }

    /// The state without its holder.
    fn begins(&self) -> &str {
        self.state.split('(').next().unwrap_or_default()
    }
}

impl Answer {
    fn is_done(&self) -> bool {
        (200..300).contains(&self.status)
    }

    fn must(self) {
        assert!(self.is_done(), "{self:?}");
    }

    /// In the words of the table, if it is a refusal of this kind.
    fn code(&self, status: u16) -> String {
        let code = self.header("x-ms-error-code").unwrap_or_default();
        let short = match (self.status == status, code.as_str()) {
            (true, "LeaseAlreadyPresent") => "AP",
            (true, "LeaseIdMismatchWithLeaseOperation") => "MM",
            (true, "LeaseNotPresentWithLeaseOperation") => "NP",
            (true, "LeaseIsBreakingAndCannotBeAcquired") => "BA",
            (true, "LeaseIsBrokenAndCannotBeRenewed") => "BR",
            (true, "LeaseIsBreakingAndCannotBeChanged") => "BC",
            (true, "LeaseNotPresentWithBlobOperation") => "NotPresent",
            (true, "LeaseIdMismatchWithBlobOperation") => "IdMismatch",
            (true, "LeaseIdMissing") => "IdMissing",
            _ => return format!("{} {code}", self.status),
        };
        short.to_owned()
    }
}

/// What the emulator says where the table says something else.
async fn differences(place: &Container, cells: &[Cell]) -> Vec<String> {
    let is_late = |cell: &Cell| {
        matches!(cell.begins(), "Expired" | "Broken") || cell.action == "time runs out"
    };
    let mut late = Vec::new();
    for (number, cell) in cells.iter().enumerate().filter(|(_, cell)| is_late(cell)) {
        late.push((cell, Blob::prepare(place, format!("late-{number}"), cell).await));
    }
    let mut wrong = Vec::new();
    let mut judge = |cell: &Cell, got: &str| {
        let wanted = cell.wanted.trim_end_matches(" +");
        let known = DIFFERENCES.iter().find(|(action, state, ..)| {
            (*action, *state) == (cell.action.as_str(), cell.state.as_str())
        });
        let expected = known.map_or(wanted, |(_, _, differs, _)| *differs);
        if got != expected || known.is_some_and(|_| got == wanted) {
            let (action, state) = (&cell.action, &cell.state);
            wrong.push(format!("{action} in state {state}: {got}, not {expected}; {known:?}"));
        }
    };
    for (number, cell) in cells.iter().enumerate().filter(|(_, cell)| !is_late(cell)) {
        let blob = Blob::prepare(place, format!("soon-{number}"), cell).await;
        assert_eq!(blob.state().await, cell.begins(), "the start");
        let got = blob.outcome(cell).await;
        judge(cell, &got);
    }
    for (cell, blob) in late {
        if cell.action != "time runs out" || !cell.is_held() {
            blob.until(cell.begins()).await;
        }
        let got = blob.outcome(cell).await;
        judge(cell, &got);
    }
    wrong
}

impl Blob<'_> {
    async fn outcome(&self, cell: &Cell) -> String {
        let is_use = ["read", "write"].iter().any(|what| cell.action.starts_with(what));
        if is_use { self.used(cell).await } else { self.act(cell).await }
    }
}

#[tokio::test]
async fn every_cell_of_the_lease_table_is_as_it_is_with_us() {
    let place = Container::start().await;
    place.ask("PUT", FOLDER, "restype=container", &[]).await;
    let mut all: Vec<Cell> = cells(ACTIONS).into_iter().chain(cells(USES)).collect();
    // To step down is a word of ours.
    all.retain(|cell| !cell.action.starts_with("ask"));
    let wrong = differences(&place, &all).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (action, state, ..) in DIFFERENCES {
        let is_there = all.iter().any(|cell| (&*cell.action, &*cell.state) == (*action, *state));
        assert!(is_there, "no such cell: {action} in state {state}");
    }
}

/// What the table does not ask: an id is a GUID, whatever its letters look like. The service refuses
/// what is none, and compares without case; the emulator does neither where a lease is acted on.
#[tokio::test]
async fn the_emulator_takes_an_id_for_a_text() {
    let place = Container::start().await;
    place.ask("PUT", FOLDER, "restype=container", &[]).await;
    let blob = Blob { place: &place, path: format!("{FOLDER}/id") };
    blob.write(None).await.must();
    let any = [("x-ms-lease-duration", "15"), ("x-ms-proposed-lease-id", "no GUID")];
    blob.ask("acquire", &any).await.must();
    blob.ask("release", &[("x-ms-lease-id", "no GUID")]).await.must();
    blob.acquire(Some("A"), "60").await.must();
    let upper = id("A").to_uppercase();
    assert_eq!(blob.ask("renew", &[("x-ms-lease-id", &upper)]).await.code(409), "MM");
    blob.write(Some(&upper)).await.must();
}
