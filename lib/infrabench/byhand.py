"""Tools as a person types them: a plain command line, and its number read as an eye finds it.

`infrabench.fidelity` compares these with infrabench's own trials, so no line here is shared with a workload's command
or parser.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infrabench.core import Case, CommandFailed, ParseError, Target

LIMIT_S = 60.0
POLL_S = 0.02
Roles = Mapping[str, Target]
Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Tool:
    """What infrabench is asked to do, and how a person does the same; both give `metrics`.

    `by_hand` raises `CommandFailed` or `ParseError` when it gives no number.
    """

    case: Case
    metrics: tuple[str, ...]
    by_hand: Callable[[Roles], Values]


def typed(target: Target, line: str) -> str:
    """Return what a command line, split at its spaces, prints inside the target; `CommandFailed` when it fails."""
    result = target.host.run((*target.prefix, *line.split()), timeout_s=LIMIT_S)
    if not result.ok:
        raise CommandFailed(result, target.host.name)
    return result.stdout.decode("utf-8", "replace")


def seen(output: str, begins: str, word: int) -> float:
    """Return the number that is word `word` of the first line that begins like this; `ParseError` when none is.

    >>> seen("speed\\n  events per second:   12.5\\n", "events per second:", -1)
    12.5
    """
    for line in output.splitlines():
        words = line.split()
        if " ".join(words).startswith(begins):
            try:
                return float(words[word])
            except (IndexError, ValueError) as error:
                raise ParseError("eye", f"word {word} is no number", line) from error
    raise ParseError("eye", f"no line begins with {begins!r}", output)


def _sysbench(roles: Roles) -> Values:
    out = typed(roles["server"], "sysbench cpu --threads=1 --time=1 --cpu-max-prime=10000 run")
    return {"events_per_s": seen(out, "events per second:", -1)}


def _iozone(roles: Roles) -> Values:
    out = typed(roles["server"], "iozone -i 0 -i 1 -r 4k -s 32m -e -c -f /var/tmp/by-hand.bin")
    return {"write_B_per_s": seen(out, "32768 4 ", 2) * 1024, "read_B_per_s": seen(out, "32768 4 ", 4) * 1024}


def _ab(roles: Roles) -> Values:
    server, client = roles["server"], roles["client"]
    url = f"http://{server.address}:18080/index.html"
    typed(server, "ib-service start web")
    try:
        _until_it_answers(client, url)
        out = typed(client, f"ab -n 1000 -c 100 {url}")
    finally:
        typed(server, "ib-service stop web")
    return {"requests_per_s": seen(out, "Requests per second:", 3)}


def _until_it_answers(client: Target, url: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            typed(client, f"curl -sf -o /dev/null {url}")
            return
        except CommandFailed:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


TOOLS: Mapping[str, Tool] = {
    "sysbench-cpu": Tool(
        Case("sysbench-cpu", "threads=1", {"threads": 1, "seconds": 1}, seconds=2.2), ("events_per_s",), _sysbench
    ),
    "iozone": Tool(
        Case("iozone", "size=32MiB", {"size_bytes": 32 * 2**20}, seconds=1.0),
        ("write_B_per_s", "read_B_per_s"), _iozone,
    ),
    "web": Tool(
        Case("web", "users=100", {"users": 100, "requests": 1000}, seconds=1.6), ("requests_per_s",), _ab
    ),
}  # fmt: skip
