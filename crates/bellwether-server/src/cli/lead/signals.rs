//! Signals to `lead`: heard from when it starts, and passed on to its command.

use std::future::poll_fn;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use super::super::failure::Failure;

/// All that is passed on. What stops and continues processes is between a shell and its jobs.
const ALL: [Signal; 8] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::ALARM,
];

/// See the module.
#[derive(Debug)]
pub(in crate::cli) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(in crate::cli) fn listen() -> Result<Self, Failure> {
        let hear = |signal: Signal| {
            let heard = unix::signal(SignalKind::from_raw(signal.as_raw()));
            let failed = |e| Failure::Internal(format!("cannot listen to signals: {e}"));
            heard.map(|heard| (signal, heard)).map_err(failed)
        };
        ALL.into_iter().map(hear).collect::<Result<_, _>>().map(Self)
    }

    /// The next one. Safe to drop and call again.
    pub(in crate::cli) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let heard = |(signal, heard): &mut (Signal, unix::Signal)| {
                heard.poll_recv(context).is_ready().then_some(*signal)
            };
            self.0.iter_mut().find_map(heard).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The next one that ends a program which has nothing to pass it on to.
    pub(in crate::cli) async fn end(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if is_wish_to_stop(signal) || [Signal::HUP, Signal::QUIT].contains(&signal) {
                return signal;
            }
        }
    }
}

/// What `lead` itself heeds, besides passing it on.
pub(in crate::cli) fn is_wish_to_stop(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT].contains(&signal)
}
