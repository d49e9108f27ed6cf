//! What the engines are that people already run, built in or not.

use std::time::Duration;

use super::Facts;

pub(super) const ETCD: Facts = Facts {
    name: "etcd",
    scheme: "etcd://",
    feature: "etcd",
    // At its default election timeout it makes 2 seconds of whatever is less.
    ttl_min: Duration::from_secs(2),
    terms: "the create revision of the holder's key; the cluster's revision only grows",
    wakes_by: "watch, one for the process",
    line: "age; or a named successor",
    renewal: "one keepalive for all of one ttl, and a read of up to 60 keys at a time",
    lacks: "priority; history; several leaders at once; TLS and users",
};

pub(super) const POSTGRES: Facts = Facts {
    name: "PostgreSQL",
    scheme: "postgres:// postgresql://",
    feature: "postgres",
    ttl_min: Duration::from_secs(1),
    terms: "a column that every grant raises, at least Unix milliseconds",
    wakes_by: "NOTIFY; behind a pooler by looking, four times a ttl or every second",
    line: "priority, then age; or a named successor",
    renewal: "one statement and one flush for all that are due",
    lacks: "history; several leaders at once; TLS; a clock that nobody can set",
};

pub(super) const AZURE_BLOB: Facts = Facts {
    name: "Azure Blob",
    scheme: "azblob:// https://",
    feature: "azure-blob",
    ttl_min: Duration::from_secs(15),
    terms: "a counter in the blob's metadata, written under the lease; at first Unix milliseconds",
    wakes_by: "hints between members; looking, about once a second",
    line: "",
    renewal: "one call an election",
    lacks: "a line: whoever looks first is next, a named successor before others; a history; several leaders at once; a ttl above 60 s",
};

pub(super) const NATS: Facts = Facts {
    name: "NATS",
    scheme: "nats:// tls://",
    feature: "nats",
    ttl_min: Duration::from_secs(2),
    terms: "the sequence number of the entry that took the key; a bucket's first is Unix \
            milliseconds",
    wakes_by: "push when it is given back; looking when renewals stay out",
    line: "",
    renewal: "one replicated write an election",
    lacks: "a line: whoever is fastest is next, a named successor before others; a history; \
            several leaders at once; a memory of what ran out",
};

pub(super) const ZOOKEEPER: Facts = Facts {
    name: "ZooKeeper",
    scheme: "zk://",
    feature: "zookeeper",
    ttl_min: Duration::from_secs(4),
    terms: "the transaction that made the candidate's node; those behind it were made later",
    wakes_by: "push to the next in line",
    line: "age",
    renewal: "a read by way of the ensemble's leader, an election; no disk write",
    lacks: "priorities, a named successor; a history; several leaders at once; a memory of what is \
            free; terms start anew in a new ensemble",
};
