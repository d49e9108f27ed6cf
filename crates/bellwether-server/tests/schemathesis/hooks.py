"""Leads generated requests to where something can happen, and keeps them from waiting.

Whatever was made up to be refused stays as it is, but for its wait.
"""

import itertools

import schemathesis
from schemathesis.generation import GenerationMode

COUNT = itertools.count()
WAIT_MS_MAX = 20


def lead(case):
    path, method = case.operation.path, case.method.upper()
    parameters = case.path_parameters or {}
    if path.endswith("/{queue}"):
        # Queues that others need are neither deleted nor changed.
        if method in ("DELETE", "PATCH"):
            parameters["queue"] = {"DELETE": "doomed", "PATCH": "changed"}[method]
    elif "queue" in parameters:
        parameters["queue"] = "chats" if "session" in path else "orders"
    for name in list(case.headers or {}):
        # A member that never joined would be all that is ever answered; so would a used key.
        if name.lower() == "bellwether-member":
            del case.headers[name]
        elif name.lower() == "idempotency-key":
            case.headers[name] = f"key-{next(COUNT)}"


@schemathesis.hook
def before_call(context, case, kwargs):
    for asked in (case.body, case.query):
        wait = asked.get("wait_ms") if isinstance(asked, dict) else None
        # Parameters may be numbers that are written as texts already.
        is_number = not isinstance(wait, bool) and str(wait).isdecimal()
        if is_number and WAIT_MS_MAX < int(wait) <= 60_000:
            asked["wait_ms"] = type(wait)(WAIT_MS_MAX)
    if case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE:
        lead(case)
