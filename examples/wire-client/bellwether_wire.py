#!/usr/bin/env python3
"""A client for Bellwether's native wire, from docs/wire.md alone, with the standard library alone.

    client = Client("bellwether://127.0.0.1:7401")
    client.create_queue("orders")
    client.send("orders", [message(b"two coffees", id="order-17")])
    for delivery in client.receive("orders", wait_ms=20_000):
        client.complete(delivery)
    client.close()

It blocks, and is for one thread. It reads only while somebody waits for an answer; a connection
that broke in the meantime is made again, and what was not answered is asked again, once and only
once. It does not count what it leaves unanswered: who asks `asks_max` times without waiting is sent
away. `check.py ADDRESS` tries all of it on a server.
"""

import os
import random
import socket
import ssl
import struct
import time

MAGIC = b"bellwire"
VERSION = 1
PORT = 7401
FRAME_BYTES_MAX = 65_536
NAME_BYTES_MAX = 260
FOR_EVER = NEVER = (1 << 64) - 1
MEMBER_TTL_MS = 30_000
ID_HASH_KEY = (0x62656C6C77657468, 0x65722D69642D3031)

HELLO, WELCOME, ASK, ASK_PART, ANSWER, ANSWER_PART, WITHDRAW, PING, PONG, GOODBYE = range(1, 11)
DONE, REFUSED, UNKNOWN, FAILED, WITHDRAWN = range(1, 6)


class Refused(Exception):
    """The rules said no; nothing was changed. `name` and `fields` are those of the table."""

    def __init__(self, refusal):
        self.name, self.fields = refusal
        if self.name == "Lease":
            self.name, self.fields = self.fields["refusal"]
        super().__init__(f"{self.name} {self.fields}")


class Unknown(Exception):
    """It may have been done or not."""


class Failed(Exception):
    """The server failed, and nothing was done; its operator must act."""


class SentAway(Exception):
    """The server said goodbye, and connecting again would not help."""


class Broken(Exception):
    """This connection is of no use any more; another one may be."""


# --- How values are written -----------------------------------------------------------------------

STRUCTURES = {
    "Hello": "version_min: u16, version_max: u16, name: text, credential: text",
    "Welcome": "version: u16, name: text, asks_max: u32, bytes_max: u32, silence_ms_max: u32",
    "Goodbye": "why: byte, text: text",
    "Withdraw": "ask: u64, gives_back: bool",
    "Request": "member: u32, number: u64, answered_below: u64, command: Command",
    "QueuePath": "queue: name, part: Part",
    "QueueSettings": "lock_ms: u32, deliveries_max: u32, ttl_ms: u64?, dead_letter_expired: bool, "
    "duplicate_window_ms: u64?, sessions: bool, forward_to: name?, forward_dead_letters_to: name?, "
    "delete_idle_ms: u64?, status: Status, size_bytes_max: u64, message_bytes_max: u32, "
    "durability: Durability",
    "NewMessage": "flags: byte, content_bytes: u32, id_hash: bits128 if 1, session: name if 2, "
    "ttl_ms: u64 if 4, due: u64 if 8",
    "Settlement": "token: LockToken, disposition: Disposition, overlay: NewContent?",
    "NewContent": "index: u32, bytes: u32",
    "LockToken": "sequence: u64, number: u32, incarnation: u32",
    "SessionToken": "session: name, number: u32, incarnation: u32",
    "MessageView": "flags: byte, sequence: u64, content: u64, enqueued_at: u64, "
    "expires_at: u64 if 1, origin: u64 if 2, source: u32 if 4, state: State, "
    "counters: Counters if 8, session: name if 16, place: Place if 32, overlay_place: Place if 64",
    "Counters": "number: u32, deliveries: u32, failures: u16, crashes: u16, releases: u16, "
    "reason: Reason, hops: byte, overlay: u64",
    "Place": "unit: u64, offset: u32, len: u32",
    "SessionHold": "token: SessionToken, lock_ms: u32",
    "Beat": "resync: bool, lost: [(name, u64)], step_down: [(name, u64)]",
    "QueueInfo": "name: name, settings: QueueSettings, created_at: u64, counts: Counts, "
    "totals: Totals",
    "Counts": "ready: u64, locked: u64, scheduled: u64, deferred: u64, dead_letters: u64, "
    "size_bytes: u64",
    "Totals": "sent: u64, duplicates: u64, completed: u64, expired: u64, purged: u64, "
    "cancelled: u64, forwarded: u64, dead_lettered: u64",
    "MemberInfo": "id: bits128, slot: u32, metadata: text, joined_at: u64, leases: [(name, u64)]",
    "LeaseInfo": "name: name, kind: LeaseKind, state: LeaseState, term: u64, id: bits128?, "
    "holder: bits128?, metadata: text, ttl_ms: u64, remaining_ms: u64, granted_at: u64, "
    "version: u64, flags: byte, successor: bits128 if 4, waiting: [bits128]",
    "SessionInfo": "id: name, messages: u64, hold: Holder?, waits_for: u64?, state: u64, "
    "place: Place",
    "Holder": "member: bits128?, remaining_ms: u64",
    "Explanation": "part: Part, causes: [Cause]",
}

