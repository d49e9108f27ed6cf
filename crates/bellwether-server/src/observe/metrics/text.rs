//! A snapshot as text, in the form of `OpenMetrics`, which Prometheus reads.

use std::fmt;
use std::sync::atomic::Ordering;

use bellwether::Health;
use bellwether::stats::{Activity, Histogram, Refused};
use bellwether_core::message::Reason;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::Snapshot;
use super::drain::as_f64;
use super::rows::QueueRow;
use crate::access::Counts;
use crate::serve::{disk, memory};

/// Reads a number off a queue.
type Read = fn(&QueueRow) -> u64;

/// What waits, by state.
const STATES: [(&str, Read); 5] = [
    ("active", |row| row.counts.ready),
    ("locked", |row| row.counts.locked),
    ("scheduled", |row| row.counts.scheduled),
    ("deferred", |row| row.counts.deferred),
    ("dead", |row| row.counts.dead_letters),
];

/// Name, help and value of each counter.
const COUNTERS: [(&str, &str, Read); 13] = [
    ("messages_sent", "Messages that came in", |row| row.totals.sent),
    ("messages_duplicate", "Duplicates dropped at the door", |row| row.totals.duplicates),
    ("messages_delivered", "Deliveries", |row| row.activity.delivered),
    ("messages_completed", "Messages completed", |row| row.totals.completed),
    ("messages_abandoned", "Deliveries given back by a handler that failed", |row| {
        row.activity.abandoned
    }),
    ("messages_released", "Deliveries given back unused", |row| row.activity.released),
    ("messages_deferred", "Deliveries set aside by number", |row| row.activity.deferred),
    ("messages_expired", "Messages dropped because their time ran out", |row| row.totals.expired),
    ("messages_purged", "Messages removed by an operator", |row| row.totals.purged),
    ("messages_cancelled", "Messages taken back before they were due", |row| row.totals.cancelled),
    ("messages_forwarded", "Messages moved to another queue", |row| row.totals.forwarded),
    ("lock_renewed", "Locks started anew", |row| row.activity.locks_renewed),
    ("lock_lost", "Locks that ran out", |row| row.activity.locks_lost),
];

pub(super) fn of(snapshot: Snapshot) -> String {
    let mut registry = Registry::with_prefix("bellwether");
    registry.register_collector(Box::new(snapshot));
    let mut out = String::new();
    // Writing into a string does not fail.
    let _ = text::encode(&mut out, &registry);
    out
}

/// Labels of one line.
type Labels<'a> = [(&'static str, &'a str)];

/// Writes families of lines.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn family(
        &mut self,
        (name, help): (&str, &str),
        unit: Option<&Unit>,
        kind: MetricType,
        mut lines: impl FnMut(&mut Lines<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, unit, kind)?;
        lines(&mut Lines(encoder))
    }

    fn gauge(&mut self, names: (&str, &str), value: u64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(names.0, names.1, None, MetricType::Gauge)?;
        gauge(value).encode(encoder)
    }

    fn counter(&mut self, names: (&str, &str), value: u64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(names.0, names.1, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(encoder)
    }

    fn by_reason(
        &mut self,
        names: (&str, &str),
        counts: impl IntoIterator<Item = (&'static str, u64)>,
    ) -> fmt::Result {
        let mut counts = counts.into_iter();
        self.family(names, None, MetricType::Counter, |lines| {
            counts.try_for_each(|(reason, count)| lines.counter(&[("reason", reason)], count))
        })
    }

    fn histogram(
        &mut self,
        names: (&str, &str),
        unit: Option<&Unit>,
        seen: &Histogram,
        per_one: f64,
    ) -> fmt::Result {
        let buckets = seen.buckets.iter();
        let mut buckets: Vec<_> =
            buckets.map(|(to, count)| (as_f64(*to) / per_one, *count)).collect();
        let counted: u64 = buckets.iter().map(|(_, count)| count).sum();
        buckets.push((f64::INFINITY, seen.count.saturating_sub(counted)));
        let sum = as_f64(seen.sum) / per_one;
        let mut encoder =
            self.0.encode_descriptor(names.0, names.1, unit, MetricType::Histogram)?;
        encoder.encode_histogram::<NoLabelSet>(sum, seen.count, &buckets, None)
    }
}

/// Writes the lines of one family.
struct Lines<'a>(MetricEncoder<'a>);

