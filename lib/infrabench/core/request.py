"""What a person asks for: one object from the command line, papermill, a notebook's cell or a campaign's job."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from infrabench.core.errors import LONGEST_NAME, DesignError, shorten
from infrabench.core.studies import MOST_ROUNDS, Stopping

MOST_BLOCKS = 1000  # of a case that gets what is left of a time


def option(text: str, metavar: str | None = None, of: str = "", nargs: str | None = None) -> Mapping[str, Any]:
    """Return what the command line knows of a field of `Request`: its help; `of` is the kind of names that it takes."""
    return {"help": text, "metavar": metavar, "of": of, "nargs": nargs}


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a study; None means what the study says.

    Making one checks every value by itself, and `DesignError` says which parameter is wrong, what was given, and what
    it may be. Whether the study has such a profile, system or workload is found when a design is made of it.

    >>> Request("containers", "quick", systems="native,docker", runs=30).systems
    ('native', 'docker')
    """

    # fmt: off
    study: str = field(metadata=option("a study, such as containers", "STUDY", "studies"))
    profile: str = field(metadata=option(
        "size of the study: smoke, quick or paper (default: quick), or a YAML file of own cases", of="profiles"))
    runs: int | None = field(default=None, metadata=option(
        "number of blocks (default: what the profile says); with --minutes the first ones, 10 or more", "N"))
    # Made, these two are tuples; they may come as text: ["native", "docker"] or native,docker
    systems: Sequence[str] | str | None = field(default=None, metadata=option(
        "systems (default: those of the profile); the first is the baseline where the study's is not among them",
        "NAME", "systems", "+"))
    workloads: Sequence[str] | str | None = field(
        default=None, metadata=option("workloads (default: all of the profile)", "NAME", "workloads", "+"))
    # Made, a mapping of tuples: {"web.users": (100, 1000)}; it may come as text: web.users=100,1000 or as JSON
    set: Mapping[str, Any] | Sequence[str] | str | None = field(default=None, metadata=option(
        "own values of workloads' parameters, such as web.users=100,1000 sysbench-cpu.threads=1:8; each combination is "
        "a scenario (default: what the profile says)", "WORKLOAD.PARAMETER=VALUES", nargs="+"))
    seed: int | None = field(default=None, metadata=option("seed of the random order (default: the study's)", "N"))
    deployments: int | None = field(default=None, metadata=option(
        "make every system ready anew N times; blocks are shared out (default: what the profile says)", "N"))
    order: str | None = field(default=None, metadata=option(
        "order in a block: adjacent, the systems of a case side by side (default), random, or williams against "
        "carry-over"))
    rounds: int | None = field(default=None, metadata=option(
        "cut each trial that is an amount of work into N runs that alternate between the systems (default: what the "
        "profile says)", "N"))
    aa: str = field(default="", metadata=option("A/A: measure this one system under two labels", "SYSTEM", "systems"))
    precision: float | None = field(default=None, metadata=option(
        "from 30 blocks on, add blocks until every primary cell's 95 % interval is at most this half-width, as a "
        "share: 0.02 is 2 %", "SHARE"))
    minutes: float | None = field(default=None, metadata=option(
        "a few blocks of every case, then more, in MINUTES in all, of those whose intervals are too wide for their "
        "margins; with --precision: add no block after MINUTES", "MINUTES"))
    most: int | None = field(default=None, metadata=option(
        "with --precision or --minutes: at most N blocks of a case (default: 100, or 1000)", "N"))
    site: str = field(default="auto", metadata=option(
        "lab, local, an inventory file of hosts (YAML), or the kubeconfig of a cluster, whose nodes need the image of "
        "pods (INFRABENCH_POD_IMAGE names another); auto (default) is lab where it can be, else local"))
    session: str | None = field(
        default=None, metadata=option("session name or folder (default: one per set of parameters)", "NAME"))
    mixture: bool = field(default=False, metadata=option(
        "go on although the code has changed since the last trial; trials of another code are analysed apart"))
    # fmt: on

    def __post_init__(self) -> None:
        for name in ("systems", "workloads"):
            given = parse_names(getattr(self, name))
            object.__setattr__(self, name, None if given is None else check_names(name, given))
        object.__setattr__(self, "set", parse_settings(self.set))
        for name, least in (("runs", 1), ("deployments", 1), ("seed", 0), ("rounds", 1), ("most", 1)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least)
        if self.rounds is not None and self.rounds > MOST_ROUNDS:
            raise DesignError(f"rounds must be at most {MOST_ROUNDS}, not {shorten(self.rounds)}")
        if not isinstance(self.order, str | None) or not isinstance(self.aa, str):
            raise DesignError(f"order and aa are names, got {shorten(self.order)} and {shorten(self.aa)}")
        if not isinstance(self.mixture, bool):
            raise DesignError(f"mixture is true or false, got {shorten(self.mixture)}")
        if self.aa and self.systems is not None:
            raise DesignError("an A/A session has one system under two labels: name either `aa` or `systems`")
        if self.precision is None and self.minutes is None and self.most is not None:
            raise DesignError("most bounds blocks that are added: give the precision, or the minutes, too")
        if self.precision is not None:
            check_number("precision", self.precision)
        if self.minutes is not None:
            if not check_number("minutes", self.minutes) > 0:
                raise DesignError(f"minutes must be more than 0, not {self.minutes:g}")
            if self.minutes == int(self.minutes):  # 20.0 is the session of 20
                object.__setattr__(self, "minutes", int(self.minutes))
            if self.precision is None and self.mixture:
                raise DesignError("a time is shared out among trials of one code: leave out mixture, or the minutes")

    @staticmethod
    def from_session(data: Mapping[str, Any], name: str | None = None) -> Request:
        """Return the request of the session `name` from its ``session.json``, with nothing left to the study."""
        stored = {**data, **data["parameters"]}
        rule, aa = stored.get("stopping") or {}, stored.get("aa") or ""
        return Request(
            study=stored["study"], profile=stored.get("profile"), runs=stored.get("blocks"), seed=stored.get("seed"),
            systems=None if aa else stored.get("systems"), workloads=stored.get("workloads"),
            deployments=stored.get("deployments", 1), order=stored.get("order", "random"),
            rounds=stored.get("rounds"), set=stored.get("set"),
            precision=rule.get("target"), most=rule.get("most"),
            minutes=None if rule.get("budget_s") is None else rule["budget_s"] / 60,
            aa=aa, site=stored["site"]["name"], session=name,
        )  # fmt: skip

    def given(self) -> dict[str, Any]:
        """Return, as JSON has them, the parameters that are not as they are by default; `Request` takes them back."""
        chosen = {each.name: getattr(self, each.name) for each in fields(self)}
        listed = {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items()}
        listed["set"] = {name: list(values) for name, values in (chosen["set"] or {}).items()}
        return {each.name: listed[each.name] for each in fields(self) if chosen[each.name] != each.default}

    @property
    def stopping(self) -> Stopping | None:
        """The rule that adds blocks until a precision is met or a time is used; None without one."""
        if self.precision is None and self.minutes is None:
            return None
        usual = MOST_BLOCKS if self.precision is None else Stopping(self.precision).most
        most = usual if self.most is None else self.most
        return Stopping(self.precision, most, budget_s=None if self.minutes is None else self.minutes * 60)


