"""The contract of a workload: steps to run, what they captured, and the measurements read from it."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol

from infrabench.core.errors import CommandFailed, DesignError, ParseError, shorten
from infrabench.core.hosts import Result, Target, plain
from infrabench.core.systems import Deployment

SCRIPTS: dict[Path, str] = {}  # as this process sends them to hosts


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a trial. Only ``measure`` steps are timed as tool work; ``cleanup`` steps always run.

    ``rescue`` steps run before those of ``cleanup``, and only after a step that failed or a host that was lost: they
    keep evidence, and remove what the next trial must not find. What one of them writes to stderr, and succeeds, is
    the cause of the failure as far as it knows one: it joins the trial's reason.

    `until_ok_s`: repeat until exit status 0 or this many seconds have passed (readiness; ``prepare`` only).
    `host`: run on the target's host, outside the target (life-cycle commands).
    """

    name: str
    role: str
    argv: tuple[str, ...]
    timeout_s: float = 60.0
    phase: Literal["prepare", "measure", "rescue", "cleanup"] = "measure"
    stdin: bytes = b""
    until_ok_s: float | None = None
    host: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", self.name):
            raise DesignError(f"step name {self.name!r}: use lower-case letters, digits, - and _")
        if self.until_ok_s is not None and self.phase != "prepare":
            raise DesignError(f"step {self.name!r}: a measurement is never retried")


@dataclass(frozen=True, slots=True)
class Capture:
    """The immutable raw outcome of a trial: each step's `Result` by step name, and the trial's parameters."""

    steps: Mapping[str, Result]
    params: Mapping[str, Any]

    def __getitem__(self, name: str) -> Result:
        """Return the result of step `name`; `ParseError` when the trial never reached it."""
        if name not in self.steps:
            raise ParseError("capture", f"step {name!r} is missing; there are {sorted(self.steps)}")
        return self.steps[name]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number of one trial, in SI base units."""

    metric: str
    value: float
    unit: str
    better: Literal["higher", "lower"]


LARGEST = 2.0**63  # no parameter is larger, and products of some such numbers stay finite
LONGEST_TEXT = 4096  # characters: that of a path
MOST_VALUES = 1000  # of a range
NUMBER_TEXT, SIZE_TEXT, RANGE_TEXT = (
    r"-?[0-9]{1,19}(?:\.[0-9]{1,19})?(?:[eE][+-]?[0-9]{1,3})?", r"([0-9]{1,19})\s?([kKMG]i?B|B)",
    r"(-?[0-9]{1,18}):(-?[0-9]{1,18})(?::([0-9]{1,18}))?",
)  # fmt: skip
SIZES = {
    "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "kiB": 2**10, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a workload: what it is when nobody says, what it may be, its unit and its meaning.

    It is of the type of its default: a switch, a whole number, a number (which may be whole) or a text. `work`: it says
    how much a trial does (requests, events), and a trial that is cut into rounds does a share of it in each; what one
    run of the tool measures must not hang on how long it is then. `words`: choice -> what names of scenarios call it,
    where that is not the choice itself. `instead`: the parameter, a number, that is used in its place unless that is 0;
    a case that gives both is refused.

    >>> Param(10, least=1, unit="s", meaning="length of the run").check("seconds", 0)
    Traceback (most recent call last):
    infrabench.core.errors.DesignError: seconds must be a whole number, 1 or more, not 0
    """

    default: bool | int | float | str
    choices: tuple[int | str, ...] = ()
    least: float | None = None
    most: float | None = None
    unit: str = ""
    meaning: str = ""
    work: bool = False
    words: Mapping[str, str] = field(default_factory=dict, hash=False)
    instead: str = ""

    def check(self, name: str, given: object) -> None:
        """Raise `DesignError` unless `given` is what the parameter, called `name`, may be."""
        number = isinstance(given, int | float) and not isinstance(given, bool)
        if self.choices:
            fits = given in self.choices and type(given) is type(self.default)
        elif isinstance(self.default, bool):
            fits = isinstance(given, bool)
        elif isinstance(self.default, str):
            fits = isinstance(given, str) and given.isprintable() and len(given) <= LONGEST_TEXT
        else:
            fits = (
                number
                and (isinstance(given, int) or not isinstance(self.default, int))
                and (-LARGEST if self.least is None else self.least) <= given < LARGEST  # type: ignore[operator]
                and (self.most is None or given <= self.most)  # type: ignore[operator]
            )
        if not fits:
            raise DesignError(f"{name} must be {self.range}, not {shorten(given)}")

    def read(self, name: str, given: object) -> tuple[Any, ...]:
        """Return the values that `given` stands for, each checked: itself, or what a text says.

        A text is ``100``, ``true``, of bytes also ``64MiB`` or ``500MB``, and of whole numbers a range with both of its
        ends, ``1:8`` or ``1000:16000:5000``. `name` is what errors call the parameter.
        """
        values: tuple[Any, ...] = (given,)
        if isinstance(given, str) and not isinstance(self.default, str):
            switch, text = isinstance(self.default, bool), given.strip()
            number, size = re.fullmatch(NUMBER_TEXT, text), re.fullmatch(SIZE_TEXT, text)
            ends = re.fullmatch(RANGE_TEXT, text)
            if switch and text in ("true", "false"):
                values = (text == "true",)
            elif not switch and ends:
                first, last, step = int(ends[1]), int(ends[2]), int(ends[3] or 1)
                values = tuple(range(first, last + 1, step or 1)[: MOST_VALUES + 1])
                if not step or not values or len(values) > MOST_VALUES:
                    raise DesignError(f"{name}: {shorten(given)} is not a range of 1 to {MOST_VALUES} values")
            elif not switch and number:
                values = (float(text) if "." in text or "e" in text.lower() else int(text),)
            elif self.unit == "B" and size:
                values = (int(size[1]) * SIZES[size[2]],)
        elif isinstance(given, str) and isinstance(self.default, str):
            values = (given.strip(),)
        for value in values:
            self.check(name, value)
        return values

    @property
    def range(self) -> str:
        """Return in words what it may be."""
        if self.choices:
            return f"one of {', '.join(map(str, self.choices))}"
        if isinstance(self.default, bool | str):
            return "true or false" if isinstance(self.default, bool) else "a text of one line"
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        if self.most is not None:
            return f"{kind} from {self.least:.12g} to {self.most:.12g}"
        return kind if self.least is None else f"{kind}, {self.least:.12g} or more"


