//! Parting: how a connection is closed on which the last words were said.
//!
//! ```text
//!   last words ─► nothing more is said ─► what still comes is thrown away ─► closed
//!                                          until the other side closes, too, but only for a moment
//! ```
//!
//! A socket that is closed while bytes lie in it that nobody has read, or more of them come, is
//! reset; and a reset may throw away what the other side has not read yet: the last words, and
//! answers before them. So whoever is still sending is let finish. Who does not finish gains
//! nothing by it.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// A few round trips to the other side of the world.
const LISTEN_MAX: Duration = Duration::from_millis(500);
/// What may be on its way when the last words arrive: as much as Linux lets the sockets of both sides
/// hold, if nobody says otherwise.
const LISTEN_BYTES_MAX: u64 = 10 << 20;
/// Read at once: there may be as many who part as there are connections.
const BUFFER_BYTES: usize = 4 * 1024;

/// Closes a stream on which everything was said; see the module.
pub async fn part(stream: impl AsyncRead + AsyncWrite + Unpin) {
    part_within(stream, LISTEN_MAX, LISTEN_BYTES_MAX).await;
}

async fn part_within(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    time_max: Duration,
    bytes_max: u64,
) {
    let listen = async {
        // If that fails there is nobody to listen to.
        stream.shutdown().await.ok()?;
        // Not a part of the connection's task, which would be that much larger for all its life.
        let mut thrown_away = vec![0; BUFFER_BYTES];
        let mut bytes = 0;
        while let Ok(read @ 1..) = stream.read(&mut thrown_away).await {
            bytes += read as u64;
            if bytes > bytes_max {
                break;
            }
        }
        Some(())
    };
    let _ = tokio::time::timeout(time_max, listen).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    const FOR_EVER: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn who_is_still_sending_is_let_finish_and_hears_the_last_words() {
        let (mut ours, mut theirs) = duplex(1000);
        let sending = async {
            theirs.write_all(&vec![1; 100_000]).await.unwrap();
            theirs.shutdown().await.unwrap();
            let mut heard = Vec::new();
            theirs.read_to_end(&mut heard).await.unwrap();
            heard
        };
        ours.write_all(b"goodbye").await.unwrap();
        let (heard, ()) = tokio::join!(sending, part_within(ours, FOR_EVER, u64::MAX));
        assert_eq!(heard, b"goodbye");
    }

    #[tokio::test]
    async fn who_never_finishes_is_not_listened_to_for_ever() {
        let (ours, mut theirs) = duplex(1000);
        let sending = async { while theirs.write_all(&[1; 1000]).await.is_ok() {} };
        tokio::join!(sending, part_within(ours, FOR_EVER, 100_000));
        let (ours, theirs) = duplex(1000);
        part_within(ours, Duration::from_millis(1), u64::MAX).await;
        drop(theirs);
    }
}