def parse_names(names: Sequence[str] | str | None) -> Sequence[str] | None:
    """Return a list of names that may have come as text, ``["native", "docker"]`` or ``native,docker``."""
    if not isinstance(names, str):
        return names
    if not names.strip().startswith("["):
        return [part.strip() for part in names.split(",") if part.strip()]
    try:
        return list(json.loads(names))
    except (ValueError, TypeError, RecursionError) as error:
        shown = names[:LONGEST_NAME]
        raise DesignError(f'not a list of names: {shown!r}; write ["native", "docker"] or native,docker') from error


def parse_settings(given: Mapping[str, Any] | Sequence[str] | str | None) -> dict[str, tuple[Any, ...]] | None:
    """Return values by ``workload.parameter``, each still as it was given; None without any.

    They come as a mapping, as its JSON, or as text, ``web.users=100,1000 stream.threads=2``, in one or several pieces.
    """
    if isinstance(given, str) and given.strip().startswith("{"):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise DesignError(f"set is not JSON: {shorten(given)}: {error}") from error
    if given is None or (isinstance(given, str | Sequence) and not given):
        return None
    pairs: list[tuple[Any, Any]] = []
    if isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        words = given.split() if isinstance(given, str) else [*given]
        for word in words:
            name, is_pair, values = word.partition("=") if isinstance(word, str) else (word, "", "")
            if not is_pair:
                raise DesignError(f"set: {shorten(word)} is not like web.users=100,1000")
            pairs.append((name, values))
    settings: dict[str, tuple[Any, ...]] = {}
    for name, values in pairs:
        if not isinstance(name, str) or not all(name.partition(".")):
            raise DesignError(f"set: {shorten(name)} is not a workload and its parameter, such as web.users")
        if name in settings:
            raise DesignError(f"set names {name} more than once")
        if isinstance(values, str):
            values = [part.strip() for part in values.split(",") if part.strip()]
        settings[name] = tuple(values) if isinstance(values, list | tuple) else (values,)
        if not settings[name]:
            raise DesignError(f"set: {name} has no value")
        for value in settings[name]:
            if not isinstance(value, bool | int | float | str):
                raise DesignError(f"set: a value of {name} is a number, a text, true or false, not {shorten(value)}")
    return settings or None


def check_names(what: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return a list of names as a tuple; `DesignError` unless it is one, of one or more, each once."""
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise DesignError(f"{what} must be a list of one or more names, got {shorten(names)}")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DesignError(f"{what} names {repeated[0]!r} more than once")
    return tuple(names)


def check_count(what: str, number: object, least: int) -> int:
    """Return a whole number; `DesignError` unless it is one, and at least `least`."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number < 2**63:
        raise DesignError(f"{what} must be a whole number of at least {least}, got {shorten(number)}")
    return number


def check_number(what: str, number: object) -> float:
    """Return a number; `DesignError` unless it is one."""
    if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) < 1e9:
        raise DesignError(f"{what} must be a number, got {shorten(number)}")
    return number
