"""Traces: what a collector gets, and what a message carries, read with OpenTelemetry's own types."""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from server import Server

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{CALLER}-01"
OTHER = f"00-{'ab' * 16}-{'cd' * 8}-01"


class Collector(ThreadingHTTPServer):
    """Keeps what is posted to it."""

    def __init__(self, status=200):
        super().__init__(("127.0.0.1", 0), Handler)
        self.posts, self.status = [], status
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self):
        """All spans by name, each with the resource it came from."""
        found = {}
        for _, _, body in self.posts:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        found.setdefault(span.name, []).append(span)
        return found


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.posts.append((self.path, self.headers, body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(self.server.status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def attributes(of):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in of.attributes}


def context(span):
    return f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"


def the(spans, name, count=1):
    found = spans.get(name, [])
    assert len(found) == count, f"{len(found)} spans {name!r} of {sorted(spans)}"
    return found[0] if count == 1 else found


def a_message_is_followed_from_its_sender_to_its_receiver(program):
    collector = Collector()
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-api-key=a%20secret",
        "OTEL_SERVICE_NAME": "shop-queue",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,service.name=other",
    }
    with Server(program, **variables) as server:
        server.told("PUT", "/v1/queues/orders")
        send = "/v1/queues/orders/messages"
        server.told("POST", send, {"id": "m1", "text": "1"}, traceparent=PARENT, tracestate="a=1")
        server.told("POST", send + "/batch", {"messages": [
            {"text": "2"}, {"text": "3", "properties": {"traceparent": OTHER}}]})
        first = server.told("POST", "/v1/queues/orders/receive")["messages"][0]
        _, headers, event = server.ask(
            "POST", "/v1/queues/orders/receive", accept="application/cloudevents+json")
        server.told("POST", "/v1/queues/orders/settle", {"settlements": [
            {"lock_token": first["lock_token"], "disposition": "complete"}]})
        last = server.told("POST", "/v1/queues/orders/receive", {"max": 2})["messages"][0]
        assert server.ask("POST", "/v1/queues/nowhere/receive", traceparent=PARENT)[0] == 404
        server.ask("GET", "/readyz")
        server.ask("GET", "/metrics")

    path, headers, body = collector.posts[0]
    assert path == "/v1/traces", path
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["x-api-key"] == "a secret"
    resource = attributes(ExportTraceServiceRequest.FromString(body).resource_spans[0].resource)
    assert resource["service.name"] == "shop-queue", resource
    assert resource["deployment.environment.name"] == "test", resource
    assert resource["telemetry.sdk.name"] == "opentelemetry" and resource["service.version"]

    spans = collector.spans()
    assert not [name for name in spans if "metrics" in name or "readyz" in name], list(spans)
    request = the(spans, "POST /v1/queues/{queue}/messages")
    assert request.kind == Span.SPAN_KIND_SERVER
    assert request.trace_id.hex() == TRACE and request.parent_span_id.hex() == CALLER
    told = attributes(request)
    assert told["http.request.method"] == "POST" and told["http.response.status_code"] == 201
    assert told["http.route"] == "/v1/queues/{queue}/messages"
    assert told["url.path"] == "/v1/queues/orders/messages" and told["url.scheme"] == "http"

    alone, batch = the(spans, "send orders", 2)
    assert alone.parent_span_id == request.span_id and alone.kind == Span.SPAN_KIND_PRODUCER
    assert attributes(alone) == {
        "messaging.system": "bellwether",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": "m1",
    }
    assert first["properties"] == {"traceparent": context(alone), "tracestate": "a=1"}
    assert attributes(batch)["messaging.batch.message_count"] == 2
    assert batch.trace_id != alone.trace_id and batch.trace_id != bytes(16)
    assert [link.trace_id.hex() for link in batch.links] == [OTHER.split("-")[1]]
    assert f'"traceparent":"{context(batch)}"' in event.decode(), event
    assert last["properties"] == {"traceparent": OTHER}, "it brought its own"

    for span, sent in zip(the(spans, "receive orders", 3), [context(alone), context(batch), OTHER]):
        assert span.kind == Span.SPAN_KIND_CLIENT
        assert [(l.trace_id.hex(), l.span_id.hex()) for l in span.links] == [tuple(sent.split("-")[1:3])]
    settled = attributes(the(spans, "complete orders"))
    assert settled["messaging.operation.type"] == "settle"
    assert settled["messaging.operation.name"] == "complete"
    refused = the(spans, "receive nowhere")
    assert refused.status.code == Status.STATUS_CODE_ERROR
    assert attributes(refused)["error.type"] == "queue-not-found"
    request = [s for s in spans["POST /v1/queues/{queue}/receive"] if s.span_id == refused.parent_span_id]
    assert request[0].status.code == Status.STATUS_CODE_UNSET, "the caller's fault, not the server's"


def what_is_not_sampled_is_carried_and_not_exported(program):
    collector = Collector()
    variables = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.endpoint + "/v1/traces",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0",
    }
    with Server(program, **variables) as server:
        server.told("PUT", "/v1/queues/orders")
        server.told("POST", "/v1/queues/orders/messages", "1", content_type="text/plain")
        server.told("POST", "/v1/queues/orders/messages", "2", content_type="text/plain",
                    traceparent=PARENT)
        messages = server.told("POST", "/v1/queues/orders/receive", {"max": 2})["messages"]
    unsampled, sampled = (message["properties"]["traceparent"] for message in messages)
    assert unsampled.endswith("-00"), unsampled
    assert sampled.startswith(f"00-{TRACE}-") and sampled.endswith("-01"), sampled
    names = sorted(collector.spans())
    assert names == ["POST /v1/queues/{queue}/messages", "send orders"], names


def without_a_collector_the_context_is_carried(program):
    closed = Collector()
    closed.shutdown()
    closed.server_close()
    for variables in [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": closed.endpoint, "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": closed.endpoint, "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": closed.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ]:
        with Server(program, **variables) as server:
            server.told("PUT", "/v1/queues/orders")
            send = "/v1/queues/orders/messages"
            server.told("POST", send, {"text": "1"}, traceparent=PARENT, tracestate="a=1")
            server.told("POST", send, {"text": "2"})
            one, two = server.told("POST", "/v1/queues/orders/receive", {"max": 2})["messages"]
        assert one["properties"] == {"traceparent": PARENT, "tracestate": "a=1"}, variables
        assert "properties" not in two, variables
        said = "no traces are exported" in server.log
        assert said == ("OTEL_EXPORTER_OTLP_PROTOCOL" in variables), server.log


def a_collector_that_is_not_there_costs_one_line(program):
    closed = Collector()
    closed.shutdown()
    closed.server_close()
    busy = Collector(status=400)
    for collector in [closed, busy]:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "10",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2",
        }
        with Server(program, **variables) as server:
            server.told("PUT", "/v1/queues/orders")
            for _ in range(50):
                server.told("POST", "/v1/queues/orders/messages", {"text": "1"})
        lines = [line for line in server.log.splitlines() if "could not be exported" in line]
        assert len(lines) == 1, server.log
    assert len(busy.posts) > 2, "what was tried more often than it was spoken of"


for case in [
    a_message_is_followed_from_its_sender_to_its_receiver,
    what_is_not_sampled_is_carried_and_not_exported,
    without_a_collector_the_context_is_carried,
    a_collector_that_is_not_there_costs_one_line,
]:
    case(sys.argv[1])
    print(f"traces: {case.__name__} ... ok")
