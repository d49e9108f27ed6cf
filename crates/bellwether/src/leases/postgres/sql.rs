//! What PostgreSQL is asked. Text is written as hexadecimal bytes wherever it is somebody else's.

use std::fmt::Write as _;
use std::time::Duration;

use bellwether_core::command::Acquire;
use bellwether_core::limits;
use bellwether_core::name::{LeaseId, LeaseName, MemberId};

use super::Held;

pub(super) const ARE_TABLES_THERE: &str = "SELECT to_regclass('bellwether_leases') IS NOT NULL \
     AND to_regclass('bellwether_line') IS NOT NULL";

/// Two who make them at once would both find them missing, and one would fail.
pub(super) const TABLES: &str = "
    SELECT pg_advisory_xact_lock(7386465122071406708);
    CREATE TABLE IF NOT EXISTS bellwether_leases (
        name text PRIMARY KEY,
        term bigint NOT NULL,
        version bigint NOT NULL,
        id text,
        member text,
        metadata bytea NOT NULL,
        ttl_ms bigint NOT NULL,
        granted_at timestamptz NOT NULL,
        ends_at timestamptz,
        step_down boolean NOT NULL
    ) WITH (fillfactor = 50);
    CREATE TABLE IF NOT EXISTS bellwether_line (
        name text NOT NULL,
        id text NOT NULL,
        member text NOT NULL,
        priority integer NOT NULL,
        arrived bigint GENERATED ALWAYS AS IDENTITY,
        until timestamptz NOT NULL,
        named boolean NOT NULL DEFAULT false,
        PRIMARY KEY (name, id)
    ) WITH (fillfactor = 50);";

/// The channel of NOTIFY.
pub(super) const CHANNEL: &str = "bellwether";

/// What every change begins with. A statement ends before whoever asked gives up, and a grant is
/// flushed whatever the server is set to.
fn begin(patience: Duration) -> String {
    let ms = patience.as_millis().max(100) * 9 / 10;
    format!(
        "SET LOCAL statement_timeout = {ms}; SET LOCAL lock_timeout = {ms}; \
         SELECT set_config('synchronous_commit', 'on', true) \
           WHERE current_setting('synchronous_commit') IN ('off', 'local'); "
    )
}

fn text(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    if text.bytes().all(is_plain) {
        return format!("'{text}'::text");
    }
    format!("convert_from({}, 'UTF8')", blob(text.as_bytes()))
}

fn blob(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(bytes.len() * 2 + 20);
    hex.push_str("decode('");
    for byte in bytes {
        let _ = write!(hex, "{byte:02x}");
    }
    hex + "', 'hex')"
}

/// What `encode(…, 'hex')` answered.
pub(super) fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = (0..hex.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect()
}

pub(super) fn id(id: LeaseId) -> String {
    format!("{id:?}")
}

/// After so many milliseconds somebody else may be granted it.
fn lasts_ms(ttl_ms: u64) -> u64 {
    ttl_ms * limits::LEASE_GRACE_PERCENT / 100
}

/// Who of the line is before the one that asks; `line` is somebody's row, `me` our own.
const IS_BEFORE: &str = "line.until > t.now AND (line.named, line.priority, -line.arrived) > \
     (coalesce(me.named, false), coalesce(me.priority, t.priority), \
      coalesce(-me.arrived, -9223372036854775807))";

pub(super) fn look(ask: &Acquire) -> String {
    let (name, id) = (text(ask.lease.as_str()), id(ask.id));
    format!(
        "WITH t AS (SELECT clock_timestamp() AS now, {priority} AS priority) \
         SELECT lease.id = '{id}' AND lease.ends_at > t.now AS is_mine, \
           lease.id IS NULL OR lease.ends_at <= t.now AS is_free, \
           NOT EXISTS (SELECT FROM bellwether_line line \
             WHERE line.name = lease.name AND line.id <> '{id}' AND {IS_BEFORE}) AS is_first, \
           {ends} AS ends_in, {place} AS place_ends_in \
         FROM t, bellwether_leases lease \
         LEFT JOIN bellwether_line me ON me.name = lease.name AND me.id = '{id}' \
         WHERE lease.name = {name}",
        priority = ask.priority,
        ends = ms("lease.ends_at - t.now"),
        place = ms("me.until - t.now"),
    )
}

/// Whole milliseconds, rounded up.
fn ms(interval: &str) -> String {
    format!("ceil(extract(epoch FROM {interval}) * 1000)::bigint")
}

