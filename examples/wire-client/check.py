#!/usr/bin/env python3
"""Tries the client on a server: `python3 check.py ADDRESS`.

Makes queues and leases there and leaves them empty and free. Ends with 0 and `all is well`, or with
the first thing that is not. With `--with-test` the test that started the server takes part: see
`crates/bellwether/tests/wire_python.rs`.
"""

import faulthandler
import random
import sys

from bellwether_wire import (
    PONG,
    Broken,
    Client,
    Connection,
    Refused,
    SentAway,
    Unknown,
    digest,
    encode_overlay,
    encoded,
    frame,
    message,
    number,
    read_answer,
)

# Who hangs says where.
faulthandler.dump_traceback_later(120, exit=True)


def equal(found, expected):
    assert found == expected, f"found {found!r} instead of {expected!r}"


def refused(name, action, *args, **kwargs):
    try:
        action(*args, **kwargs)
    except Refused as refusal:
        equal(refusal.name, name)
    else:
        raise AssertionError(f"{name} was expected")


def empty(client, queue):
    client.do("Purge", **{"from": {"queue": queue, "part": "Main"}}, before=None, max=10_000)
    client.do("Purge", **{"from": {"queue": queue, "part": "Dead"}}, before=None, max=10_000)


def a_batch_is_sent_received_and_completed(client):
    first = message(
        b"two coffees",
        id="order-17",
        subject="new",
        properties={"urgent": ("True", {}), "tries": ("Int", {"value": -3})},
        ttl_ms=3_600_000,
    )
    numbers = client.send("py-orders", [first, message(b""), message(b"three")])
    equal(numbers, list(range(numbers[0], numbers[0] + 3)))
    found = client.receive("py-orders", max=10)
    equal([delivery.sequence for delivery in found], numbers)
    equal([delivery.body for delivery in found], [b"two coffees", b"", b"three"])
    equal(found[0].message["id"], "order-17")
    equal(found[0].message["properties"], first["properties"])
    equal(found[0].view["expires_at"] - found[0].view["enqueued_at"], 3_600_000)
    assert 0 < found[0].remaining_ms <= 60_000
    for delivery in found:
        client.complete(delivery)
    # A second settlement is another request, and the delivery has ended.
    refused("LockLost", client.complete, found[0])
    equal(client.receive("py-orders"), [])


def a_receive_waits(client, other):
    waiting = client.ask_receive("py-orders", wait_ms=60_000)
    other.send("py-orders", [message(b"at last")])
    (delivery,) = client.received(waiting)
    equal(delivery.body, b"at last")
    client.complete(delivery)
    # A wait that nobody wants any more is withdrawn, and answered all the same.
    waiting = client.ask_receive("py-orders", wait_ms=60_000)
    client.withdraw(waiting)
    equal(client.wait(waiting), None)
    # Nothing was left behind that would take this.
    other.send("py-orders", [message(b"for somebody else")])
    (delivery,) = other.receive("py-orders")
    other.complete(delivery)


def long_messages_travel_in_parts(client):
    body = random.Random(7).randbytes(300_000)
    client.send("py-orders", [message(body), message(b"short")])
    long, short = client.receive("py-orders", max=2, wait_ms=60_000)
    assert long.body == body and short.body == b"short"
    client.complete(long)
    client.complete(short)


def what_fails_comes_back_and_is_set_aside(client):
    client.send("py-orders", [message(b"bad", properties={"tries": ("Int", {"value": 0})})])
    (delivery,) = client.receive("py-orders", wait_ms=60_000)
    equal(delivery.delivery_count, 1)
    tries = encode_overlay(properties={"tries": ("Int", {"value": 1})})
    client.abandon(delivery, overlay=tries)
    (delivery,) = client.receive("py-orders", wait_ms=60_000)
    equal(delivery.delivery_count, 2)
    equal(delivery.message["properties"], {"tries": ("Int", {"value": 1})})
    client.dead_letter(delivery, "bad address", "there is no such street")
    equal(client.peek("py-orders"), [])
    (dead,) = client.receive("py-orders", part="Dead", wait_ms=60_000)
    equal((dead.sequence, dead.reason, dead.body), (delivery.sequence, "Application", b"bad"))
    equal(dead.overlay["reason"], "bad address")
    equal(dead.overlay["description"], "there is no such street")
    # The server has merged what the two settlements changed.
    equal(dead.message["properties"], {"tries": ("Int", {"value": 1})})
    client.complete(dead)


