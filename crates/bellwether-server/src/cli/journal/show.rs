//! Changes in words: one change, one line.

use std::fmt::{self, Write as _};

use bellwether_core::change::{Change, Hold, KeptOutcome};
use bellwether_core::codec::{self, Reader};
use bellwether_core::job::{JobRecord, JobSettings};
use bellwether_core::lease::{Hold as LeaseHold, Lease};
use bellwether_core::message::{Message, Reason, Standing, State};
use bellwether_core::name::{At, JobId, Part};
use bellwether_core::schedule::{ScheduleRecord, ScheduleSettings};
use bellwether_core::settings::QueueSettings;
use bellwether_core::time::{BootTime, WallTime};

use super::super::human::Wall;

/// Bytes between a content's change and the content: its checksum.
const CONTENT_CHECKSUM_BYTES: usize = 4;

/// A change as it was found.
pub(crate) struct Shown<'a> {
    /// Its first byte in the payload.
    pub(super) offset: usize,
    pub(crate) change: Change,
    /// The bytes that follow a [`Change::Content`].
    pub(super) content: &'a [u8],
}

/// Decodes a payload change by change. An `Err` says what does not make sense, or is `visit`'s own.
pub(crate) fn each_change(
    payload: &[u8],
    mut visit: impl FnMut(&Shown<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = Reader::new(payload);
    let bad = |e: codec::BadBytes| e.to_string();
    while !reader.is_empty() {
        let offset = reader.position();
        // Times since boot are not kept; durations then read as times after zero.
        let change = codec::decode_change(&mut reader, BootTime(0)).map_err(bad)?;
        let content = match change {
            Change::Content { len, .. } => {
                reader.take(CONTENT_CHECKSUM_BYTES).map_err(bad)?;
                reader.take(len as usize).map_err(bad)?
            }
            _ => &[],
        };
        visit(&Shown { offset, change, content })?;
    }
    Ok(())
}

/// A change on one line.
pub(super) fn line(shown: &Shown<'_>, contents: bool) -> String {
    let mut line = String::new();
    // Writing to a string does not fail.
    let _ = put_change(&mut line, &shown.change);
    if contents && matches!(shown.change, Change::Content { .. }) {
        let _ = write!(line, " \"{}\"", shown.content.escape_ascii());
    }
    line
}

fn put_change(out: &mut String, change: &Change) -> fmt::Result {
    match change {
        Change::Opened { incarnation } => write!(out, "opened incarnation={incarnation}"),
        Change::Queue { id, name, settings, created_at } => {
            write!(out, "queue {id} {name:?} created={}", Wall(*created_at))?;
            put_settings(out, settings)
        }
        Change::QueueGone { id } => write!(out, "queue-gone {id}"),
        Change::QueueTotals { id, as_of, next, totals } => {
            write!(out, "queue-totals {id} as-of-frame={as_of} next={next} {totals:?}")
        }
        Change::Content { id, index: _, len } => write!(out, "content {} {len} bytes", id.0),
        Change::ContentAt { id, place } => write!(
            out,
            "content-at {} {:016x}.log byte {}, {} bytes",
            id.0, place.unit, place.offset, place.len
        ),
        Change::Message { at, message, session, arrived } => {
            write!(out, "message {}", Where(*at))?;
            put_message(out, message)?;
            if let Some(session) = session {
                write!(out, " session={session:?}")?;
            }
            if *arrived { out.write_str(" arrived") } else { Ok(()) }
        }
        Change::Standing { at, standing } => {
            write!(out, "standing {}", Where(*at))?;
            put_standing(out, standing)
        }
        Change::Gone { at, why } => write!(out, "gone {} {why:?}", Where(*at)),
        Change::Duplicate { queue } => write!(out, "duplicate {queue}"),
        Change::Seen { queue, id_hash, at } => {
            write!(out, "seen {queue} id-hash={id_hash:032x} at={}", Wall(*at))
        }
        Change::Session { queue, session, number, hold, state } => {
            write!(out, "session {queue} {session:?} number={number}")?;
            match hold {
                Some(Hold { member, lock_ms, incarnation }) => write!(
                    out,
                    " held member={} lock_ms={lock_ms} incarnation={incarnation}",
                    member.0
                )?,
                None => out.write_str(" free")?,
            }
            if state.0 == 0 { Ok(()) } else { write!(out, " state={}", state.0) }
        }
        Change::Member { slot, id, metadata, ttl_ms, joined_at } => write!(
            out,
            "member {} {id} ttl_ms={} joined={} metadata={metadata:?}",
            slot.0,
            Ms(*ttl_ms),
            Wall(*joined_at)
        ),
        Change::MemberGone { slot, forgotten } => {
            write!(out, "member-gone {}{}", slot.0, if *forgotten { " forgotten" } else { "" })
        }
        Change::Kept { member, number, answered_below, outcome } => {
            write!(out, "kept member={} request={number} below={answered_below} ", member.0)?;
            match outcome {
                KeptOutcome::Plain(outcome) => write!(out, "{outcome:?}"),
                KeptOutcome::Deliveries { queue, part, tokens } => {
                    write!(out, "deliveries {queue}/{} {tokens:?}", part_name(*part))
                }
            }
        }
        Change::Lease { name, slot, lease } => {
            write!(out, "lease {name:?}")?;
            if *slot != 0 {
                write!(out, " slot={slot}")?;
            }
            put_lease(out, lease)
        }
        Change::TermEnded { name, term, at, by } => {
            write!(out, "term-ended {name:?} term={term} at={} by={by:?}", Wall(*at))
        }
        Change::Job { id, record } => put_job(out, *id, record),
        Change::JobGone { id } => write!(out, "job-gone {id}"),
        Change::Items { job, first, count, state } => {
            write!(out, "items {job}/{first} count={count} {state:?}")
        }
        Change::Schedule { record } => put_schedule(out, record),
        Change::ScheduleGone { name } => write!(out, "schedule-gone {name:?}"),
        Change::TermsFrom { term } => write!(out, "terms-from {term}"),
    }
}

fn put_job(out: &mut String, id: JobId, record: &JobRecord) -> fmt::Result {
    let JobRecord { name, settings, gather, created_at, items, ended, gathered } = record;
    let JobSettings { queue, gather_to, on_failure, deadline_ms, retention_ms } = settings;
    write!(out, "job {id} {name:?} queue={queue:?} created={}", Wall(*created_at))?;
    write!(out, " on_failure={on_failure:?} retention_ms={retention_ms}")?;
    put_some(out, "items", items.as_ref())?;
    put_some(out, "deadline_ms", deadline_ms.as_ref())?;
    if let Some(queue) = gather_to {
        write!(out, " gather_to={queue:?} content={}", gather.0)?;
    }
    if let Some(ended) = ended {
        write!(out, " ended={:?} at={}", ended.how, Wall(ended.at))?;
    }
    if *gathered { out.write_str(" gathered") } else { Ok(()) }
}

fn put_schedule(out: &mut String, record: &ScheduleRecord) -> fmt::Result {
    let ScheduleRecord { name, settings, content, created_at, next, last, sent, skipped } = record;
    let ScheduleSettings { rule, zone, queue, session, missed } = settings;
    write!(out, "schedule {name:?} {rule:?} zone={zone:?} queue={queue:?} missed={missed:?}")?;
    put_some(out, "session", session.as_ref())?;
    write!(out, " content={} created={}", content.0, Wall(*created_at))?;
    for (what, at) in [("next", next), ("last", last)] {
        if let Some(at) = at {
            write!(out, " {what}={}", Wall(*at))?;
        }
    }
    write!(out, " sent={sent} skipped={skipped}")
}

fn put_settings(out: &mut String, settings: &QueueSettings) -> fmt::Result {
    let QueueSettings {
        lock_ms,
        deliveries_max,
        ttl_ms,
        dead_letter_expired,
        duplicate_window_ms,
        sessions,
        forward_to,
        forward_dead_letters_to,
        delete_idle_ms,
        status,
        size_bytes_max,
        message_bytes_max,
        durability,
    } = settings;
    write!(out, " lock_ms={lock_ms} deliveries_max={deliveries_max}")?;
    write!(out, " size_bytes_max={size_bytes_max} message_bytes_max={message_bytes_max}")?;
    write!(out, " status={status:?} durability={durability:?}")?;
    put_some(out, "ttl_ms", ttl_ms.as_ref())?;
    put_some(out, "duplicate_window_ms", duplicate_window_ms.as_ref())?;
    put_some(out, "forward_to", forward_to.as_ref())?;
    put_some(out, "forward_dead_letters_to", forward_dead_letters_to.as_ref())?;
    put_some(out, "delete_idle_ms", delete_idle_ms.as_ref())?;
    let flags = [("sessions", *sessions), ("dead_letter_expired", *dead_letter_expired)];
    for (name, _) in flags.into_iter().filter(|(_, is)| *is) {
        write!(out, " {name}")?;
    }
    Ok(())
}

fn put_some(out: &mut String, name: &str, value: Option<&impl fmt::Debug>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(out, " {name}={value:?}"))
}

