//! Looking through a queue, page by page.

use std::ops::ControlFlow;

use bellwether::delivery::Received;
use bellwether::{Error, Queue, SequenceNumber};

const PAGE_FIRST: u32 = 16;
const PAGE_MAX: u64 = 1000;
/// A page is about so large, whatever the size of the messages.
const PAGE_BYTES: u64 = 4 << 20;

/// A walk over the messages of one half of a queue, by number.
pub(crate) struct Pages {
    queue: Queue,
    session: Option<String>,
    next: SequenceNumber,
    max: u32,
}

impl Pages {
    pub(crate) fn of(queue: &Queue, from: SequenceNumber, session: Option<&str>) -> Self {
        let session = session.map(str::to_owned);
        Self { queue: queue.clone(), session, next: from, max: PAGE_FIRST }
    }

    /// The next page; empty at the end.
    pub(crate) async fn next(&mut self) -> Result<Vec<Received>, Error> {
        let page = match &self.session {
            Some(session) => self.queue.peek_session(session, self.next, self.max).await?,
            None => self.queue.peek(self.next, self.max).await?,
        };
        let Some(last) = page.last() else { return Ok(page) };
        self.next = SequenceNumber(last.sequence().0 + 1);
        let sizes = page.iter().map(|m| m.message().map_or(0, |m| m.body().len() as u64 + 256));
        let bytes: u64 = sizes.sum();
        let fits = page.len() as u64 * PAGE_BYTES / bytes.max(1);
        self.max = u32::try_from(fits.clamp(1, PAGE_MAX)).unwrap_or(PAGE_FIRST);
        Ok(page)
    }

    /// Visits message after message until there is none, or `visit` has seen enough.
    pub(crate) async fn each<E: From<Error>>(
        mut self,
        mut visit: impl FnMut(Received) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        loop {
            let page = self.next().await?;
            if page.is_empty() {
                return Ok(());
            }
            for received in page {
                if visit(received)?.is_break() {
                    return Ok(());
                }
            }
        }
    }
}

/// One message, by its number.
pub(crate) async fn find(
    queue: &Queue,
    sequence: SequenceNumber,
) -> Result<Option<Received>, Error> {
    let found = queue.peek(sequence, 1).await?;
    Ok(found.into_iter().next().filter(|received| received.sequence() == sequence))
}
