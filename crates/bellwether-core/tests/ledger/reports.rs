//! What those in an election tell each other.

use bellwether_core::command::Command;
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::outcome::Outcome;

use super::store::{Answer, Store, lease, settings};

fn told(answer: Answer) -> Vec<(u128, String, u64)> {
    match answer.unwrap() {
        Outcome::Reports(reports) => reports
            .into_iter()
            .map(|report| (report.member.0, report.text, report.age_ms))
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn tell(store: &mut Store, member: u32, text: &str) -> Answer {
    store.ask(member, Command::Report { lease: lease("l"), text: text.into() })
}

fn heard(store: &mut Store) -> Vec<(u128, String, u64)> {
    told(store.ask(0, Command::ListReports { lease: lease("l") }))
}

#[test]
fn the_last_word_of_each_is_heard_by_all() {
    let mut store = Store::with_queue(settings());
    assert_eq!(told(tell(&mut store, 1, "one")), [(1, "one".into(), 0)]);
    store.pass(10);
    let both = [(1, "one".into(), 10), (2, "two".into(), 0)];
    assert_eq!(told(tell(&mut store, 2, "two")), both);
    tell(&mut store, 1, "one more").unwrap();
    assert_eq!(heard(&mut store), [(1, "one more".into(), 0), (2, "two".into(), 0)]);
    let elsewhere = store.ask(0, Command::ListReports { lease: lease("m") });
    assert_eq!(told(elsewhere), []);
    assert_eq!(told(tell(&mut store, 2, "")), [(1, "one more".into(), 0)], "taken back");
}

#[test]
fn who_goes_is_not_heard_any_more() {
    let mut store = Store::with_queue(settings());
    tell(&mut store, 1, "one").unwrap();
    tell(&mut store, 2, "two").unwrap();
    store.ask(1, Command::Leave).unwrap();
    assert_eq!(heard(&mut store), [(2, "two".into(), 0)]);
    assert_eq!(tell(&mut store, 1, "again"), Err(Refusal::MemberGone));
    assert_eq!(tell(&mut store, 0, "nobody"), Err(Refusal::MemberGone));
    store.restart();
    assert_eq!(heard(&mut store), [], "told anew after a restart");
}

#[test]
fn what_is_told_is_bounded() {
    let mut store = Store::with_queue(settings());
    let long = "x".repeat(limits::REPORT_BYTES_MAX + 1);
    assert!(matches!(tell(&mut store, 1, &long), Err(Refusal::TooLarge { .. })));
    tell(&mut store, 1, &long[1..]).unwrap();
    for index in 1..limits::REPORTS_MAX {
        let command = Command::Report { lease: lease(&format!("l{index}")), text: "x".into() };
        store.ask(1, command).unwrap();
    }
    let full = Err(Refusal::TooMany { what: "reports", max: limits::REPORTS_MAX as u64 });
    assert_eq!(tell(&mut store, 2, "one too many"), full);
    assert!(tell(&mut store, 1, "in the place of another").is_ok());
}
