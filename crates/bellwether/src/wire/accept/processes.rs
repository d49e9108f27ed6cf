//! Members whose process the kernel can prove dead.
//!
//! ```text
//!   Unix socket ─► the pid that connected ┐
//!   Hello ─► the process that speaks ─────┴─► the same? ─► pidfd ─► it has ended ─► Lost { Died }
//! ```
//!
//! 1. A closed connection is no death: the process may be about to connect again. Only the end of
//!    the process is one; so the watch goes on when the connection is over, and a stopped process is
//!    alive.
//! 2. A member belongs to the process that it joined from last. If that cannot be watched, the
//!    member's ttl counts and nothing else.
//! 3. Whose pid the kernel cannot name (another namespace: pid 0), who does not say which process it
//!    is, and who is not the one that connected (a tunnel did that for it), is not watched.
//! 4. A pid that is given anew can delay a death but never invent one: whoever is watched in place of
//!    the process that connected can only be there because that one has ended.
//!
//! A child that lives on after its parent, with the work and maybe the connection, is not the process
//! that connected.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bellwether_core::name::MemberSlot;
use tokio::net::UnixStream;

use super::Acceptor;

/// Who is at the other end of a connection, as far as the kernel says; nobody knows, by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Zero if it cannot be named here.
    pid: i32,
}

impl Peer {
    /// Who connected to a Unix socket.
    pub fn of(stream: &UnixStream) -> Self {
        let pid = stream.peer_cred().ok().and_then(|credentials| credentials.pid());
        Self { pid: pid.unwrap_or(0) }
    }
}

