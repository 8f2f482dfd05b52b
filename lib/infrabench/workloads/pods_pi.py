"""pods-pi: the time in which many pods at once compute pi to ``digits`` decimals, from one instant on.

``program``: ``pi`` (of the number library CLN, one thread), ``y-cruncher`` (all processors; where its user has put it
into the pods), or ``auto``: y-cruncher where it is there, else pi. Every pod's digits are compared with digits that are
computed here: a pod that is wrong makes the trial unparsable.

Metrics, from the times at which tools started and ended and the CPU time that the pods' kernel counted for them:

* ``time_s``: mean over the pods of end minus start;
* ``all_done_s``: last end minus the instant at which all were to start;
* ``cpu_utilisation_percent`` = 100 x (CPU seconds that the node's machine was busy while the tools ran, all that their
  runtimes did included) / ``all_done_s``: in percent of one processor, so that two busy processors are 200;
* ``efficiency_percent`` = ``cpu_utilisation_percent`` / number of processors that the pods share (those the conductor
  may use): about 100 where none of them was ever idle.

Both say how busy the processors were, not how fast the pods were: a runtime that spends more on the same digits raises
them. They are the machine's count and not the pods' own: a pod with a kernel of its own (gVisor, Kata) counts time that
it was given only in part. The machine counts each processor in steps of 10 ms, and until the last pod has told its end.
With y-cruncher ``computation_s``, ``told_utilisation_percent`` and ``told_efficiency_percent`` are the pods' means of
what each one tells of itself.

y-cruncher (numberworld.org) is not free to be given on: it runs where its user has put it. Its validation file begins
with a byte-order mark and has lines that end with CRLF, on Linux too; ib-pods tells each byte as a character. It tells
more digits of its times than its console does, and a hash of all decimals. ``CPU Utilization`` is its own CPU time over
the time it computed, in percent of one processor, with the kernel's part beside it; ``Multi-core Efficiency`` is that
over the logical processors it saw.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, ROUND_DOWN, Context, Decimal
from functools import lru_cache
from statistics import fmean

from infrabench.core import Capture, Measurements, NotRunnable, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads import _counters, _pods
from infrabench.workloads._parse import Field, equal, higher, lower, one, positive, read_fields, value

VERSION = ("pi", "--version"), r"^pi \(CLN ([0-9.]+)\)$"
TOOL = "pi"
READS = ("1.3.6", "1.3.7")
YCRUNCHER = "y-cruncher"
CHOICES = ("auto", TOOL, YCRUNCHER)
PARAMS = {
    **_pods.PODS,
    "digits": Param(100_000, least=50, most=10**9, meaning="decimals of pi"),
    "program": Param("auto", choices=CHOICES, meaning="pi of CLN or y-cruncher; auto: y-cruncher where it is"),
}
SCRIPT = 'pi "$0" | sha256sum'
# The conductor sees its node's processors: their times at the instant and at the end go to its standard error.
STAT = ("--stat", "/proc/stat")
SLOWEST = 10_000  # digits a second of a pod that has a processor for itself: far below any
LEAST_S = 60.0
# How the digits are computed that those of the pods are compared with.
GUARD = 20  # digits that are computed and not told: far more than the rounding of all operations takes
DIGITS_PER_TERM = 14.18  # of the series
A, B, C3_OVER_24 = 13591409, 545140134, 640320**3 // 24
MARK = "\xef\xbb\xbf"  # the byte-order mark, a character for each byte
BEGIN = "Benchmark Validation File"
PRIME = 2**61 - 1  # the hash is the number without its point, modulo this
# y-cruncher writes nothing to its own folder, asks nobody, and keeps no digits. Needs y-cruncher 0.7.8.
YCRUNCHER_SCRIPT = """
folder=$(mktemp -d) || exit 1
"$0" skip-warnings pause:-2 colors:0 custom pi -dec:"$1" -od:0 -o "$folder" </dev/null >"$folder/said" 2>&1
status=$?
if [ $status -eq 0 ]; then cat "$folder"/Pi*[0-9].txt; status=$?; fi
if [ $status -ne 0 ]; then tail -c 2000 "$folder/said" >&2; fi
rm -rf "$folder"
exit $status
"""
# The configuration below repeats words of the head, but not its layout. The kernel's part stands beside a percentage.
SECONDS = r"NUM seconds(?: +\( .+ \))?$"
PERCENT = r"NUM % +\+ +NUM % kernel overhead$"
VALIDATION = {
    "computation time": Field(rf"^Total Computation Time: +{SECONDS}"),
    "wall time": Field(rf"^Start-to-End Wall Time: +{SECONDS}"),
    "utilisation": Field(rf"^CPU Utilization: +{PERCENT}"),
    "efficiency": Field(rf"^Multi-core Efficiency: +{PERCENT}"),
}
supported = _pods.needing(TOOL)
METRICS = {
    **dict.fromkeys(("time_s", "all_done_s", "computation_s"), "time"),
    **dict.fromkeys(("cpu_utilisation_percent", "efficiency_percent", "cpu_percent"), "quantity"),
    **dict.fromkeys(("told_utilisation_percent", "told_efficiency_percent"), "quantity"),
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the steps around one computation in all pods."""
    digits = params["digits"]
    command = _command(params, roles)
    limit_s = LEAST_S + params["pods"] * digits / SLOWEST
    first, *others = _pods.conducted(params, roles, command, min(limit_s, 3600.0), STAT)
    facts = Step("facts", "conductor", ("ib-pods", "facts"), timeout_s=_pods.COMMAND_S, phase="prepare")
    return (first, facts, *others)