fn put_message(out: &mut String, message: &Message) -> fmt::Result {
    let Message { content, enqueued_at, expires_at, origin, session: _, source, standing } =
        message;
    write!(out, " content={} enqueued={}", content.0, Wall(*enqueued_at))?;
    if *expires_at != WallTime::NEVER {
        write!(out, " expires={}", Wall(*expires_at))?;
    }
    write!(out, " origin={origin}")?;
    if source.0 != 0 {
        write!(out, " dead-letter-of={source}")?;
    }
    put_standing(out, standing)
}

fn put_standing(out: &mut String, standing: &Standing) -> fmt::Result {
    let Standing { state, number, deliveries, failures, crashes, releases, reason, hops, overlay } =
        standing;
    match state {
        State::Ready => out.write_str(" ready")?,
        State::Scheduled { due } => write!(out, " scheduled due={}", Wall(*due))?,
        State::Delayed { due } => write!(out, " delayed due={}", Wall(*due))?,
        State::Locked(lock) => write!(
            out,
            " locked member={} lock_ms={} incarnation={}{}",
            lock.member.0,
            lock.lock_ms,
            lock.incarnation,
            if lock.deferred { " was-deferred" } else { "" }
        )?,
        State::Deferred => out.write_str(" deferred")?,
    }
    if number.0 != 0 {
        write!(out, " number={number}")?;
    }
    for (name, count) in [
        ("deliveries", *deliveries),
        ("failures", (*failures).into()),
        ("crashes", (*crashes).into()),
        ("releases", (*releases).into()),
        ("hops", (*hops).into()),
    ] {
        if count != 0 {
            write!(out, " {name}={count}")?;
        }
    }
    if *reason != Reason::None {
        write!(out, " reason={reason:?}")?;
    }
    if overlay.0 == 0 { Ok(()) } else { write!(out, " overlay={}", overlay.0) }
}

