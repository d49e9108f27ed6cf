use bellwether_core::scaler::{Candidate, Host, choose_victims, spread};
use bellwether_core::time::BootTime;

fn worker(is_busy: Option<bool>, leads: bool, started_at: u64) -> Candidate {
    Candidate { is_busy, leads, started_at: BootTime(started_at) }
}

/// XM-26.
#[test]
fn neither_the_busy_nor_the_leader_goes_while_another_is_idle() {
    let workers = [
        worker(Some(true), false, 5),
        worker(Some(false), true, 4),
        worker(Some(false), false, 1),
        worker(None, false, 3),
        worker(Some(true), true, 6),
    ];
    assert_eq!(choose_victims(&workers, 1), [2]);
    assert_eq!(choose_victims(&workers, 2), [2, 3], "then whoever nobody knows of");
    assert_eq!(choose_victims(&workers, 9), [2, 3, 1, 0, 4], "who leads and works goes last");
    assert_eq!(choose_victims(&workers, 0), [0; 0]);
}

#[test]
fn of_equals_the_youngest_goes() {
    let workers = [worker(Some(false), false, 1), worker(Some(false), false, 2)];
    assert_eq!(choose_victims(&workers, 1), [1]);
}

fn host(room: u32, running: u32, idle: u32) -> Host {
    Host { room, running, idle }
}

#[test]
fn more_go_to_where_the_fewest_are_and_has_room() {
    assert_eq!(spread(4, &[host(8, 0, 0), host(8, 0, 0)]), [2, 2]);
    assert_eq!(spread(5, &[host(1, 0, 0), host(8, 0, 0)]), [1, 4]);
    assert_eq!(spread(4, &[host(8, 3, 0), host(8, 0, 0)]), [3, 1], "what runs stays");
    assert_eq!(spread(9, &[host(2, 0, 0), host(3, 0, 0)]), [2, 3], "there is no more room");
    assert_eq!(spread(9, &[]), [0; 0]);
}

#[test]
fn fewer_come_from_where_they_are_idle() {
    assert_eq!(spread(4, &[host(8, 3, 0), host(8, 2, 1)]), [3, 1]);
    assert_eq!(spread(3, &[host(8, 3, 0), host(8, 2, 1)]), [2, 1], "then from where most are");
    assert_eq!(spread(0, &[host(8, 3, 1), host(8, 2, 1)]), [0, 0]);
    assert_eq!(spread(5, &[host(2, 5, 0), host(9, 0, 0)]), [2, 3], "a host's room may shrink");
}