CHOICES = {
    "Command": {
        1: ("CreateQueue", "queue: name, settings: QueueSettings"),
        3: ("DeleteQueue", "queue: name"),
        4: ("Purge", "from: QueuePath, before: u64?, max: u32"),
        5: ("DescribeQueue", "queue: name"),
        6: ("ListQueues", "after: name?, max: u32"),
        7: ("Send", "queue: name, messages: [NewMessage]"),
        8: ("Cancel", "queue: name, sequences: [u64]"),
        9: (
            "Receive",
            "from: QueuePath, session: SessionToken?, max: u32, mode: ReceiveMode, wait_ms: u64, "
            "lock_ms: u32?",
        ),
        11: ("Peek", "from: QueuePath, sequence: u64, max: u32, session: name?"),
        12: ("Settle", "from: QueuePath, settlements: [Settlement]"),
        13: ("RenewLocks", "from: QueuePath, tokens: [LockToken], lock_ms: u32?"),
        14: ("Redrive", "queue: name, to: name?, sequences: [u64], max: u32"),
        15: ("AcceptSession", "queue: name, session: name?, wait_ms: u64"),
        17: ("CloseSession", "queue: name, token: SessionToken"),
        18: ("SetSessionState", "queue: name, token: SessionToken, state: NewContent?"),
        19: ("GetSessionState", "queue: name, token: SessionToken"),
        21: ("Join", "id: bits128, metadata: text, ttl_ms: u64"),
        22: ("Heartbeat", "held: HeldSet"),
        23: ("Leave", ""),
        25: (
            "Acquire",
            "lease: name, id: bits128, kind: LeaseKind, ttl_ms: u64, metadata: text, "
            "wait_ms: u64, priority: i32",
        ),
        28: ("ReleaseLease", "lease: name, id: bits128, successor: bits128?"),
        32: ("DescribeLease", "lease: name"),
        36: ("DescribeSession", "queue: name, session: name"),
        37: ("Explain", "queue: name, sequence: u64"),
    },
    "Outcome": {
        1: ("Done", ""),
        2: ("QueueCreated", "existed: bool"),
        3: ("Queue", "info: QueueInfo"),
        4: ("Queues", "infos: [QueueInfo]"),
        5: ("Sent", "sequences: Sequences"),
        6: ("Count", "count: u64"),
        7: ("Received", "views: [MessageView]"),
        8: ("Peeked", "views: [MessageView]"),
        9: ("Settled", "refused: [(u32, Refusal)]"),
        10: ("Renewed", "lock_ms: u32, refused: [(u32, Refusal)]"),
        11: ("Session", "hold: SessionHold?"),
        12: ("SessionState", "content: u64, place: Place"),
        13: ("Sessions", "sessions: [name]"),
        14: ("Joined", "slot: u32"),
        15: ("Beat", "beat: Beat"),
        16: ("Members", "members: [MemberInfo]"),
        17: ("Granted", "term: u64, ttl_ms: u64"),
        18: ("Breaking", "remaining_ms: u64"),
        19: ("Lease", "info: LeaseInfo?"),
        20: ("Leases", "infos: [LeaseInfo]"),
        21: ("SessionInfo", "info: SessionInfo?"),
        22: ("Explained", "explanation: Explanation"),
    },
    "Refusal": {
        1: ("QueueNotFound", "queue: name"),
        2: ("QueueDisabled", "queue: name, operation: Operation"),
        3: ("QueueFull", "queue: name, size_bytes_max: u64"),
        4: ("Busy", "retry_after_ms: u64"),
        5: ("DiskFull", ""),
        6: ("InvalidName", "what: text, why: text"),
        7: ("InvalidValue", "what: text, why: text"),
        8: ("TooLarge", "what: text, bytes: u64, bytes_max: u64"),
        9: ("TooMany", "what: text, max: u64"),
        10: ("SessionRequired", "queue: name"),
        11: ("SessionNotSupported", "queue: name"),
        12: ("SessionLocked", "session: name"),
        13: ("SessionLost", "session: name"),
        14: ("LockLost", "sequence: u64"),
        15: ("MessageNotFound", "sequence: u64"),
        16: ("MemberGone", ""),
        17: ("Lease", "refusal: LeaseRefusal"),
    },
    "LeaseRefusal": {
        1: ("Held", "lease: name, term: u64"),
        2: ("Breaking", "lease: name"),
        3: ("Broken", "lease: name"),
        4: ("BreakingCannotChange", "lease: name"),
        5: ("IdMismatch", "lease: name"),
        6: ("NotPresent", "lease: name"),
        7: ("TermOver", "lease: name, term: u64"),
        8: ("NotGranted", "lease: name"),
        9: ("Paused", "lease: name"),
        10: ("NotInLine", "lease: name, member: bits128"),
    },
    "HeldSet": {1: ("Same", "count: u32, digest: bits64"), 2: ("List", "leases: [(name, u64)]")},
    "Sequences": {1: ("Run", "first: u64, count: u32"), 2: ("List", "list: [u64]")},
    "Disposition": {
        1: ("Complete", ""),
        2: ("Abandon", "delay_ms: u64?"),
        3: ("Release", ""),
        4: ("Defer", ""),
        5: ("DeadLetter", ""),
    },
    "State": {
        1: ("Ready", ""),
        2: ("Scheduled", "due: u64"),
        3: ("Delayed", "due: u64"),
        4: ("Locked", "lock_ms: u32, member: u32, incarnation: u32, deferred: bool"),
        5: ("Deferred", ""),
    },
    "Cause": {
        1: ("DeadLetter", "reason: Reason"),
        2: ("Expired", "at: u64"),
        3: ("Scheduled", "due: u64"),
        4: ("Delayed", "due: u64"),
        5: ("Locked", "holder: Holder"),
        6: ("Deferred", ""),
        7: ("Paused", ""),
        8: ("SessionHeld", "holder: Holder"),
        9: ("SessionWaits", "sequence: u64"),
        10: ("Behind", "messages: u64"),
    },
    "Value": {
        1: ("Null", ""),
        2: ("False", ""),
        3: ("True", ""),
        4: ("Ubyte", "value: byte"),
        5: ("Byte", "value: i8"),
        6: ("Ushort", "value: u16"),
        7: ("Short", "value: i16"),
        8: ("Uint", "value: u32"),
        9: ("Int", "value: i32"),
        10: ("Ulong", "value: u64"),
        11: ("Long", "value: i64"),
        12: ("Float", "value: f32"),
        13: ("Double", "value: f64"),
        14: ("Char", "value: u32"),
        15: ("Timestamp", "value: i64"),
        16: ("Uuid", "value: uuid"),
        17: ("Binary", "value: bytes"),
        18: ("String", "value: text"),
        19: ("Symbol", "value: text"),
    },
}