impl Lines<'_> {
    fn line(&mut self, labels: &Labels<'_>, value: &impl EncodeMetric) -> fmt::Result {
        value.encode(self.0.encode_family(&labels.to_vec())?)
    }

    fn gauge(&mut self, labels: &Labels<'_>, value: u64) -> fmt::Result {
        self.line(labels, &gauge(value))
    }

    fn seconds(&mut self, labels: &Labels<'_>, value: f64) -> fmt::Result {
        self.line(labels, &ConstGauge::new(value))
    }

    fn counter(&mut self, labels: &Labels<'_>, value: u64) -> fmt::Result {
        self.line(labels, &ConstCounter::new(value))
    }

    fn deliveries(&mut self, labels: &Labels<'_>, activity: &Activity) -> fmt::Result {
        let bound = |max: Option<u32>| max.map_or(f64::INFINITY, f64::from);
        let buckets: Vec<_> = activity.completed().map(|(max, n)| (bound(max), n)).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = as_f64(activity.completed_deliveries());
        let labels = labels.to_vec();
        let mut encoder = self.0.encode_family(&labels)?;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        self.server(&mut families)?;
        self.queues(&mut families)?;
        self.elections(&mut families)
    }
}

impl Snapshot {
    fn server(&self, out: &mut Families<'_>) -> fmt::Result {
        let version = env!("CARGO_PKG_VERSION");
        out.family(("build", "The program"), None, MetricType::Info, |lines| {
            lines.0.encode_info(&vec![("version", version)])
        })?;
        let state = match self.stats.health {
            Health::Sound => "sound",
            Health::ShortOfSpace => "short_of_space",
            Health::Broken(_) => "broken",
        };
        let help = "Whether the store works: 1 for the state it is in";
        out.family(("store", help), None, MetricType::Gauge, |lines| {
            ["sound", "short_of_space", "broken"]
                .into_iter()
                .try_for_each(|word| lines.gauge(&[("state", word)], u64::from(word == state)))
        })?;
        self.connections(out)?;
        let help = "HTTP requests refused because of their Host or Origin";
        let refused = self.site.connections.refusals.read();
        out.by_reason(("http_requests_refused", help), refused)?;
        let connections = &self.site.connections;
        let help = "Bodies of HTTP requests that were too long, late or slow";
        out.by_reason(("http_bodies_refused", help), connections.bodies_refused.read())?;
        let help = "HTTP connections that were not waited for any longer";
        out.by_reason(("http_connections_dropped", help), connections.http_dropped.read())?;
        let help = "Connections of the wire that were ended because they broke a limit";
        out.by_reason(("wire_connections_dropped", help), connections.wire_dropped.read())?;
        self.limits(out)?;
        out.gauge(("members", "Members that are here"), self.stats.members)?;
        let names = ("commit_duration", "How long flushes took");
        out.histogram(names, Some(&Unit::Seconds), &self.stats.flush_us, 1e6)?;
        let names = ("commit_batch_size", "Answers that waited for the same flush");
        out.histogram(names, None, &self.stats.batch, 1.0)
    }