def parse(capture: Capture) -> Measurements:
    """Return the times and what the processors did; `ParseError` when a pod computed anything but pi."""
    run = _pods.read(capture)
    cpus = positive(TOOL, "processors", value(TOOL, _pods.answer(TOOL, capture, "facts"), "cpus"))
    used = YCRUNCHER if run.pods[0].output.removeprefix(MARK).startswith(BEGIN) else TOOL
    if capture.params["program"] != "auto":
        equal(TOOL, "program", used, capture.params["program"])
    own = (_check_validations if used == YCRUNCHER else _check_digits)(run, capture.params["digits"])
    all_done_s = positive(TOOL, "time", run.span_s)
    time_s = fmean(pod.end_s - pod.start_s for pod in run.pods)
    busy = _counters.busy_s(capture["run"].stderr.decode("utf-8", "replace"))
    percent = 100 * positive(TOOL, "CPU time", busy) / all_done_s
    return (
        *lower("s", time_s=positive(TOOL, "time", time_s), all_done_s=all_done_s),
        *higher("%", cpu_utilisation_percent=percent, efficiency_percent=percent / cpus),
        *own,
        *_pods.cpu(capture),
    )


def _command(params: Params, roles: Roles) -> tuple[str, ...]:
    """Return the command of one pod. Where y-cruncher is, the life cycle of ``control`` says by its name."""
    path = roles["control"].lifecycle.get(YCRUNCHER) if "control" in roles else None
    if params["program"] == YCRUNCHER and path is None:
        raise NotRunnable("y-cruncher is not in its pods")
    if path is None or params["program"] == TOOL:
        return ("sh", "-c", SCRIPT, str(params["digits"] + 1))  # pi counts the 3 as well
    return ("sh", "-c", YCRUNCHER_SCRIPT, path[0], str(params["digits"]))


def _check_digits(run: _pods.Run, digits: int) -> Measurements:
    """Compare every pod's hash of its output with that of the digits; pi tells nothing more of itself."""
    right = hashlib.sha256(f"3.{decimals(digits)}\n".encode()).hexdigest()
    for pod in run.pods:
        found = one(TOOL, f"the hash of {pod.name}", r"\A([0-9a-f]{64})  -\n\Z", pod.output)[1]
        if found != right:
            raise ParseError(TOOL, f"{pod.name} computed other digits than those of pi", pod.output)
    return ()


def _check_validations(run: _pods.Run, digits: int) -> Measurements:
    """Return what y-cruncher tells of itself, once the digits of every pod are known to be right."""
    right = hash_decimals(decimals(digits))
    reports = [read_validation(pod.output) for pod in run.pods]
    for pod, (_, count, hashed) in zip(run.pods, reports, strict=True):
        equal(YCRUNCHER, f"decimals of {pod.name}", count, digits)
        equal(YCRUNCHER, f"hash of the decimals of {pod.name}", hashed, right)
    names = ("computation time", "utilisation", "efficiency")
    time_s, utilisation, efficiency = (fmean(report[name] for report, _, _ in reports) for name in names)
    percent = higher("%", told_utilisation_percent=utilisation, told_efficiency_percent=efficiency)
    return (*lower("s", computation_s=time_s), *percent)


