//! A guardian at work: it watches, and speaks for the dead.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::time::Duration;

use bellwether_core::name::{LeaseId, LeaseName};
use bellwether_core::time::BootTime;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::time::MissedTickBehavior;

use super::census::Census;
use super::ear::Ear;
use super::word::{Answer, Word};
use crate::clock::Clock;
use crate::elections::Elections;

/// Between two looks at who is there while all is well. Whoever came between the last one and the end
/// is unsure.
const LOOK: Duration = Duration::from_millis(100);
/// Between two looks at who is left.
const ROUND: Duration = Duration::from_millis(5);
const ROUND_MAX: Duration = Duration::from_millis(100);
/// Between two attempts to reach the engine, and for how long.
const AGAIN: Duration = Duration::from_millis(100);
const REACH_MS_MAX: u64 = 60_000;

/// What is to be given back, with its ttl.
type Kept = BTreeMap<LeaseId, (LeaseName, u64)>;

pub(super) async fn keep() -> io::Result<()> {
    super::turn_a_deaf_ear()?;
    let socket = Socket::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    let second = UnixStream::from_std(socket.try_clone()?)?;
    let (mut ear, mut mouth) = (Ear::new(UnixStream::from_std(socket)?), second.into_split().1);
    let mut words = ear.hear().await.into_iter();
    let Some(Word::Watch { pid, address }) = words.next() else {
        return Err(io::Error::other("nobody said whom to watch"));
    };
    let watched = crate::open::check_built_in(&address).and_then(|()| watch(pid));
    let (pidfd, mut census) = match watched {
        Ok(watched) => watched,
        Err(why) => return tell(&mut mouth, &Answer::Cannot(why)).await,
    };
    tell(&mut mouth, &Answer::Ready).await?;
    let mut kept = Kept::new();
    let mut is_over = take(&mut kept, words);
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !is_over {
        tokio::select! {
            biased;
            ended = pidfd.readable() => {
                let _ = ended?;
                break;
            }
            words = ear.hear(), if !ear.is_over => {
                is_over = take(&mut kept, words) || (ear.is_over && kept.is_empty());
            }
            // What cannot be seen now is unsure later.
            _ = looks.tick() => drop(census.look()),
        }
    }
    if is_over || take(&mut kept, ear.rest()) || kept.is_empty() {
        return Ok(());
    }
    let clock = Clock::System;
    // What has run out needs no giving back.
    let ttl_ms = kept.values().map(|(_, ttl_ms)| *ttl_ms).max().unwrap_or_default();
    let until = clock.boot().plus_ms(ttl_ms.saturating_mul(2));
    let (is_nobody_left, opened) =
        tokio::join!(nobody_left(&mut census, &clock, until), Elections::open(&*address));
    if !is_nobody_left {
        return Ok(());
    }
    let elections = match opened {
        Ok(elections) => Some(elections),
        Err(_) => reach(&address, &clock, until.min(clock.boot().plus_ms(REACH_MS_MAX))).await,
    };
    if let Some(elections) = elections {
        give_back(&elections, kept).await;
        elections.close().await;
    }
    Ok(())
}

/// Holds on to the process that has started this one.
fn watch(pid: u32) -> Result<(AsyncFd<OwnedFd>, Census), String> {
    let gone = || "it has ended".to_owned();
    let main = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let pidfd = pidfd_open(main, PidfdFlags::empty())
        .map_err(|error| format!("the kernel does not let it watch a process: {error}"))?;
    // In this order: while it is our parent its number is not given to another.
    if getppid() != Some(main) {
        return Err(gone());
    }
    let census = Census::new(main.as_raw_nonzero().get())?;
    Ok((register(pidfd).map_err(|error| error.to_string())?, census))
}

#[expect(deprecated, reason = "an `OwnedFd` stays open for as long as it is registered")]
fn register(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd, Interest::READABLE)
}

async fn tell(mouth: &mut OwnedWriteHalf, answer: &Answer) -> io::Result<()> {
    mouth.write_all(format!("{answer}\n").as_bytes()).await
}

/// Whether that was all.
fn take(kept: &mut Kept, words: impl IntoIterator<Item = Word>) -> bool {
    for word in words {
        match word {
            Word::Asked { id, ttl_ms, lease } => drop(kept.insert(id, (lease, ttl_ms))),
            Word::Done(id) => drop(kept.remove(&id)),
            Word::Goodbye => return true,
            Word::Watch { .. } => {}
        }
    }
    false
}

/// Waits until nobody is left of the process; false if that took longer than it matters.
async fn nobody_left(census: &mut Census, clock: &Clock, until: BootTime) -> bool {
    let mut pause = ROUND;
    while clock.boot() < until {
        if !census.is_anybody_left() && !census.is_anybody_left() {
            return true;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(ROUND_MAX);
    }
    false
}

async fn reach(address: &str, clock: &Clock, until: BootTime) -> Option<Elections> {
    while clock.boot() < until {
        if let Ok(elections) = Elections::open(address).await {
            return Some(elections);
        }
        tokio::time::sleep(AGAIN).await;
    }
    None
}

/// All at once: none of them waits for another that cannot be given back.
async fn give_back(elections: &Elections, kept: Kept) {
    let mut releases = tokio::task::JoinSet::new();
    for (id, (lease, _)) in kept {
        let elections = elections.clone();
        // What cannot be given back runs out.
        releases.spawn(async move { drop(elections.release(lease.as_str(), id).await) });
    }
    releases.join_all().await;
}