/// Takes it if it is free and our turn, or renews it if it is ours under this id.
pub(super) fn take(member: MemberId, ask: &Acquire, patience: Duration) -> String {
    let (name, id) = (text(ask.lease.as_str()), id(ask.id));
    format!(
        "{begin} \
         INSERT INTO bellwether_leases \
           VALUES ({name}, 0, 0, NULL, NULL, '', 0, clock_timestamp(), NULL, false) \
           ON CONFLICT (name) DO NOTHING; \
         SELECT FROM bellwether_leases WHERE name = {name} FOR UPDATE; \
         WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now, {priority} AS priority), \
         seen AS MATERIALIZED ( \
           SELECT lease.id IS NOT NULL AND lease.id = '{id}' AND lease.ends_at > t.now AS is_mine, \
             (lease.id IS NULL OR lease.ends_at <= t.now) AND NOT EXISTS \
               (SELECT FROM bellwether_line line WHERE line.name = lease.name \
                 AND line.id <> '{id}' AND {IS_BEFORE}) AS is_turn \
           FROM t, bellwether_leases lease \
           LEFT JOIN bellwether_line me ON me.name = lease.name AND me.id = '{id}' \
           WHERE lease.name = {name}) \
         UPDATE bellwether_leases lease SET \
           term = CASE WHEN is_mine THEN term \
             ELSE greatest(term + 1, floor(extract(epoch FROM t.now) * 1000)::bigint) END, \
           version = CASE WHEN is_mine THEN version ELSE version + 1 END, \
           granted_at = CASE WHEN is_mine THEN granted_at ELSE t.now END, \
           step_down = is_mine AND step_down, \
           id = '{id}', member = '{member}', metadata = {metadata}, ttl_ms = {ttl_ms}, \
           ends_at = t.now + interval '{lasts_ms} milliseconds' \
         FROM t, seen WHERE lease.name = {name} AND (is_mine OR is_turn) \
         RETURNING lease.term AS term; \
         DELETE FROM bellwether_line line USING bellwether_leases lease \
           WHERE line.name = {name} AND line.id = '{id}' \
             AND lease.name = line.name AND lease.id = line.id",
        begin = begin(patience),
        priority = ask.priority,
        metadata = blob(ask.metadata.as_bytes()),
        ttl_ms = ask.ttl_ms,
        lasts_ms = lasts_ms(ask.ttl_ms),
    )
}

/// Takes a place in line, or keeps it for longer.
pub(super) fn line_up(member: MemberId, ask: &Acquire, patience: Duration) -> String {
    let (name, id) = (text(ask.lease.as_str()), id(ask.id));
    format!(
        "{begin} DELETE FROM bellwether_line WHERE name = {name} AND id <> '{id}' \
           AND until < clock_timestamp() - interval '1 minute'; \
         INSERT INTO bellwether_line (name, id, member, priority, until) \
           VALUES ({name}, '{id}', '{member}', {priority}, \
             clock_timestamp() + interval '{ttl_ms} milliseconds') \
           ON CONFLICT (name, id) DO UPDATE SET until = EXCLUDED.until",
        begin = begin(patience),
        priority = ask.priority,
        ttl_ms = ask.ttl_ms,
    )
}

/// Those of them that are not over.
pub(super) fn renew(held: &[Held]) -> String {
    let values: Vec<String> = held
        .iter()
        .map(|one| format!("({}, '{}')", text(one.lease.as_str()), id(one.id)))
        .collect();
    format!(
        "{begin} UPDATE bellwether_leases lease SET ends_at = clock_timestamp() \
           + lease.ttl_ms * interval '{lasts} microseconds' \
         FROM (VALUES {values}) AS held (name, id) \
         WHERE lease.name = held.name AND lease.id = held.id AND lease.ends_at > clock_timestamp() \
         RETURNING lease.id AS id, lease.step_down AS step_down",
        begin = begin(super::PATIENCE),
        lasts = limits::LEASE_GRACE_PERCENT * 10,
        values = values.join(", "),
    )
}

pub(super) fn release(lease: &LeaseName, released: LeaseId, successor: Option<MemberId>) -> String {
    let (name, id) = (text(lease.as_str()), id(released));
    let named = successor.map_or(String::new(), |member| {
        format!(
            "UPDATE bellwether_line SET named = true \
               WHERE name = {name} AND member = '{member}' AND until > clock_timestamp() \
                 AND EXISTS (SELECT FROM bellwether_leases WHERE name = {name} AND id = '{id}');"
        )
    });
    format!(
        "{begin} SELECT FROM bellwether_leases WHERE name = {name} FOR UPDATE; {named} \
         UPDATE bellwether_leases SET id = NULL, member = NULL, ends_at = NULL, step_down = false, \
           version = version + 1 WHERE name = {name} AND id = '{id}'; \
         DELETE FROM bellwether_line WHERE name = {name} AND id = '{id}'; \
         SELECT pg_notify('{CHANNEL}', {name})",
        begin = begin(super::PATIENCE),
    )
}

/// Gives everything back.
pub(super) fn goodbye(member: MemberId, held: &[(LeaseName, LeaseId)]) -> String {
    let released: Vec<String> = held.iter().map(|(lease, id)| release(lease, *id, None)).collect();
    format!("{}; DELETE FROM bellwether_line WHERE member = '{member}'", released.join("; "))
}

pub(super) fn describe(lease: &LeaseName) -> String {
    let name = text(lease.as_str());
    format!(
        "WITH t AS (SELECT clock_timestamp() AS now) \
         SELECT lease.term, lease.version, lease.id, lease.member, lease.ttl_ms, lease.step_down, \
           encode(lease.metadata, 'hex') AS metadata, \
           lease.id IS NOT NULL AND lease.ends_at > t.now AS is_held, \
           coalesce({ends}, 0) AS ends_in, \
           floor(extract(epoch FROM lease.granted_at) * 1000)::bigint AS granted_at, \
           (SELECT string_agg(line.member, ',' ORDER BY line.named DESC, line.priority DESC, \
             line.arrived) FROM bellwether_line line \
             WHERE line.name = lease.name AND line.until > t.now) AS waiting \
         FROM t, bellwether_leases lease WHERE lease.name = {name}",
        ends = ms("lease.ends_at - t.now"),
    )
}

pub(super) fn ask_step_down(lease: &LeaseName) -> String {
    let name = text(lease.as_str());
    format!(
        "UPDATE bellwether_leases SET step_down = true, version = version + 1 \
           WHERE name = {name} AND id IS NOT NULL AND ends_at > clock_timestamp() \
           RETURNING pg_notify('{CHANNEL}', {name})"
    )
}
