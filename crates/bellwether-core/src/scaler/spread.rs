//! Which workers go, and on which hosts they are.

use crate::time::BootTime;

/// A worker that might be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Whether it has a message; `None` if nobody can tell.
    pub is_busy: Option<bool>,
    /// Whether it leads an election.
    pub leads: bool,
    /// When it was started.
    pub started_at: BootTime,
}

/// Which of these go, by index: idle ones before those of which nobody knows, and both before one that
/// leads, or is busy. Of equals the youngest: the older is warm.
pub fn choose_victims(workers: &[Candidate], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..workers.len()).collect();
    order.sort_by_key(|index| {
        let worker = &workers[*index];
        let rank = match (worker.leads, worker.is_busy) {
            (false, Some(false)) => 0,
            (false, None) => 1,
            // It ends, and another one leads; a message that is cut off is a delivery lost.
            (true, Some(false)) => 2,
            (true, None) => 3,
            (false, Some(true)) => 4,
            (true, Some(true)) => 5,
        };
        let rank = if cfg!(planted_bug = "victim_is_busy") { 0 } else { rank };
        (rank, std::cmp::Reverse(worker.started_at), *index)
    });
    order.truncate(count);
    order
}

/// Where workers can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// At most so many.
    pub room: u32,
    /// So many are there.
    pub running: u32,
    /// Of these, those that are known to have no message.
    pub idle: u32,
}

/// How many each host should have. What runs stays where it is: more go to where the fewest are, and
/// fewer come from where they are idle. Fewer than wanted if there is no more room.
pub fn spread(wanted: u32, hosts: &[Host]) -> Vec<u32> {
    let mut shares: Vec<u32> = hosts.iter().map(|host| host.running.min(host.room)).collect();
    let mut total: u64 = shares.iter().copied().map(u64::from).sum();
    let idle_left = |at: usize, share: u32| {
        let gone = hosts[at].running.saturating_sub(share);
        hosts[at].idle.saturating_sub(gone)
    };
    while total > u64::from(wanted) {
        let with_any = (0..hosts.len()).filter(|at| shares[*at] > 0);
        let fullest = with_any.max_by_key(|at| {
            (idle_left(*at, shares[*at]).min(1), shares[*at], std::cmp::Reverse(*at))
        });
        let Some(at) = fullest else { break };
        shares[at] -= 1;
        total -= 1;
    }
    while total < u64::from(wanted) {
        let with_room = (0..hosts.len()).filter(|at| shares[*at] < hosts[*at].room);
        let Some(at) = with_room.min_by_key(|at| (shares[*at], *at)) else { break };
        shares[at] += 1;
        total += 1;
    }
    shares
}