UNITS = frozenset({"1", "s", "B", "B/s", "bit/s", "1/s", "1/min", "%", "W", "K", "s/B"})

# What a metric is, and by that how its trials are averaged and compared:
# "time": costs and times, by their mean; "total time": that of all the work of a trial, by its mean too, but the sum of
# those of its rounds; "fixed-work rate": work over time of the same work in every trial, by the mean
# of the times; "fixed-time rate": what was done in a time that is the same in every trial, by its mean; "count": rare
# events of a trial, whose chances are as many in every trial (requests, files, seconds); "share": the part of a
# trial's chances that came true, in 0 .. 1 or in percent (one or none of a single chance too); "quantity": any other.
Kind = Literal["time", "total time", "fixed-work rate", "fixed-time rate", "count", "share", "quantity"]
# A kind; or metric -> kind, where it depends on which of these the trial reports as well.
MetricKind = Kind | Mapping[str, Kind]


Params = Mapping[str, Any]  # of a trial, by name
Roles = Mapping[str, Target]  # where the steps of a trial run, by role
Steps = Sequence[Step]
Measurements = Sequence[Measurement]


def resolve_kind(kind: MetricKind, reported: Collection[str]) -> Kind:
    """Return the kind of a metric whose trials report the metrics `reported` as well."""
    if isinstance(kind, str):
        return kind
    return next((each for metric, each in kind.items() if metric in reported), "quantity")