    /// What there is of what is limited, and how often that was not enough.
    fn limits(&self, out: &mut Families<'_>) -> fmt::Result {
        let config = &self.site.config;
        let help = "Memory that messages and ids take";
        out.gauge(("memory_bytes", help), self.stats.memory_bytes)?;
        let help = "Memory that messages and remembered ids may take";
        out.gauge(("memory_bytes_max", help), memory::of_store(config))?;
        let budget = &self.site.budget;
        let help = "Bytes of requests that are not answered yet";
        out.gauge(("asks_bytes", help), budget.taken())?;
        let help = "Bytes that requests without an answer may have together";
        out.gauge(("asks_bytes_max", help), budget.bytes_max())?;
        if let Some(free_bytes) = self.disk_free_bytes {
            let help = "Free space on the disk of the store";
            out.gauge(("disk_free_bytes", help), free_bytes)?;
            let help = "Free space below which senders are refused";
            out.gauge(("disk_free_bytes_min", help), disk::free_bytes_min(config))?;
        }
        let Refused { busy, disk_full, queue_full, too_large, too_many } = self.stats.refused;
        let help = "Requests refused because a limit was reached";
        let reasons = [
            ("asks_bytes", budget.refused()),
            ("memory", busy),
            ("disk", disk_full),
            ("queue_size", queue_full),
            ("too_large", too_large),
            ("too_many", too_many),
        ];
        out.by_reason(("asks_refused", help), reasons)
    }

    fn tls(&self, out: &mut Families<'_>) -> fmt::Result {
        let Some(tls) = &self.site.tls else { return Ok(()) };
        let help = "TLS handshakes that came to nothing";
        out.by_reason(("tls_handshakes_failed", help), tls.failed.read())?;
        let Some(last_second) = tls.last_second() else { return Ok(()) };
        let help = "When the server's certificate expires, in seconds since 1970";
        let seconds = Some(&Unit::Seconds);
        out.family(("tls_certificate_expiry", help), seconds, MetricType::Gauge, |lines| {
            lines.gauge(&[], last_second)
        })
    }

    fn connections(&self, out: &mut Families<'_>) -> fmt::Result {
        let http = &self.site.connections.http;
        out.gauge(("http_connections", "HTTP connections"), http.open())?;
        let help = "HTTP connections there may be at a time";
        out.gauge(("http_connections_max", help), http.max())?;
        let help = "HTTP connections refused because there were too many";
        out.by_reason(("http_connections_refused", help), http.refused.read())?;
        let wire = &self.site.connections.wire;
        out.gauge(("wire_connections", "Connections of the wire"), wire.open())?;
        let help = "Connections of the wire there may be at a time";
        out.gauge(("wire_connections_max", help), wire.max())?;
        let help = "Connections of the wire refused because there were too many";
        out.by_reason(("wire_connections_refused", help), wire.refused.read())?;
        let accept_failed = self.site.connections.accept_failed.load(Ordering::Relaxed);
        let help = "Connections that could not be accepted, as for want of files";
        out.counter(("connections_not_accepted", help), accept_failed)?;
        self.tls(out)?;
        let counts = self.site.access.as_ref().map(|access| access.counts()).unwrap_or_default();
        let Counts { turned, crowded, forbidden, unrecorded } = counts;
        let help = "Credentials that were missing, unknown or over";
        out.counter(("credentials_refused", help), turned)?;
        let help = "Connections and requests beyond what one rule may have at a time";
        out.counter(("rule_connections_refused", help), crowded)?;
        let help = "Asks that the credential did not allow";
        out.counter(("asks_forbidden", help), forbidden)?;
        let help = "Lines of the audit log that could not be written";
        out.counter(("audit_failures", help), unrecorded)
    }