WORDS = {
    "Part": ["Main", "Dead"],
    "Status": ["Active", "SendDisabled", "ReceiveDisabled", "Disabled"],
    "Durability": ["Flushed", "Relaxed"],
    "ReceiveMode": ["PeekLock", "ReceiveAndDelete"],
    "LeaseKind": ["Bound", "Standing", "Connected"],
    "Operation": ["Send", "Receive"],
    "LeaseState": ["Available", "Leased", "Expired", "Breaking", "Broken"],
    "Reason": [
        "None",
        "Application",
        "MaxDeliveryCountExceeded",
        "TtlExpired",
        "MaxTransferHopCountExceeded",
        "ForwardTargetUnavailable",
        "SessionIdIsNull",
    ],
}


def split(fields):
    """Cuts `a: A, b: (B, C)` at the commas that are not inside parentheses."""
    depth, start, parts = 0, 0, []
    for place, char in enumerate(fields + ","):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append(fields[start:place].strip())
            start = place + 1
    return [part for part in parts if part]


def fields_of(text):
    for field in split(text):
        name, kind = field.split(": ", 1)
        kind, _, bit = kind.partition(" if ")
        yield name, kind, int(bit or 0)


def number(value):
    """LEB128."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def check_name(name):
    """The server would refuse it too, but not say which name it was."""
    is_control = any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in name)
    if not 1 <= len(name.encode()) <= NAME_BYTES_MAX or is_control:
        raise ValueError(f"{name!r} cannot be a name: 1 to 260 bytes, no control characters")
    return name


def put(kind, value, out):
    """Appends a value of a kind. Structures are dicts, choices `(name, dict)` or a word."""
    if kind.endswith("?"):
        out.append(value is not None)
        if value is not None:
            put(kind[:-1], value, out)
    elif kind.startswith("["):
        out += number(len(value))
        for each in value:
            put(kind[1:-1], each, out)
    elif kind.startswith("("):
        for inner, each in zip(split(kind[1:-1]), value):
            put(inner, each, out)
    elif kind in STRUCTURES:
        fields = list(fields_of(STRUCTURES[kind]))
        flags = sum(bit for name, _, bit in fields if bit and value.get(name) is not None)
        for name, inner, bit in fields:
            if name == "flags":
                out.append(flags)
            elif not bit or flags & bit:
                put(inner, value[name], out)
    elif kind in WORDS:
        out.append(1 + WORDS[kind].index(value))
    elif kind in CHOICES:
        name, fields = value
        tag = next(tag for tag, (known, _) in CHOICES[kind].items() if known == name)
        out.append(tag)
        for field, inner, _ in fields_of(CHOICES[kind][tag][1]):
            put(inner, fields[field], out)
    elif kind in ("byte", "bool"):
        out.append(int(value))
    elif kind == "i8":
        out += struct.pack("<b", value)
    elif kind == "name":
        put("text", check_name(value), out)
    elif kind in ("text", "bytes"):
        data = value.encode() if kind == "text" else value
        out += number(len(data)) + data
    elif kind.startswith("bits"):
        out += value.to_bytes(int(kind[4:]) // 8, "little")
    elif kind in ("f32", "f64"):
        out += struct.pack("<f" if kind == "f32" else "<d", value)
    elif kind == "uuid":
        out += value
    elif kind[0] == "u" and 0 <= value < 1 << int(kind[1:]):
        out += number(value)
    elif kind[0] == "i" and -(1 << int(kind[1:]) - 1) <= value < 1 << int(kind[1:]) - 1:
        out += number(value << 1 if value >= 0 else (-value << 1) - 1)
    else:
        raise ValueError(f"{value!r} is no {kind}")


def encoded(kind, value):
    out = bytearray()
    put(kind, value, out)
    return bytes(out)


class Reader:
    """A position in some bytes."""

    def __init__(self, data):
        self.data, self.at = memoryview(data), 0

    def take(self, count):
        if count > len(self.data) - self.at:
            raise ValueError("more bytes expected")
        self.at += count
        return bytes(self.data[self.at - count : self.at])

    def byte(self):
        return self.take(1)[0]

    def number(self, bits=64):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if value >> bits or (byte == 0 and shift > 7):
            raise ValueError("a number that is too wide or not in its shortest form")
        return value

    def length(self):
        length = self.number()
        if length > len(self.data) - self.at:
            raise ValueError("a length beyond the bytes")
        return length

    def finish(self):
        if self.at != len(self.data):
            raise ValueError("bytes left over")

    def get(self, kind):
        """The counterpart of `put`."""
        if kind.endswith("?"):
            return self.get(kind[:-1]) if self.get("bool") else None
        if kind.startswith("["):
            return [self.get(kind[1:-1]) for _ in range(self.length())]
        if kind.startswith("("):
            return tuple(self.get(inner) for inner in split(kind[1:-1]))
        if kind in STRUCTURES:
            value, flags = {}, 0
            for name, inner, bit in fields_of(STRUCTURES[kind]):
                if name == "flags":
                    flags = self.byte()
                elif not bit or flags & bit:
                    value[name] = self.get(inner)
            return value
        if kind in WORDS:
            return WORDS[kind][self.tag(len(WORDS[kind])) - 1]
        if kind in CHOICES:
            tag = self.byte()
            if tag not in CHOICES[kind]:
                raise ValueError(f"{tag} is no tag of {kind}")
            name, fields = CHOICES[kind][tag]
            return name, {field: self.get(inner) for field, inner, _ in fields_of(fields)}
        if kind == "byte":
            return self.byte()
        if kind == "bool":
            return self.tag(1, least=0) == 1
        if kind == "i8":
            return struct.unpack("<b", self.take(1))[0]
        if kind in ("text", "name"):
            return self.take(self.length()).decode()
        if kind == "bytes":
            return self.take(self.length())
        if kind.startswith("bits"):
            return int.from_bytes(self.take(int(kind[4:]) // 8), "little")
        if kind in ("f32", "f64"):
            form = "<f" if kind == "f32" else "<d"
            return struct.unpack(form, self.take(struct.calcsize(form)))[0]
        if kind == "uuid":
            return self.take(16)
        folded = self.number(int(kind[1:]))
        return folded if kind[0] == "u" else (folded >> 1) ^ -(folded & 1)

    def tag(self, most, least=1):
        tag = self.byte()
        if not least <= tag <= most:
            raise ValueError(f"a tag of {tag}")
        return tag


# --- Messages -------------------------------------------------------------------------------------

TEXTS = ["id", "subject", "correlation_id", "to", "reply_to", "reply_to_session", "content_type"]
BODY_KINDS = {0xF0: "data", 0xF1: "value", 0xF2: "sequence"}


def message(body=b"", **fields):
    """A message: a dict of the texts, `properties`, `session`, `ttl_ms`, `due`, `body`."""
    return {"body": body, **fields}


def encode_content(message):
    out = bytearray([1])
    for tag, text in enumerate(TEXTS, 1):
        if message.get(text) is not None:
            out.append(tag)
            put("text", message[text], out)
    properties = message.get("properties")
    if properties:
        out.append(8)
        put("[(text, Value)]", by_name(properties), out)
    kinds = {kind: tag for tag, kind in BODY_KINDS.items()}
    out.append(kinds[message.get("body_kind", "data")])
    return bytes(out) + message["body"]


def by_name(properties):
    return sorted(properties.items(), key=lambda property: property[0].encode())


def decode_content(content):
    reader, found, last = Reader(content), {}, 0
    if reader.byte() != 1:
        raise ValueError("not a content of format 1")
    while True:
        tag = reader.byte()
        if tag <= last:
            raise ValueError("a field out of order")
        last = tag
        if tag <= len(TEXTS):
            found[TEXTS[tag - 1]] = reader.get("text")
        elif tag == 8:
            found["properties"] = dict(reader.get("[(text, Value)]"))
        elif tag in BODY_KINDS:
            found["body_kind"] = BODY_KINDS[tag]
            found["body"] = bytes(content[reader.at :])
            return found
        else:
            raise ValueError(f"a field with the tag {tag}")


def encode_overlay(reason=None, description=None, properties=None):
    """`None` as the value of a property removes it."""
    out = bytearray([1])
    put("text?", reason, out)
    put("text?", description, out)
    out += number(len(properties or {}))
    for name, value in by_name(properties or {}):
        put("text", name, out)
        if value is None:
            out.append(0)
        else:
            put("Value", value, out)
    return bytes(out)


def decode_overlay(content):
    reader, properties = Reader(content), {}
    if reader.byte() != 1:
        raise ValueError("not an overlay of format 1")
    reason, description = reader.get("text?"), reader.get("text?")
    for _ in range(reader.length()):
        name = reader.get("text")
        if reader.data[reader.at] == 0:
            reader.byte()
            properties[name] = None
        else:
            properties[name] = reader.get("Value")
    reader.finish()
    return {"reason": reason, "description": description, "properties": properties}


def id_hash(text):
    """SipHash-1-3 with 128 bits; `None` without an id."""
    if not text:
        return None
    data, mask = text.encode(), (1 << 64) - 1
    k0, k1 = ID_HASH_KEY
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573

    def turned(value, by):
        return (value << by | value >> 64 - by) & mask

    def rounds(count, v0, v1, v2, v3):
        for _ in range(count):
            v0 = (v0 + v1) & mask
            v1 = turned(v1, 13) ^ v0
            v0 = turned(v0, 32)
            v2 = (v2 + v3) & mask
            v3 = turned(v3, 16) ^ v2
            v0 = (v0 + v3) & mask
            v3 = turned(v3, 21) ^ v0
            v2 = (v2 + v1) & mask
            v1 = turned(v1, 17) ^ v2
            v2 = turned(v2, 32)
        return v0, v1, v2, v3

    blocks = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for start in range(0, len(blocks), 8):
        block = int.from_bytes(blocks[start : start + 8], "little")
        v0, v1, v2, v3 = rounds(1, v0, v1, v2, v3 ^ block)
        v0 ^= block
    v0, v1, v2, v3 = rounds(3, v0, v1, v2 ^ 0xEE, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = rounds(3, v0, v1 ^ 0xDD, v2, v3)
    return (low | (v0 ^ v1 ^ v2 ^ v3) << 64) or 1


def digest(leases):
    """Of the leases a member believes it holds: pairs of name and term."""
    total = 0
    for name, term in leases:
        hash = 0xCBF29CE484222325
        for byte in name.encode() + b"\0" + term.to_bytes(8, "little"):
            hash = (hash ^ byte) * 0x100000001B3 % (1 << 64)
        total += hash
    return total % (1 << 64)


class Delivery:
    """A message as it was handed out or shown."""

    def __init__(self, path, view, remaining_ms, readings):
        self.path, self.view, self.remaining_ms = path, view, remaining_ms
        self.sequence = view["sequence"]
        self.state, state = view["state"]
        counters = view.get("counters", {})
        self.reason = counters.get("reason", "None")
        self.delivery_count = counters.get("deliveries", 0) + (self.state == "Locked")
        self.token = None
        if self.state == "Locked":
            self.token = {
                "sequence": self.sequence,
                "number": counters["number"],
                "incarnation": state["incarnation"],
            }
        self.message = decode_content(next(readings)) if view["content"] else {}
        self.overlay = decode_overlay(next(readings)) if counters.get("overlay") else None
        if "session" in view:
            self.message["session"] = view["session"]
        properties = self.message.setdefault("properties", {})
        for name, value in (self.overlay or {"properties": {}})["properties"].items():
            if value is None:
                properties.pop(name, None)
            else:
                properties[name] = value

    @property
    def body(self):
        return self.message["body"]


# --- The connection -------------------------------------------------------------------------------


class Connection:
    """One connection: frames out, frames in."""

    def __init__(self, address):
        self.socket = connect(address)
        self.read, self.parts, self.is_magic_read = bytearray(), {}, False
        self.welcome = None
        hello = {"version_min": VERSION, "version_max": VERSION, "credential": ""}
        hello["name"] = f"bellwether_wire.py, pid {os.getpid()}"
        self.write(MAGIC + frame(HELLO, encoded("Hello", hello)))
        kind, body = self.next_frame()
        if kind != WELCOME:
            raise Broken(f"a frame of kind {kind} instead of a welcome")
        self.welcome = Reader(body).get("Welcome")

    def write(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Broken(str(error)) from error

    def put_ask(self, ask, call):
        """The whole call in as many frames as it takes."""
        head = number(ask)
        room = FRAME_BYTES_MAX - 1 - len(head)
        out = bytearray()
        while len(call) > room:
            out += frame(ASK_PART, head + call[:room])
            call = call[room:]
        self.write(bytes(out + frame(ASK, head + call)))

    def next_frame(self):
        """The next frame; `TimeoutError` if none came in the socket's time."""
        while True:
            if not self.is_magic_read and len(self.read) >= len(MAGIC):
                if not self.read.startswith(MAGIC):
                    raise SentAway("it does not speak Bellwether's wire")
                del self.read[: len(MAGIC)]
                self.is_magic_read = True
            if self.is_magic_read and len(self.read) >= 5:
                length = int.from_bytes(self.read[:4], "little")
                if not 1 <= length <= FRAME_BYTES_MAX:
                    raise Broken(f"a frame of {length} bytes")
                if len(self.read) >= 4 + length:
                    kind, body = self.read[4], bytes(self.read[5 : 4 + length])
                    del self.read[: 4 + length]
                    if kind == GOODBYE:
                        raise_goodbye(Reader(body).get("Goodbye"), self.welcome is not None)
                    return kind, body
            try:
                data = self.socket.recv(65_536)
            except TimeoutError:
                raise
            except OSError as error:
                raise Broken(str(error)) from error
            if not data:
                raise Broken("the server closed the connection")
            self.read += data

    def next_answer(self):
        """Number and whole of the next answer."""
        while True:
            kind, body = self.next_frame()
            if kind == PONG:
                continue
            if kind not in (ANSWER, ANSWER_PART):
                raise Broken(f"a frame of kind {kind} from a server")
            reader = Reader(body)
            ask = reader.number()
            whole = self.parts.pop(ask, b"") + body[reader.at :]
            if kind == ANSWER:
                return ask, whole
            self.parts[ask] = whole