def read_validation(output: str) -> tuple[Mapping[str, float], int, int]:
    """Return what a validation file says, how many decimals it is of, and their hash.

    `ParseError` when it is not whole, or its own checks failed.
    """
    output = output.replace("\r\n", "\n")
    begins = output.removeprefix(MARK).startswith(BEGIN)
    if not begins or not re.search(r"\nChecksum1: [0-9a-f]{64,256}\n\Z", output):
        raise ParseError(YCRUNCHER, "no whole validation file", output[:200] + output[-200:])
    one(YCRUNCHER, "the constant", r"^Constant: +Pi$", output)
    one(YCRUNCHER, "a spot check that is good", r"^Spot Check: +Good through [0-9,]+$", output)
    one(YCRUNCHER, "its version", r"^Program: +y-cruncher v(\S.*)$", output)
    count = one(YCRUNCHER, "decimals", r"^Decimal Digits: +([0-9,]{1,30})$", output)[1].replace(",", "")
    found = read_fields(YCRUNCHER, VALIDATION, output, {})
    for name, quantity in found.items():
        positive(YCRUNCHER, name, quantity)
    hashed = r"^Dec Hash: Floor\(\|x\| \* 10\^dec\) mod \(2\^61 - 1\) = ([0-9]{1,19})$"
    return found, int(count or 0), int(one(YCRUNCHER, "the hash", hashed, output)[1])


def hash_decimals(decimals: str) -> int:
    """Return y-cruncher's hash of pi with these decimals."""
    context = Context(prec=len(decimals) + 1, Emax=MAX_EMAX, Emin=MIN_EMIN)
    return int(context.remainder(context.create_decimal(f"3{decimals}"), Decimal(PRIME)))


@lru_cache(maxsize=4)
def decimals(count: int) -> str:
    """Return the first `count` digits of pi after the point, cut off and not rounded.

    The series of D. V. and G. V. Chudnovsky (1988) by binary splitting, as in H. Haible and T. Papanikolaou, *Fast
    multiprecision evaluation of series of rational numbers* (1998). A million takes some seconds, and is kept.

    >>> decimals(10)
    '1415926535'
    """
    context = Context(prec=count + GUARD, rounding=ROUND_DOWN, Emax=MAX_EMAX, Emin=MIN_EMIN)
    _, q, t = _sum_series(context, 0, int(count / DIGITS_PER_TERM) + 2)
    pi = context.divide(context.multiply(context.multiply(Decimal(426880), _square_root(context, 10005)), q), t)
    return str(pi)[2 : 2 + count]


def _square_root(context: Context, number: int) -> Decimal:
    """Return the square root by Newton's method on its inverse: the precision doubles, and nothing is divided."""
    inverse, digits = Context(prec=28).power(Decimal(number), Decimal("-0.5")), 25
    while digits < context.prec:
        digits = min(2 * digits - 2, context.prec)
        now = Context(prec=digits + 4, Emax=MAX_EMAX, Emin=MIN_EMIN)
        missing = now.subtract(Decimal(1), now.multiply(now.multiply(inverse, inverse), Decimal(number)))
        inverse = now.add(inverse, now.multiply(now.multiply(inverse, missing), Decimal("0.5")))
    return context.multiply(inverse, Decimal(number))


def _sum_series(context: Context, first: int, last: int) -> tuple[Decimal, Decimal, Decimal]:
    """Return P, Q and T of the terms from `first` up to but not with `last`."""
    if last - first == 1:
        p, q = ((6 * first - 5) * (2 * first - 1) * (6 * first - 1), first**3 * C3_OVER_24) if first else (1, 1)
        return Decimal(p), Decimal(q), Decimal((-1) ** first * p * (A + B * first))
    middle = (first + last) // 2
    left_p, left_q, left_t = _sum_series(context, first, middle)
    right_p, right_q, right_t = _sum_series(context, middle, last)
    t = context.add(context.multiply(right_q, left_t), context.multiply(left_p, right_t))
    return context.multiply(left_p, right_p), context.multiply(left_q, right_q), t