    fn queues(&self, out: &mut Families<'_>) -> fmt::Result {
        out.gauge(("queues", "Queues"), self.queue_count)?;
        let help = "Messages in the queue, by state";
        out.family(("queue_messages", help), None, MetricType::Gauge, |lines| {
            self.queues.iter().try_for_each(|(queue, row)| {
                STATES.iter().try_for_each(|(state, read)| {
                    lines.gauge(&[("queue", queue), ("state", state)], read(row))
                })
            })
        })?;
        let help = "Bytes of all messages and dead letters of the queue";
        out.family(("queue_size", help), Some(&Unit::Bytes), MetricType::Gauge, |lines| {
            self.queues.iter().try_for_each(|(queue, row)| {
                lines.gauge(&[("queue", queue)], row.counts.size_bytes)
            })
        })?;
        let help = "Whether the queue has paused itself because its messages fail in a row";
        out.family(("queue_outage", help), None, MetricType::Gauge, |lines| {
            let mut rows = self.queues.iter();
            rows.try_for_each(|(queue, row)| lines.gauge(&[("queue", queue)], row.outages))
        })?;
        let seconds = Some(&Unit::Seconds);
        let help = "Age of the oldest message that waits for a receiver";
        out.family(("queue_oldest_message_age", help), seconds, MetricType::Gauge, |lines| {
            self.queues.iter().try_for_each(|(queue, row)| {
                let ms = row.oldest_ready.map_or(0, |at| self.now.wall.0.saturating_sub(at.0));
                lines.seconds(&[("queue", queue)], as_f64(ms) / 1000.0)
            })
        })?;
        let help = "Time until nothing waits, at the pace of late, if nothing more came in";
        out.family(("queue_time_to_drain", help), seconds, MetricType::Gauge, |lines| {
            let known =
                self.queues.iter().filter_map(|(queue, row)| Some((queue, row.drained_in?)));
            { known }.try_for_each(|(queue, time)| lines.seconds(&[("queue", queue)], time))
        })?;
        for (name, help, read) in COUNTERS {
            out.family((name, help), None, MetricType::Counter, |lines| {
                self.queues
                    .iter()
                    .try_for_each(|(queue, row)| lines.counter(&[("queue", queue)], read(row)))
            })?;
        }
        let help = "Deliveries that completed messages took";
        out.family(("message_deliveries", help), None, MetricType::Histogram, |lines| {
            self.queues
                .iter()
                .try_for_each(|(queue, row)| lines.deliveries(&[("queue", queue)], &row.activity))
        })?;
        let help = "Messages that became dead letters, by reason";
        out.family(("messages_dead_lettered", help), None, MetricType::Counter, |lines| {
            self.queues.iter().try_for_each(|(queue, row)| {
                row.activity.dead_lettered().try_for_each(|(reason, count)| {
                    lines.counter(&[("queue", queue), ("reason", reason_label(reason))], count)
                })
            })
        })
    }

    fn elections(&self, out: &mut Families<'_>) -> fmt::Result {
        out.family(("leases", "Leases, by state"), None, MetricType::Gauge, |lines| {
            self.leases
                .iter()
                .try_for_each(|(state, count)| lines.gauge(&[("state", state)], count))
        })?;
        let known = || self.elections.iter().filter_map(|(name, row)| Some((name, row.leader?)));
        let help = "The newest term, the fencing token";
        out.family(("election_term", help), None, MetricType::Gauge, |lines| {
            known().try_for_each(|(name, (term, _))| lines.gauge(&[("election", name)], term))
        })?;
        let help = "Whether somebody leads";
        out.family(("election_has_leader", help), None, MetricType::Gauge, |lines| {
            known().try_for_each(|(name, (_, has))| lines.gauge(&[("election", name)], has.into()))
        })?;
        let help = "Members that wait to lead";
        out.family(("election_waiting", help), None, MetricType::Gauge, |lines| {
            let mut rows = self.elections.iter();
            rows.try_for_each(|(name, row)| lines.gauge(&[("election", name)], row.waiting))
        })?;
        let help = "New terms since the server started";
        out.family(("election_changes", help), None, MetricType::Counter, |lines| {
            let mut rows = self.elections.iter();
            rows.try_for_each(|(name, row)| lines.counter(&[("election", name)], row.grants))
        })
    }
}

fn reason_label(reason: Reason) -> &'static str {
    match reason {
        Reason::None => "none",
        Reason::Application => "application",
        Reason::MaxDeliveryCountExceeded => "max_delivery_count_exceeded",
        Reason::ConsumerCrashed => "consumer_crashed",
        Reason::TtlExpired => "ttl_expired",
        Reason::MaxTransferHopCountExceeded => "max_transfer_hop_count_exceeded",
        Reason::ForwardTargetUnavailable => "forward_target_unavailable",
        Reason::SessionIdIsNull => "session_id_is_null",
    }
}
