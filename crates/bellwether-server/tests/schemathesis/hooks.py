"""Keeps generated requests from waiting: a long poll is not what is tested here."""

import schemathesis

WAIT_MS_MAX = 20


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict):
        wait = body.get("wait_ms")
        # Values that must be refused stay as they are.
        if isinstance(wait, int) and not isinstance(wait, bool) and WAIT_MS_MAX < wait <= 60_000:
            body["wait_ms"] = WAIT_MS_MAX
    return body
