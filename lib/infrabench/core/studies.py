"""Studies: systems, scenarios, profiles and the rules of their trials."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from infrabench.core.systems import Limits

MOST_ROUNDS = 100  # of one trial
PROFILES = ("smoke", "brief", "quick", "paper")  # by what they take; `brief` is of studies that answer in minutes


@dataclass(frozen=True, slots=True)
class Case:
    """A workload at one scenario: what every system does once a block.

    `factor` and `level` name the numeric axis that the scenario lies on, where it lies on one. Cases of one `group`
    stand together in a block, for each system: what they share (pods that are there) is then made once. A trial of
    several `rounds` is cut into as many runs of the tool, which alternate between the systems of the case.
    """

    workload: str
    scenario: str
    params: Mapping[str, Any] = field(default_factory=dict)
    factor: str | None = None
    level: float | None = None
    seconds: float = 1.0  # expected wall time of one trial, for the plan
    disk_bytes: int = 0  # largest space that one trial needs inside its target
    group: str = ""  # empty: it stands anywhere in its block
    rounds: int = 1  # runs of the tool in one trial, each with its share of the work

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them; one round, as in sessions from before there were more, is not named."""
        return {name: value for name, value in asdict(self).items() if (name, value) != ("rounds", 1)}


@dataclass(frozen=True, slots=True)
class Profile:
    """How large a study runs: blocks, cases, and how often every system is made ready anew (blocks are shared out).

    `systems`: those that it runs where none are asked for; empty: all of the study. `limits`: None for the study's.
    """

    blocks: int
    cases: tuple[Case, ...]
    deployments: int = 1
    systems: tuple[str, ...] = ()
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """A system under another label, with nothing changed (A/A) or with an effect whose size is known.

    It shares the deployment of `system`. `prefix` stands before every command in its targets; `enter` and `leave` run
    on the hosts, by role, whenever the label begins or ends to be the one that is measured. In them the argument
    ``{cgroups}`` becomes the cgroup folders of the deployment, as arguments of their own.
    """

    system: str
    prefix: tuple[str, ...] = ()
    enter: tuple[tuple[str, tuple[str, ...]], ...] = ()
    leave: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Stopping:
    """When to stop adding blocks: on the width of intervals only, never on what they say.

    Without a target the time decides: blocks are added to one case at a time, until the time is used or every primary
    case is narrow enough for its margin.
    """

    target: float | None  # relative half-width of the 95 % interval that every primary cell has to meet
    most: int = 100  # blocks, of any case
    budget_s: float | None = None  # time of the session's trials and all that is between them
    least: int = 30  # blocks before the first look
    batch: int = 5  # blocks between two looks


@dataclass(frozen=True, slots=True)
class Guards:
    """Rules that make a trial invalid, or failed, without looking at its metric; None switches a rule off."""

    # Stolen by the hypervisor: share of the host's CPU time that was used or stolen, of one processor's at the least.
    steal_share: float | None = 0.02
    throttled_periods: int | None = 0  # throttled cgroup periods of the target
    # Runnable tasks per CPU just before the trial. Not the load average: that remembers the study's own last trial.
    runnable_per_cpu: float | None = 4.0
    memory_full_share: float | None = 0.10  # share of the trial in which all tasks waited for memory (PSI full)


@dataclass(frozen=True, slots=True)
class Study:
    """One question, one notebook, one design."""

    name: str
    title: str
    baseline: str
    systems: tuple[str, ...]
    profiles: Mapping[str, Profile]
    limits: Limits
    primary: tuple[tuple[str, str], ...]  # (workload, metric): at most three
    margins: Mapping[str, float]  # metric -> equivalence margin (0.02 = 2 %); "" is the default
    guards: Guards = Guards()
    seed: int = 20200315
    variants: Mapping[str, Variant] = field(default_factory=dict)  # label among `systems` -> what it stands for
    known: tuple[tuple[str, str, str, float], ...] = ()  # (system, workload, metric, true ratio) of injected effects
    repeats: int = 2  # most repeats of an invalid trial, at the end of its own block
    probe_s: float = 1.0  # length of the drift probe before each block; 0: none
    block_gap_s: float = 600.0  # a block that was interrupted for longer is discarded whole, and another one run
    deploy_s: float = 4.0  # expected wall time of making one system ready, for the plan
    deploys_s: Mapping[str, float] = field(default_factory=dict)  # system that takes another time -> how long
    # System -> (workload, scenario) for which it has no place, so far as a plan can know; what is said and recorded is
    # what shows once the system is ready.
    placeless: Mapping[str, Collection[tuple[str, str]]] = field(default_factory=dict)

    def ready_s(self, systems: Iterable[str]) -> float:
        """Return the expected wall time of making systems ready, one after the other."""
        return math.fsum(self.deploys_s.get(each, self.deploy_s) for each in systems)