def a_session_is_held_and_keeps_its_state(client):
    client.create_queue("py-sessions", sessions=True)
    empty(client, "py-sessions")
    refused("SessionRequired", client.send, "py-sessions", [message(b"")])
    client.send("py-sessions", [message(b"mine", session="customer-4")])
    fields = {"queue": "py-sessions", "session": None, "wait_ms": 60_000}
    token = client.do("AcceptSession", **fields)["hold"]["token"]
    equal(token["session"], "customer-4")
    state = {"index": 0, "bytes": 5}
    client.do("SetSessionState", [b"state"], queue="py-sessions", token=token, state=state)
    (delivery,) = client.receive("py-sessions", session=token)
    # Why does nobody else get it? This client has it, by its session.
    where = {"queue": "py-sessions", "sequence": delivery.sequence}
    explanation = client.do("Explain", needs_number=False, **where)["explanation"]
    ((cause, fields),) = explanation["causes"]
    equal((explanation["part"], cause), ("Main", "Locked"))
    equal(fields["holder"]["member"], client.id)
    which = {"queue": "py-sessions", "session": "customer-4"}
    asked = client.ask("DescribeSession", needs_number=False, **which)
    (_, found), _, readings = client.wait(asked)
    equal((found["info"]["messages"], readings), (1, [b"state"]))
    equal(found["info"]["hold"]["member"], client.id)
    # It is locked for as long as the session is held.
    equal((delivery.message["session"], delivery.remaining_ms), ("customer-4", None))
    client.complete(delivery)
    asked = client.ask("GetSessionState", needs_number=False, queue="py-sessions", token=token)
    equal(client.wait(asked)[2], [b"state"])
    client.do("SetSessionState", queue="py-sessions", token=token, state=None)
    client.do("CloseSession", queue="py-sessions", token=token)


def a_lease_is_acquired_kept_and_released(client, other):
    ids = random.SystemRandom().getrandbits(128), random.SystemRandom().getrandbits(128)
    term = client.acquire("py-chores", ids[0])
    # The same id again is the same grant.
    equal(client.acquire("py-chores", ids[0]), term)
    refused("Held", other.acquire, "py-chores", ids[1])
    in_line = {"lease": "py-chores", "id": ids[1], "kind": "Bound", "ttl_ms": 15_000}
    waiting = other.ask("Acquire", **in_line, metadata="", wait_ms=60_000, priority=-1)
    # The digest of the page is the server's: nothing has to be agreed on again.
    held = ("Same", {"count": 1, "digest": digest_of(term)})
    beat = client.do("Heartbeat", needs_number=False, held=held)["beat"]
    equal(beat, {"resync": False, "lost": [], "step_down": []})
    wrong = ("Same", {"count": 1, "digest": digest_of(term + 1)})
    assert client.do("Heartbeat", needs_number=False, held=wrong)["beat"]["resync"]
    equal(client.heartbeat([("py-chores", term), ("py-nothing", 1)])["lost"], [("py-nothing", 1)])
    refused("IdMismatch", other.release, "py-chores", ids[1])
    client.release("py-chores", ids[0])
    next_term = other.wait(waiting)[0][1]["term"]
    assert next_term > term
    info = other.do("DescribeLease", needs_number=False, lease="py-chores")["info"]
    equal((info["state"], info["term"], info["holder"]), ("Leased", next_term, other.id))
    other.release("py-chores", ids[1])


def digest_of(term):
    return digest([("py-chores", term)])


def a_send_whose_answer_is_lost_is_done_once(client, other):
    before = other.describe_queue("py-orders")["totals"]["sent"]
    # It arrives, and the answer is never read.
    asked = client.ask_send("py-orders", [message(b"once"), message(b"and no more")])
    while other.describe_queue("py-orders")["totals"]["sent"] == before:
        pass
    client.drop_connection()
    slot, numbers = client.slot, client.sent(asked)
    equal((client.slot, asked.times), (slot, 2))
    equal(other.describe_queue("py-orders")["totals"]["sent"], before + 2)
    found = other.peek("py-orders")
    equal([delivery.sequence for delivery in found], numbers)
    # One that may not even have arrived.
    asked = client.ask_send("py-orders", [message(b"the third")])
    client.drop_connection()
    numbers += client.sent(asked)
    found = other.peek("py-orders")
    equal([delivery.sequence for delivery in found], numbers)
    # Deliveries whose answer is lost are told again, and are the same.
    asked = client.ask_receive("py-orders", max=3)
    while other.describe_queue("py-orders")["counts"]["locked"] == 0:
        pass
    client.drop_connection()
    found = client.received(asked)
    equal([delivery.sequence for delivery in found], numbers)
    equal([delivery.delivery_count for delivery in found], [1, 1, 1])
    for delivery in found:
        client.complete(delivery)


def what_was_deleted_is_not_asked_for_twice(client, other):
    other.send("py-orders", [message(b"gone"), message(b"not gone")])
    asked = client.ask_receive("py-orders", mode="ReceiveAndDelete")
    while other.describe_queue("py-orders")["counts"]["ready"] == 2:
        pass
    client.drop_connection()
    try:
        client.received(asked)
    except Unknown:
        pass
    else:
        raise AssertionError("it was asked for again")
    (delivery,) = client.receive("py-orders", mode="ReceiveAndDelete")
    equal((delivery.body, delivery.token), (b"not gone", None))


