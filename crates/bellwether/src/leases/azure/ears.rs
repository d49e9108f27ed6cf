//! Hints between those who share a container: the service tells nobody that a lease is free, so
//! whoever gives one back tells those who wait, by a datagram.
//!
//! ```text
//!   who waits ── listens at an address ─► written beside the election, in ELECTION.ears
//!   who gives back ── reads them ─► a datagram to each: look now
//! ```
//!
//! A hint may be lost, doubled or made up: it only makes somebody look sooner than it would have.
//! The blob is the truth, and whoever hears nothing looks about once a second all the same.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::time::WallTime;
use tokio::net::UdpSocket;
use tokio::sync::{OnceCell, broadcast};
use tokio_util::task::AbortOnDropHandle;

use super::blob::{BlobFault, Container};
use crate::clock::Clock;

/// What a hint begins with; the name of the blob follows.
const HINT: &[u8] = b"bellwether look ";
const HINT_BYTES_MAX: usize = 2048;
/// Whoever has not said for so long that it listens has gone.
const EAR_MINUTES_MAX: u64 = 15;
/// How often whoever waits says so again.
pub(super) const LISTEN_AGAIN: Duration = Duration::from_secs(300);
/// So many listeners are written down; those who came first are forgotten first.
const EARS_MAX: usize = 64;
/// Somebody else wrote at the same moment: so often is it tried again.
const TRIES: u32 = 5;
/// A hint that takes longer comes too late to help.
const TELL_MAX: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ears {
    open: OnceCell<Ear>,
}

/// The one socket of this process.
#[derive(Debug)]
struct Ear {
    at: SocketAddr,
    heard: broadcast::Sender<Arc<str>>,
    _listening: AbortOnDropHandle<()>,
}

impl Ears {
    /// Hears which blobs are to be looked at; nothing at all if this machine gives us no socket.
    pub(super) async fn listen(
        &self,
        server: (&str, u16),
    ) -> Option<broadcast::Receiver<Arc<str>>> {
        let ear = self.open.get_or_try_init(|| Ear::open(server)).await.ok()?;
        Some(ear.heard.subscribe())
    }

    /// Writes down that we wait for this blob. A service that does not let us makes us wait longer.
    pub(super) async fn register(&self, container: &Container, blob: &str, now: WallTime) {
        let Some(ear) = self.open.get() else { return };
        let (beside, minute) = (beside(blob), now.0 / 60_000);
        for _ in 0..TRIES {
            let (etag, mut entries) = match container.read_ears(&beside).await {
                Ok((etag, text)) => (Some(etag), Entry::read_all(&text, minute)),
                Err(fault) if fault.is_missing() => (None, Vec::new()),
                Err(_) => return,
            };
            entries.retain(|entry| entry.at != ear.at);
            entries.push(Entry { at: ear.at, minute });
            let text = Entry::write_all(&entries);
            match container.write_ears(&beside, etag.as_deref(), &text).await {
                Err(fault) if fault.is_changed() || is_made(&fault) => {}
                _ => return,
            }
        }
    }
}

/// Tells everybody who waits for this blob to look at it.
pub(super) async fn tell(container: &Container, blob: &str, now: WallTime) {
    let telling = async {
        let Ok((_, text)) = container.read_ears(&beside(blob)).await else { return };
        let hint = [HINT, blob.as_bytes()].concat();
        for Entry { at, .. } in Entry::read_all(&text, now.0 / 60_000) {
            let any: IpAddr = if at.is_ipv4() {
                Ipv4Addr::UNSPECIFIED.into()
            } else {
                std::net::Ipv6Addr::UNSPECIFIED.into()
            };
            if let Ok(socket) = UdpSocket::bind((any, 0)).await {
                // A hint that cannot be sent is a hint that was lost.
                let _ = socket.send_to(&hint, at).await;
            }
        }
    };
    let _ = tokio::time::timeout(TELL_MAX, telling).await;
}

impl Ear {
    /// At the address of ours from which the service is reached: others who reach it can reach that,
    /// too, more often than not.
    async fn open(server: (&str, u16)) -> std::io::Result<Self> {
        let way = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        way.connect(server).await?;
        let socket = UdpSocket::bind((way.local_addr()?.ip(), 0)).await?;
        let at = socket.local_addr()?;
        let heard = broadcast::Sender::new(64);
        let telling = heard.clone();
        let listening = crate::renewer::spawn(&Clock::System, async move {
            let mut hint = [0; HINT_BYTES_MAX];
            // What cannot be received any more is not heard, and polling goes on.
            while let Ok(length) = socket.recv(&mut hint).await {
                let blob = hint[..length].strip_prefix(HINT).map(std::str::from_utf8);
                if let Some(Ok(blob)) = blob {
                    // Nobody may wait just now.
                    let _ = telling.send(blob.into());
                }
            }
        });
        Ok(Self { at, heard, _listening: AbortOnDropHandle::new(listening) })
    }
}

/// No election's blob has such a name: a dot is written otherwise there.
fn beside(blob: &str) -> String {
    format!("{blob}.ears")
}

/// Somebody else made the blob first.
fn is_made(fault: &BlobFault) -> bool {
    fault.code().ends_with("AlreadyExists")
}

/// Somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: SocketAddr,
    /// When it last said so, in minutes of the wall clock.
    minute: u64,
}

impl Entry {
    /// Those of them who may still be there.
    fn read_all(text: &str, minute: u64) -> Vec<Self> {
        let read = |word: &str| {
            let (at, minute) = word.split_once('@')?;
            Some(Self { at: at.parse().ok()?, minute: minute.parse().ok()? })
        };
        let entries = text.split(' ').filter_map(read);
        entries.filter(|entry| entry.minute + EAR_MINUTES_MAX >= minute).collect()
    }

    fn write_all(entries: &[Self]) -> String {
        let newest = &entries[entries.len().saturating_sub(EARS_MAX)..];
        let words = newest.iter().map(|entry| format!("{}@{}", entry.at, entry.minute));
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_is_forgotten_and_nonsense_is_passed_over() {
        let text = "10.0.0.7:4000@100 nonsense 10.0.0.8:4001@x [::1]:9@109 10.0.0.9:70000@109";
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let ats = |minute| -> Vec<SocketAddr> {
            Entry::read_all(text, minute).into_iter().map(|entry| entry.at).collect()
        };
        assert_eq!(ats(115), [at("10.0.0.7:4000"), at("[::1]:9")]);
        assert_eq!(ats(116), [at("[::1]:9")]);
        assert_eq!(ats(0), [at("10.0.0.7:4000"), at("[::1]:9")], "clocks differ");
    }

    #[test]
    fn what_is_written_is_read_again_and_has_an_end() {
        let entry = |port| Entry { at: (Ipv4Addr::LOCALHOST, port).into(), minute: 7 };
        let all: Vec<Entry> = (1..=100).map(entry).collect();
        let read = Entry::read_all(&Entry::write_all(&all), 7);
        assert_eq!(read, all[100 - EARS_MAX..], "the newest");
        assert!(Entry::write_all(&all).len() < 4096, "within what a blob's metadata holds");
    }

    #[tokio::test]
    async fn a_hint_is_heard_and_whatever_else_arrives_is_not() {
        let ears = Ears::default();
        let mut heard = ears.listen(("127.0.0.1", 9)).await.unwrap();
        let at = ears.open.get().unwrap().at;
        let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        for bytes in [&b"hello"[..], b"bellwether look \xff", b"bellwether look orders"] {
            stranger.send_to(bytes, at).await.unwrap();
        }
        assert_eq!(&*heard.recv().await.unwrap(), "orders");
    }
}