/// A process: its pid here, and how it describes itself.
type Process = (i32, Arc<str>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Processes {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    watched: HashMap<Process, BTreeSet<MemberSlot>>,
    by_member: HashMap<MemberSlot, Process>,
}

impl Table {
    fn forget(&mut self, member: MemberSlot) {
        if let Some(process) = self.by_member.remove(&member)
            && let Some(members) = self.watched.get_mut(&process)
        {
            members.remove(&member);
        }
    }
}

impl Processes {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The member belongs to this process from here on, if that is watched; if not, to none.
    fn joined(&self, member: MemberSlot, process: Option<&Process>) -> bool {
        let mut table = self.lock();
        table.forget(member);
        let Some(process) = process else { return false };
        let Some(members) = table.watched.get_mut(process) else { return false };
        members.insert(member);
        table.by_member.insert(member, process.clone());
        true
    }

    /// From here on this process is watched, for this member of it. False if it was before.
    fn watched(&self, process: &Process, member: MemberSlot) -> bool {
        let mut table = self.lock();
        table.by_member.insert(member, process.clone());
        let members = table.watched.entry(process.clone());
        let is_new = matches!(members, Entry::Vacant(_));
        members.or_default().insert(member);
        is_new
    }

    /// The process has ended: whose members have died with it.
    fn ended(&self, process: &Process) -> BTreeSet<MemberSlot> {
        let mut table = self.lock();
        let members = table.watched.remove(process).unwrap_or_default();
        for member in &members {
            table.by_member.remove(member);
        }
        members
    }

    fn members_of(&self, process: &Process) -> Vec<MemberSlot> {
        self.lock().watched.get(process).into_iter().flatten().copied().collect()
    }

    /// These members are not known any more. True if the process has none left, and is not watched
    /// any more.
    fn forgotten(&self, process: &Process, members: &[MemberSlot]) -> bool {
        let mut table = self.lock();
        let of_process = |table: &Table, member| table.by_member.get(member) == Some(process);
        for member in members {
            if of_process(&table, member) {
                table.forget(*member);
            }
        }
        let is_idle = table.watched.get(process).is_none_or(BTreeSet::is_empty);
        if is_idle {
            table.watched.remove(process);
        }
        is_idle
    }
}

impl Acceptor {
    /// A member has joined on a connection of this acceptor, from the process that calls itself so.
    pub(super) fn joined_from(&self, member: MemberSlot, process: &Arc<str>) {
        let is_named = self.peer.pid > 0 && !process.is_empty();
        let process = is_named.then(|| (self.peer.pid, Arc::clone(process)));
        if !self.processes.joined(member, process.as_ref())
            && let Some(process) = process
        {
            self.watch(process, member);
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Acceptor {
    fn watch(&self, _: Process, _: MemberSlot) {}
}

#[cfg(target_os = "linux")]
mod watch {
    use std::os::fd::OwnedFd;
    use std::sync::{Arc, Weak};
    use std::time::Duration;

    use bellwether_core::command::{Command, Loss};
    use bellwether_core::name::MemberSlot;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::{Process, Processes};
    use crate::engine::call;
    use crate::engine::local::Local;
    use crate::wire::accept::Acceptor;
    use crate::wire::process::described;

    /// How often it is looked whether the members of a process are still known.
    const LOOK_AFTER: Duration = Duration::from_secs(60);

    impl Acceptor {
        /// Begins to watch a process for its first member, if it is the one it says.
        pub(super) fn watch(&self, process: Process, member: MemberSlot) {
            let Some(pidfd) = held(&process) else { return };
            if self.processes.watched(&process, member) {
                let watch = Watch {
                    pidfd,
                    process,
                    processes: Arc::clone(&self.processes),
                    // Whoever closes the store does not wait for those who are connected to it.
                    local: Arc::downgrade(&self.local),
                };
                tokio::spawn(watch.run());
            }
        }
    }

    fn held((pid, says): &Process) -> Option<AsyncFd<OwnedFd>> {
        let pidfd = pidfd_open(Pid::from_raw(*pid)?, PidfdFlags::empty()).ok()?;
        // In this order: what is described is not an earlier process of this pid.
        if described(&pid.to_string())? != **says {
            return None;
        }
        register(pidfd).ok()
    }

    #[expect(deprecated, reason = "an `OwnedFd` stays open for as long as it is registered")]
    fn register(pidfd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
        AsyncFd::with_interest(pidfd, Interest::READABLE)
    }

    struct Watch {
        pidfd: AsyncFd<OwnedFd>,
        process: Process,
        processes: Arc<Processes>,
        local: Weak<Local>,
    }

    impl Watch {
        async fn run(self) {
            loop {
                let ended = tokio::time::timeout(LOOK_AFTER, self.pidfd.readable()).await;
                let Some(local) = self.local.upgrade() else { return };
                let processes = &self.processes;
                match ended {
                    Ok(Ok(_)) => {
                        let died = |member| call(member, Command::Lost { how: Loss::Died });
                        let members = processes.ended(&self.process);
                        local.shared().tell_all(members.into_iter().map(died));
                        return;
                    }
                    // The runtime ends, and everything with it.
                    Ok(Err(_)) => return,
                    Err(_) => {
                        let mut members = processes.members_of(&self.process);
                        let is_open = local.look(|shard| {
                            members.retain(|member| is_forgotten(shard.ledger(), *member));
                        });
                        if is_open.is_none() || processes.forgotten(&self.process, &members) {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn is_forgotten(ledger: &bellwether_core::ledger::Ledger, member: MemberSlot) -> bool {
        ledger.member_id(member).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MemberSlot = MemberSlot(1);
    const B: MemberSlot = MemberSlot(2);

    fn process(pid: i32) -> Process {
        (pid, "boot 1 1".into())
    }

    #[test]
    fn a_process_takes_all_its_members_along_and_nobody_elses() {
        let (processes, one, other) = (Processes::default(), process(7), process(8));
        assert!(processes.watched(&one, A) && processes.watched(&other, MemberSlot(3)));
        assert!(!processes.watched(&one, A), "once is enough");
        assert!(processes.joined(B, Some(&one)));
        assert_eq!(processes.ended(&one), [A, B].into());
        assert_eq!(processes.ended(&one), BTreeSet::new());
        assert!(!processes.joined(A, Some(&one)), "nobody watches it any more");
    }

    #[test]
    fn a_member_belongs_to_the_process_it_joined_from_last() {
        let (processes, one, other) = (Processes::default(), process(7), process(8));
        assert!(processes.watched(&one, A) && processes.watched(&other, B));
        assert!(processes.joined(A, Some(&other)));
        assert_eq!(processes.ended(&one), BTreeSet::new());
        assert!(!processes.joined(A, None), "it came from where nothing can be proved");
        assert_eq!(processes.ended(&other), [B].into());
    }

    #[test]
    fn who_has_no_members_left_is_not_watched() {
        let (processes, one) = (Processes::default(), process(7));
        assert!(processes.watched(&one, A) && processes.joined(B, Some(&one)));
        assert!(!processes.forgotten(&one, &[A]));
        assert_eq!(processes.members_of(&one), [B]);
        assert!(processes.forgotten(&one, &[B]));
        assert!(!processes.joined(A, Some(&one)));
    }
}