def frame(kind, body):
    return struct.pack("<IB", 1 + len(body), kind) + body


def raise_goodbye(goodbye, is_welcome):
    # Another version or credential does not come by itself; what was not understood is not
    # understood the next time either. Who was not even welcome came when there were too many.
    lasting = goodbye["why"] in (3, 4, 5) or goodbye["why"] == 6 and is_welcome
    raise (SentAway if lasting else Broken)(f"goodbye {goodbye['why']}: {goodbye['text']}")


def connect(address):
    if address.startswith("bellwether+unix:"):
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        where = address.removeprefix("bellwether+unix:").removeprefix("//")
    elif address.startswith(("bellwether://", "bellwethers://")):
        host, _, port = address.partition("://")[2].rstrip("/").rpartition(":")
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        where = (host, int(port)) if host else (port, PORT)
    else:
        raise ValueError("bellwether://host:port, bellwethers://host:port or bellwether+unix:/path")
    found.settimeout(5)
    try:
        found.connect(where)
        if address.startswith("bellwethers://"):
            # Trusts whom the system trusts, or the file in SSL_CERT_FILE.
            context = ssl.create_default_context()
            context.set_alpn_protocols([MAGIC.decode()])
            found = context.wrap_socket(found, server_hostname=where[0])
    except ssl.SSLError as error:
        found.close()
        raise SentAway(str(error)) from error
    except OSError as error:
        found.close()
        raise Broken(str(error)) from error
    return found


