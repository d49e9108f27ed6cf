"""Metrics: what Prometheus' own parser reads is what the table in the documents says."""

import re
import sys
import tempfile

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from server import Server

# A row of the table: `name` †| labels | meaning.
ROW = re.compile(r"^\| `(bellwether_\w+)`[ †]*\| ([a-z, ]*) ?\|")
# Names that the parser gives to the lines of a family; the table has the family, or its counter.
SUFFIXES = {"counter": ["_total"], "info": ["_info"], "gauge": [""],
            "histogram": ["_bucket", "_count", "_sum"]}
REASONS = {"application", "max_delivery_count_exceeded", "ttl_expired",
           "max_transfer_hop_count_exceeded", "forward_target_unavailable", "session_id_is_null"}
STATES = {"active", "locked", "scheduled", "deferred", "dead"}


def documented(path):
    """What a server has that speaks no TLS; what only one has that does is looked at there."""
    rows = {}
    with open(path, encoding="utf-8") as text:
        for line in text:
            if (row := ROW.match(line)) and "; only with TLS" not in line:
                rows[row[1]] = {label.strip() for label in row[2].split(",") if label.strip()}
    return rows


def lived_in(server):
    """Something of everything."""
    server.told("PUT", "/v1/queues/orders")
    for odd in ["a%22b", "c%5Cd", "%C3%A9", "_other"]:
        server.told("PUT", f"/v1/queues/{odd}")
    for text in "abcd":
        server.told("POST", "/v1/queues/orders/messages", {"text": text})
    later = {"text": "later", "scheduled_at": "2100-01-01T00:00:00Z"}
    server.told("POST", "/v1/queues/orders/messages", later)
    for disposition in ["complete", "abandon", "dead_letter"]:
        taken = server.told("POST", "/v1/queues/orders/receive")["messages"][0]
        server.told("POST", "/v1/queues/orders/settle", {"settlements": [
            {"lock_token": taken["lock_token"], "disposition": disposition}]})
    server.told("POST", "/v1/leases/leader/acquire", {"ttl_ms": 60000})


program, document = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder, Server(program, folder) as server:
    lived_in(server)
    status, headers, body = server.ask("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("application/openmetrics-text")
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}

table = documented(document)
seen = {}
for family in families.values():
    assert family.documentation, f"{family.name} says nothing about itself"
    allowed = {family.name + suffix for suffix in SUFFIXES[family.type]}
    name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
    labels = set()
    for sample in family.samples:
        assert sample.name in allowed, sample
        labels |= set(sample.labels) - {"le"}
    seen[name] = labels
assert seen.keys() == table.keys(), f"differs: {sorted(seen.keys() ^ table.keys())}"
# One that has no value yet has no labels yet.
differing = {name for name in seen if seen[name] and seen[name] != table[name]}
assert not differing, {name: (seen[name], table[name]) for name in differing}


def value(family, **labels):
    [found] = [s.value for s in families[family].samples if labels.items() <= s.labels.items()]
    return found


def words(family, label):
    return {sample.labels[label] for sample in families[family].samples}


assert words("bellwether_queue_messages", "state") == STATES
assert words("bellwether_messages_dead_lettered", "reason") == REASONS
assert words("bellwether_queue_messages", "queue") == {"orders", 'a"b', "c\\d", "é", "_other"}
assert value("bellwether_queue_messages", queue="orders", state="active") == 2
assert value("bellwether_queue_messages", queue="orders", state="scheduled") == 1
assert value("bellwether_messages_sent", queue="orders") == 5
assert value("bellwether_messages_delivered", queue="orders") == 3
assert value("bellwether_messages_abandoned", queue="orders") == 1
assert value("bellwether_messages_dead_lettered", queue="orders", reason="application") == 1
assert value("bellwether_message_deliveries", queue="orders", le="1.0") == 1
assert value("bellwether_election_has_leader", election="leader") == 1
assert value("bellwether_leases", state="leased") == 1
print("metrics: what Prometheus reads is what the table says ... ok")