fn put_lease(out: &mut String, lease: &Lease) -> fmt::Result {
    let Lease {
        term,
        hold,
        kind,
        ttl_ms,
        member,
        metadata,
        granted_at,
        version,
        step_down_asked,
        successor,
        paused,
        slots,
    } = lease;
    write!(out, " term={term}")?;
    match hold {
        LeaseHold::Free => out.write_str(" free")?,
        LeaseHold::Held { id, .. } => write!(out, " held id={id:?}")?,
        LeaseHold::Broken { id, until } => {
            write!(out, " broken id={id:?} remaining_ms={}", Ms(until.0))?;
        }
    }
    write!(out, " {kind:?} ttl_ms={} member={}", Ms(*ttl_ms), member.0)?;
    write!(out, " granted={}", Wall(*granted_at))?;
    write!(out, " version={version} metadata={metadata:?}")?;
    if *step_down_asked {
        out.write_str(" step-down-asked")?;
    }
    if successor.0 != 0 {
        write!(out, " successor={}", successor.0)?;
    }
    if *paused {
        out.write_str(" paused")?;
    }
    if *slots == 1 { Ok(()) } else { write!(out, " slots={slots}") }
}

fn part_name(part: Part) -> &'static str {
    match part {
        Part::Main => "main",
        Part::Dead => "dead",
    }
}

/// A message's address: queue/part/sequence.
struct Where(At);

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let At { queue, part, sequence } = self.0;
        write!(f, "{queue}/{}/{sequence}", part_name(part))
    }
}

/// A duration in milliseconds, which may be infinite.
struct Ms(u64);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == u64::MAX { f.write_str("infinite") } else { self.0.fmt(f) }
    }
}