# --- The client -----------------------------------------------------------------------------------


class Asked:
    """An ask that is not answered yet."""

    def __init__(self, key, command, contents, request_number):
        self.key, self.command, self.contents = key, command, contents
        self.number = request_number
        self.since = time.monotonic()
        self.times = 0  # How often it was sent.
        self.withdrawn = None
        self.answer = None


class Client:
    """One member. See the module."""

    def __init__(self, address, patience_s=30):
        self.address, self.patience_s = address, patience_s
        self.id = random.SystemRandom().getrandbits(128)
        self.slot, self.connection = None, None
        # What is not answered, by number. One number serves as the number of the ask and, where
        # one is needed, as the number of the request.
        self.asks, self.last = {}, 0
        # Times that nothing was heard, in a row.
        self.silent = 0
        self.reconnect()

    def reconnect(self):
        """Connects, joins as the same member, asks again what was not answered."""
        self.drop_connection()
        self.silent = 0
        pause, until = 0.02, time.monotonic() + self.patience_s
        while True:
            try:
                self.connection = Connection(self.address)
                self.join()
                break
            except (Broken, TimeoutError) as error:
                self.drop_connection()
                if time.monotonic() > until:
                    raise Broken(f"cannot reach {self.address}: {error}") from error
                time.sleep(pause * random.uniform(0.5, 1))
                pause = min(2 * pause, 2)
        # Said every third of it, one thing may be late without harm.
        self.connection.socket.settimeout(self.connection.welcome["silence_ms_max"] / 3000)
        for ask in sorted(self.asks):
            self.put(ask)

    def give_up_on_what_would_be_done_again(self):
        """What was received and deleted is not there to be handed out once more."""
        for key, asked in list(self.asks.items()):
            if asked.times and asked.command[1].get("mode") == "ReceiveAndDelete":
                asked.answer = Unknown("the connection broke before the answer came")
                del self.asks[key]

    def drop_connection(self):
        if self.connection:
            self.connection.socket.close()
            self.connection = None
            self.give_up_on_what_would_be_done_again()

    def put_join(self):
        join = {"id": self.id, "metadata": "bellwether_wire.py", "ttl_ms": MEMBER_TTL_MS}
        request = {"member": 0, "number": 0, "answered_below": 0, "command": ("Join", join)}
        self.connection.put_ask(0, encoded("Request", request) + number(0))

    def join(self):
        self.put_join()
        ask, answer = self.connection.next_answer()
        assert ask == 0, "nothing else was asked"
        try:
            slot = read_answer(answer)[0][1]["slot"]
        except Refused as refused:
            if refused.name == "MemberGone":
                self.was_forgotten()
                return self.join()
            raise
        assert self.slot in (None, slot), "the same id is the same member"
        self.slot = slot

    def was_forgotten(self):
        """The server took this member for dead: what was sent and not answered is unknown."""
        self.id, self.slot = random.SystemRandom().getrandbits(128), None
        for ask in self.asks.values():
            if ask.times and ask.number:
                ask.answer = Unknown("the server has forgotten this member")
        self.asks = {number: ask for number, ask in self.asks.items() if ask.answer is None}

    def ask(self, name, contents=(), needs_number=True, **fields):
        """Asks, and does not wait; the answer comes out of `wait`."""
        self.last += 1
        request_number = self.last if needs_number else 0
        asked = Asked(self.last, (name, fields), list(contents), request_number)
        self.call(asked)  # What cannot be written is refused before it is asked.
        self.asks[asked.key] = asked
        try:
            if self.connection:
                self.put(asked.key)
        except Broken:
            self.drop_connection()
        return asked

    def call(self, asked):
        """The bytes of a call as it is to be asked now."""
        name, fields = asked.command
        if "wait_ms" in fields:
            waited_ms = int(1000 * (time.monotonic() - asked.since)) if asked.times else 0
            fields = {**fields, "wait_ms": max(0, fields["wait_ms"] - waited_ms)}
        request = {
            "member": self.slot,
            "number": asked.number,
            "answered_below": min(self.asks, default=asked.number) if asked.number else 0,
            "command": (name, fields),
        }
        lengths = b"".join(number(len(content)) for content in asked.contents)
        contents = number(len(asked.contents)) + lengths + b"".join(asked.contents)
        return encoded("Request", request) + contents

    def put(self, key):
        asked = self.asks[key]
        call = self.call(asked)
        asked.times += 1
        self.connection.put_ask(key, call)
        self.put_withdraw(key)

    def put_withdraw(self, key):
        gives_back = self.asks[key].withdrawn
        if gives_back is not None:
            body = encoded("Withdraw", {"ask": key, "gives_back": gives_back})
            self.connection.write(frame(WITHDRAW, body))

    def withdraw(self, asked, gives_back=True):
        """The answer is not wanted any more; it comes all the same: `wait` for it."""
        if asked.key not in self.asks:
            return
        asked.withdrawn = gives_back
        try:
            if self.connection:
                self.put_withdraw(asked.key)
        except Broken:
            self.drop_connection()

    def wait(self, asked):
        """The outcome and its readings; `None` for an ask that was withdrawn. Keeps the connection,
        and makes another one if it breaks."""
        while asked.answer is None:
            try:
                if not self.connection:
                    self.reconnect()
                self.take_answer()
            except TimeoutError:
                # Nothing was said for a third of the silence that is allowed: it says that it is
                # here. A server that does not answer that is not there.
                self.silent += 1
                if self.silent > 3:
                    self.drop_connection()
                else:
                    self.say_here()
            except Broken:
                self.drop_connection()
        if isinstance(asked.answer, Unknown):
            raise asked.answer
        return read_answer(asked.answer)

    def say_here(self):
        try:
            self.put_join()
        except Broken:
            self.drop_connection()

    def take_answer(self):
        key, answer = self.connection.next_answer()
        self.silent = 0
        asked = self.asks.get(key)
        if asked is None:
            return  # A join that was repeated.
        if answer[0] == WITHDRAWN and asked.withdrawn is None:
            return  # The server stops: it is asked again on the next connection.
        asked.answer = answer
        del self.asks[key]

    def do(self, name, contents=(), needs_number=True, **fields):
        """Asks and waits; the fields of the outcome."""
        return self.wait(self.ask(name, contents, needs_number, **fields))[0][1]

    # What users call.

    def create_queue(self, queue, **settings):
        usual = {
            "lock_ms": 60_000,
            "deliveries_max": 10,
            "ttl_ms": None,
            "dead_letter_expired": False,
            "duplicate_window_ms": None,
            "sessions": False,
            "forward_to": None,
            "forward_dead_letters_to": None,
            "delete_idle_ms": None,
            "status": "Active",
            "size_bytes_max": 80 << 30,
            "message_bytes_max": 8 << 20,
            "durability": "Flushed",
        }
        return self.do("CreateQueue", queue=queue, settings={**usual, **settings})["existed"]

    def describe_queue(self, queue):
        return self.do("DescribeQueue", needs_number=False, queue=queue)["info"]

    def ask_send(self, queue, messages):
        contents = [encode_content(message) for message in messages]
        news = [
            {
                "content_bytes": len(content),
                "id_hash": id_hash(message.get("id")),
                **{field: message.get(field) for field in ("session", "ttl_ms", "due")},
            }
            for message, content in zip(messages, contents)
        ]
        return self.ask("Send", contents, queue=queue, messages=news)

    def sent(self, asked):
        """The numbers of the messages; 0 for a duplicate that was dropped."""
        form, fields = self.wait(asked)[0][1]["sequences"]
        if form == "Run":
            return list(range(fields["first"], fields["first"] + fields["count"]))
        return fields["list"]

    def send(self, queue, messages):
        return self.sent(self.ask_send(queue, messages))

    def ask_receive(self, queue, max=1, wait_ms=0, part="Main", mode="PeekLock", session=None):
        path = {"queue": queue, "part": part}
        fields = {"session": session, "max": max, "mode": mode, "wait_ms": wait_ms}
        return self.ask("Receive", **{"from": path}, **fields, lock_ms=None)

    def received(self, asked):
        answer = self.wait(asked)
        return deliveries(asked.command[1]["from"], answer) if answer else []

    def receive(self, queue, **wish):
        return self.received(self.ask_receive(queue, **wish))

    def peek(self, queue, part="Main", max=100):
        path = {"queue": queue, "part": part}
        fields = {"from": path, "sequence": 0, "max": max, "session": None}
        return deliveries(path, self.wait(self.ask("Peek", needs_number=False, **fields)))

    def settle(self, delivery, disposition, overlay=None, **fields):
        contents = [] if overlay is None else [overlay]
        new = None if overlay is None else {"index": 0, "bytes": len(overlay)}
        settlement = {"token": delivery.token, "disposition": (disposition, fields), "overlay": new}
        done = self.do("Settle", contents, **{"from": delivery.path}, settlements=[settlement])
        for _, refusal in done["refused"]:
            raise Refused(refusal)

    def complete(self, delivery):
        self.settle(delivery, "Complete")

    def abandon(self, delivery, delay_ms=None, overlay=None):
        self.settle(delivery, "Abandon", overlay, delay_ms=delay_ms)

    def dead_letter(self, delivery, reason, description):
        self.settle(delivery, "DeadLetter", encode_overlay(reason, description))

    def acquire(self, lease, id, kind="Bound", ttl_ms=15_000, wait_ms=0):
        """The term. Trust it for 80 % of the ttl from before this was called."""
        fields = {"lease": lease, "id": id, "kind": kind, "ttl_ms": ttl_ms}
        return self.do("Acquire", **fields, metadata="", wait_ms=wait_ms, priority=0)["term"]

    def heartbeat(self, held):
        """Renews the bound leases that are named: pairs of name and term."""
        same = ("Same", {"count": len(held), "digest": digest(held)})
        beat = self.do("Heartbeat", needs_number=False, held=same)["beat"]
        if beat["resync"]:
            every = ("List", {"leases": list(held)})
            beat = self.do("Heartbeat", needs_number=False, held=every)["beat"]
        return beat

    def release(self, lease, id, successor=None):
        self.do("ReleaseLease", lease=lease, id=id, successor=successor)

    def close(self):
        """Leaves: bound leases are free at once."""
        self.do("Leave")
        if self.connection:
            last = encoded("Goodbye", {"why": 1, "text": ""})
            try:
                self.connection.write(frame(GOODBYE, last))
            except Broken:
                pass  # Whether the server still hears of it makes no difference.
        self.drop_connection()


def read_answer(answer):
    """Outcome, remaining times and readings of an answer; `None` if it was withdrawn."""
    reader = Reader(answer)
    tag = reader.byte()
    if tag == WITHDRAWN:
        reader.finish()
        return None
    if tag != DONE:
        value = reader.get("Refusal" if tag == REFUSED else "text")
        reader.finish()
        raise {REFUSED: Refused, UNKNOWN: Unknown, FAILED: Failed}[tag](value)
    outcome = reader.get("Outcome")
    views = outcome[1].get("views", [])
    remaining = [reader.number() if view["state"][0] == "Locked" else None for view in views]
    heads = []
    for _ in range(reader.length()):
        heads.append(reader.number() if reader.get("bool") else reader.get("text"))
    readings = [reader.take(head) if isinstance(head, int) else head for head in heads]
    reader.finish()
    return outcome, remaining, readings


def deliveries(path, answer):
    (_, fields), remaining, readings = answer

    def readable():
        for reading in readings:
            if isinstance(reading, str):
                raise ValueError(f"a content cannot be read: {reading}")
            yield reading

    readings_left = readable()
    return [
        Delivery(path, view, None if not left else left - 1, readings_left)
        for view, left in zip(fields["views"], remaining)
    ]
