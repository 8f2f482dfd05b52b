"""mail: postal on the client sends messages to Postfix over SMTP as fast as it can, on ``threads`` connections.

Each connection carries one message of a random size between ``min_kib`` and ``max_kib`` (KiB, postal's unit, uniform).
From 1 KiB: postal 0.75 does not end the line of a body of one byte, so that the server waits for the end of the
message, and postal for an answer, for a minute; of sizes from 0 to 64 KiB one message in 65 536 is such.
Postfix writes it to its queue, with fsync, and then discards it: nothing leaves, and no disk fills. postal has no end
of its own, so `ib-mail load` stops it after ``seconds``, lets its threads finish what they are sending, and counts
until the last connection has closed. Metrics: ``messages_per_min`` and ``bytes_per_s`` (messages as queued) over that
time, ``errors`` (warnings, refusals and broken connections in the server's log). The server must have accepted and
delivered as many messages as postal says it sent.
"""

from __future__ import annotations

from infrabench.core import Capture, Measurements, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads._parse import KIB, at_least, equal, higher, json_object, lower, positive, text, value, within

PARAMS = {
    "threads": Param(10, least=1, meaning="connections at a time"),
    "seconds": Param(60.0, least=0.1, unit="s", meaning="length of the run"),
    "min_kib": Param(1, least=1, unit="KiB", meaning="smallest message"),
    "max_kib": Param(25 * 1024, least=1, unit="KiB", meaning="largest message"),
    "port": Param(18025, least=1, most=65535, meaning="port of the server"),
}
PROGRAMS = {
    "server": {"postfix": "postfix", "ib-service": "", "ib-mail": ""}, "client": {"postal": "postal", "ib-mail": ""},
}  # fmt: skip
VERSION = ("postal", "-?"), r"^Postal Version: (\S+)$"
TOOL = "postal"
READS = ("0.75",)
COUNTER = "ib-mail"
LOG = "/var/log/infrabench/mail.log"
USERS = "/etc/infrabench/mail/users.txt"
NO_RATE_LIMIT = "1000000"  # messages a minute; postal's own default is 24000
GRACE_S = 60.0  # for the last message of each thread
LATE_S = 5.0  # start of postal, and looking for its last connection
HEADER_BYTES, LINES = 4 * KIB, 0.1  # what a message may have beside its random body, and how its lines are counted
METRICS = {"messages_per_min": "fixed-time rate", "bytes_per_s": "fixed-time rate", "errors": "count"}


def plan(params: Params, roles: Roles) -> Steps:
    """Return start, readiness (the server greets the client), load, count and stop."""
    at_least("max_kib", params["max_kib"], params["min_kib"])
    address, port = roles["server"].address, str(params["port"])
    postal = (
        TOOL, "-t", str(params["threads"]), "-m", str(params["max_kib"]), "-M", str(params["min_kib"]), "-c", "1",
        "-r", NO_RATE_LIMIT, f"[{address}]{port}", USERS,
    )  # fmt: skip
    load = (COUNTER, "load", "--seconds", f"{params['seconds']:g}", "--grace", f"{GRACE_S:g}", "--", *postal)
    ready = (COUNTER, "ready", "--address", address, "--port", port)
    count = (COUNTER, "count", "--log", LOG, "--wait", "20")
    return (
        Step("start", "server", ("ib-service", "start", "mail"), phase="prepare"),
        Step("ready", "client", ready, timeout_s=5.0, phase="prepare", until_ok_s=20.0),
        Step("postal", "client", load, timeout_s=params["seconds"] + GRACE_S + 30.0),
        Step("count", "server", count, phase="cleanup"),
        Step("stop", "server", ("ib-service", "stop", "mail"), phase="cleanup"),
    )


def parse(capture: Capture) -> Measurements:
    """Return messages a minute, bytes a second and errors; `ParseError` when the two sides count differently."""
    load = json_object(COUNTER, text(capture["postal"]))
    server = json_object(COUNTER, text(capture["count"]))
    params = capture.params
    equal(COUNTER, "seconds", value(COUNTER, load, "seconds"), float(params["seconds"]))
    sent = positive(COUNTER, "sent", value(COUNTER, load, "sent"))
    elapsed_s = positive(COUNTER, "elapsed_s", value(COUNTER, load, "elapsed_s"))
    within(COUNTER, "elapsed_s", elapsed_s, params["seconds"], params["seconds"] + GRACE_S + LATE_S)
    accepted = value(COUNTER, server, "accepted")
    if value(COUNTER, server, "connections") < accepted:  # each carries one message
        raise ParseError(COUNTER, f"{accepted:g} messages came on fewer connections", str(server))
    # A thread that is stopped between the server's answer and its own log has sent one more than it counts.
    if not sent <= accepted <= sent + params["threads"]:
        raise ParseError(COUNTER, f"the server accepted {accepted:g} messages of {sent:g} sent", str(server))
    equal(COUNTER, "delivered by the server", value(COUNTER, server, "delivered"), accepted)
    size = value(COUNTER, server, "bytes")
    least, most = (accepted * params[name] * KIB for name in ("min_kib", "max_kib"))
    within(COUNTER, "bytes", size, (1 - LINES) * least, (1 + LINES) * most + accepted * HEADER_BYTES)
    return (
        *higher("1/min", messages_per_min=accepted / elapsed_s * 60),
        *higher("B/s", bytes_per_s=positive(COUNTER, "bytes", size) / elapsed_s),
        *lower("1", errors=value(COUNTER, server, "problems")),
    )