def a_member_speaks_where_it_joined_last(client):
    old, client.connection = client.connection, None
    client.reconnect()
    equal(client.describe_queue("py-orders")["name"], "py-orders")
    look = {"member": client.slot, "number": 0, "answered_below": 0}
    look["command"] = ("DescribeQueue", {"queue": "py-orders"})
    old.put_ask(9, encoded("Request", look) + number(0))
    try:
        old.next_answer()
    except Broken as away:
        assert "goodbye 1" in str(away), away
    else:
        raise AssertionError("the old connection still speaks for the member")


def a_wait_outlives_its_connection(client, other):
    asked = client.ask_receive("py-orders", wait_ms=60_000)
    client.drop_connection()
    other.send("py-orders", [message(b"still there?")])
    (delivery,) = client.received(asked)
    equal((delivery.body, asked.times), (b"still there?", 2))
    client.complete(delivery)


def who_is_gone_still_learns_what_was_done(address):
    client = Client(address)
    asked = client.ask_send("py-orders", [message(b"before I go")])
    # Asked before the answer is heard, so that this does not say that it was.
    leaving = client.ask("Leave")
    numbers = client.sent(asked)
    client.wait(leaving)
    asked.answer, client.asks[asked.key] = None, asked
    client.put(asked.key)
    equal(client.sent(asked), numbers)
    refused("MemberGone", client.send, "py-orders", [message(b"too late")])
    client.drop_connection()
    other = Client(address)
    other.complete(other.receive("py-orders", wait_ms=60_000)[0])
    other.close()


def what_does_not_read_is_refused(address):
    connection = Connection(address)
    # A queue without a name, as nobody.
    connection.put_ask(1, bytes([0, 0, 0, 5, 0, 0]))
    ask, answer = connection.next_answer()
    equal(ask, 1)
    try:
        read_answer(answer)
    except Refused as refusal:
        equal((refusal.name, refusal.fields["what"]), ("InvalidValue", "call"))
    else:
        raise AssertionError("it was done")
    # The connection goes on. Nobody may look, and a name that is not there is an answer.
    describe = {"member": 0, "number": 0, "answered_below": 0}
    describe["command"] = ("DescribeQueue", {"queue": "py-nowhere"})
    connection.put_ask(7, encoded("Request", describe) + number(0))
    ask, answer = connection.next_answer()
    equal((ask, answer[:2]), (7, bytes([2, 1])))
    # A frame that no client sends ends it.
    connection.write(frame(PONG, b""))
    try:
        connection.next_answer()
    except SentAway as away:
        assert "goodbye 5" in str(away), away
    else:
        raise AssertionError("it was answered")


def the_test_takes_part(client):
    # A message with everything in it, read and written by both sides.
    (delivery,) = client.receive("from-rust", wait_ms=60_000)
    assert len(delivery.message["properties"]) == 19, delivery.message
    copy = {field: value for field, value in delivery.message.items() if field != "session"}
    client.send("for-rust", [copy])
    client.complete(delivery)
    # Both sides have the same hash for an id.
    equal(client.send("unique", [message(b"", id="order-17")]), [0])
    assert client.send("unique", [message(b"", id="order-18")])[0] > 0
    # The server stops over a wait: it is withdrawn though nobody asked for that.
    asked = client.ask_receive("py-orders", wait_ms=60_000)
    client.describe_queue("py-orders")  # Behind it: now it waits.
    print("stop", flush=True)
    (delivery,) = client.received(asked)
    equal((delivery.body, asked.times), (b"after the stop", 2))
    client.complete(delivery)


def main():
    address, with_test = sys.argv[1], "--with-test" in sys.argv
    client, other = Client(address), Client(address)
    client.create_queue("py-orders")
    equal(client.create_queue("py-orders"), True)
    empty(client, "py-orders")
    a_batch_is_sent_received_and_completed(client)
    a_receive_waits(client, other)
    long_messages_travel_in_parts(client)
    what_fails_comes_back_and_is_set_aside(client)
    a_session_is_held_and_keeps_its_state(client)
    a_lease_is_acquired_kept_and_released(client, other)
    a_send_whose_answer_is_lost_is_done_once(client, other)
    what_was_deleted_is_not_asked_for_twice(client, other)
    a_member_speaks_where_it_joined_last(client)
    a_wait_outlives_its_connection(client, other)
    who_is_gone_still_learns_what_was_done(address)
    what_does_not_read_is_refused(address)
    if with_test:
        the_test_takes_part(client)
    client.close()
    other.close()
    print("all is well")


main()