class Workload(Protocol):
    """The contract of a module in ``workloads/``: what it declares, and two functions.

    `PARAMS` declares every parameter: name -> `Param`. Its ranges are checked where a request becomes a design and
    before `plan` (`plan_steps`); `plan` checks what hangs on several parameters only.

    `plan` returns the steps of a trial. It raises `NotRunnable` for parameters that the system at hand has no place for
    (a second interface, say): that treatment is then left out of every block, with the reason.

    `parse` returns the measurements of what the steps left: a pure function.

    `VERSION` says how the tool is asked for its version: argv, and a pattern whose one group is the version in what
    that prints on either stream. A workload that is not one tool defines ``version(target)`` instead.

    `PROGRAMS` says what programs a host needs for it where no image brings them: role of `plan` -> program (or file) ->
    Debian package, nothing where the guest image has it. ``infrabench hosts prepare`` installs them, and the workload
    can run where the target ``server`` has those of that role. One that needs more (a store, a life cycle) defines
    ``supported(deployment)``, which returns None or the reason why it cannot run.

    `READS`, which a module has whose output is another project's, names the versions of its tool (see `VERSION`) that
    its parser was tested with. What a version says after a space (a library, a server) makes no other version.

    `METRICS`, which a module should have, says of each metric that it reports what kind it is: metric -> `MetricKind`.
    One that it does not name is a quantity.

    `LESS_FAILED`, of a module whose rates of fixed work leave out what failed: such a rate -> the metrics of its time
    and of what failed. The rate of several rounds is then what was done in them over their time.
    """

    PARAMS: Mapping[str, Param]

    def plan(self, params: Params, roles: Roles) -> Steps: ...

    def version(self, target: Target) -> str: ...

    def supported(self, deployment: Deployment) -> str | None: ...

    def parse(self, capture: Capture) -> Measurements: ...


def default_params(workload: Workload) -> dict[str, bool | int | float | str]:
    """Return every parameter of a workload as it is when nobody says."""
    return {name: param.default for name, param in workload.PARAMS.items()}


def plan_steps(workload: Workload, params: Params, roles: Roles) -> Steps:
    """Return the steps of a trial; `DesignError` when one of `params` is not what the workload declares."""
    for name, given in params.items():
        workload.PARAMS[name].check(name, given)
    return workload.plan(params, roles)


def has_work(params: Mapping[str, Any], declared: Mapping[str, Param]) -> bool:
    """Tell whether one of `params` is an amount of work, so that a trial can be cut into rounds."""
    return any(declared[name].work and params[name] for name in params)


def share_out(params: Mapping[str, Any], declared: Mapping[str, Param], rounds: int) -> dict[str, Any]:
    """Return the parameters of one of the `rounds` of a trial; `DesignError` when it cannot be cut into so many.

    >>> share_out({"requests": 15000}, {"requests": Param(10000, least=1, work=True)}, 5)
    {'requests': 3000}
    """
    if rounds == 1:
        return dict(params)
    work = {name: value for name, value in params.items() if declared[name].work and value}
    uneven = ", ".join(f"{name} = {value}" for name, value in work.items() if value % rounds)
    if not work or uneven:
        raise DesignError(f"{uneven or 'what has no amount of work'} cannot be cut into {rounds} equal rounds")
    shares = {name: value // rounds for name, value in work.items()}
    for name, share in shares.items():
        declared[name].check(f"the share of {name} in one of {rounds} rounds", share)
    return {**params, **shares}


def script_command(path: Path) -> tuple[str, ...]:
    """Return the command that runs a Python program of ours on a host, by the host's own python3.

    It is read once: edited meanwhile, later trials would run another one than the code that their session names.
    """
    if path not in SCRIPTS:
        SCRIPTS[path] = path.read_text(encoding="utf-8")
    return "python3", "-c", SCRIPTS[path]


def read_version(target: Target, argv: Sequence[str], pattern: str) -> str:
    """Return the first group of the only match of `pattern` in what `argv` prints on either stream.

    Raises `CommandFailed` when the tool does not run, `ParseError` when it tells no version.
    """
    result = target.run(argv, timeout_s=30)
    output = plain(result.stdout + result.stderr)
    found = list(re.finditer(pattern, output, re.MULTILINE))
    if not result.ok and not found:
        raise CommandFailed(result, f"{target.role} {target.host.name}")
    if len(found) != 1:
        raise ParseError(argv[0], f"expected a version once, found it {len(found)} times", output)
    return found[0][1]


def add_up(values: Iterable[float]) -> float:
    """Return the sum of `values`, added from left to right.

    A session has to be read to the same digits by every Python, and since 3.12 `sum` adds floats in another way.

    >>> add_up([0.1] * 10)
    0.9999999999999999
    """
    return reduce(operator.add, values, 0.0)


def find_missing(deployment: Deployment, *programs: str) -> str | None:
    """Return None, or the reason: which of `programs` the system's ``server`` target does not have."""
    if not programs:
        return None
    target = deployment.targets["server"]
    found = target.run(("which", *programs), timeout_s=30).stdout.decode("utf-8", "replace").split()
    absent = [name for name in programs if name not in {PurePosixPath(path).name for path in found}]
    return f"{', '.join(absent)} not found inside; install what lab/guest/ lists" if absent else None
