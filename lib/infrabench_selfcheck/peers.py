"""Against peers: who finds a difference of 2 % in the same time, and who finds one where there is none?

All drive the same pair of commands, the probe of the workload `spin` with and without a busy-wait of a known share, for
the same wall time, their own start included, each as its documentation has it:

* **infrabench**: blocks of both in rounds that alternate, and the paired Fieller interval of a session's contrasts;
* **hyperfine**: its default order, all runs of the one and then all of the other, after a warm-up run;
* **hyperfine by hand**: single runs of hyperfine in turn, as its documentation advises where the machine drifts;
* **ReBench**: its default scheduler, which too ends one benchmark before it begins the next.

The three peers keep samples and leave the test to their user; they are given Welch's 95 % interval, which hyperfine's
own script ``welch_ttest.py`` computes. Each repetition runs the campaigns of all in random order.

The true ratio is the same for all. hyperfine times a whole process, with the start of Python in it, where the others
read what the probe says of its chunks alone. So its busy-wait is longer, by the ratio of the two times, which is
measured before each of its campaigns. The median of each tool's ratios is printed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from infrabench import registry
from infrabench.core import Case, DesignError, Guards, InfrabenchError, Limits, Profile, Request, Study, Target
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution.monitor import watching
from infrabench.experiment.execution.progress import words
from infrabench.experiment.execution.rounds import group_turns
from infrabench.experiment.execution.trial import Bench, execute_turns
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts import claims
from infrabench.machines.hosts.host import LocalHost
from infrabench.stats import pairwise
from infrabench.stats.intervals import Interval
from infrabench.workloads import spin
from infrabench_selfcheck.overhead import is_installed, rebench_command, run_timed

CHUNKS, ROUNDS = 400, 4  # of a run of a peer, and of a trial, which cuts them into so many runs
STARTS = 5  # of which the median is how much of a process is its start
EFFECTS = (0.0, 0.02)
SEED = 20200315
MOST_BLOCKS = 100_000
READING = '1000 * json.loads(data.strip().splitlines()[-1])["seconds"]'  # of what the probe prints, in ms
Samples = tuple[Sequence[float], Sequence[float]]  # seconds of the slower and of the same


class Sampling(NamedTuple):
    """One campaign of one tool: the samples and what an interval says of them."""

    tool: str
    effect: float
    n: int
    ratio: float
    low: float
    high: float

    @property
    def is_called(self) -> bool:
        """Whether its 95 % interval excludes 1."""
        return self.low > 1 or self.high < 1


def report(repetitions: int, seconds: float, out: Path, say: Callable[[str], None]) -> Iterator[str]:
    """Run what is missing of the campaigns below `out`, and yield the table.

    `seconds`: of each campaign. `DesignError` when a number is too small for anything to be inferred.
    """
    if repetitions < 1 or seconds < 5:
        raise DesignError("peers are compared in at least one repetition, with campaigns of at least 5 seconds")
    tools = {name: tool for name, tool in TOOLS.items() if name == "infrabench" or is_installed(tool.program)}
    out.mkdir(parents=True, exist_ok=True)
    (out / "probe.py").write_text(spin.PROBE.read_text(encoding="utf-8"), encoding="utf-8")
    plan = [(number, effect) for number in range(repetitions) for effect in EFFECTS]
    done: list[Sampling] = []
    with claims.claim_hosts([LocalHost()], claims.make_holder("peers")):
        for at, (number, effect) in enumerate(plan):
            rng = np.random.default_rng([SEED, number, int(1e6 * effect)])
            done += [_recall(out, tools, name, effect, number, seconds) for name in rng.permutation(list(tools))]
            left = (len(plan) - at - 1) * len(tools) * seconds
            say(f"repetition {number + 1} of {repetitions}, busy-wait of {effect:.0%}: about {words(left)} left")
    yield f"spin, {CHUNKS} chunks a run; {repetitions} repetitions, {seconds:g} s a campaign"
    yield from table(done)
    for name in TOOLS:
        if name not in tools:
            yield f"{name}: not run: {TOOLS[name].program} is not installed"


def table(campaigns: Sequence[Sampling]) -> Iterator[str]:
    """Yield a row for each tool: how often it called a difference, with and without one, and its median half-width."""
    rates = [f"called different at {effect:.0%} [95 %]" for effect in EFFECTS]
    yield f"{'tool':20s}  {rates[0]:32s}  {rates[1]:32s}  half-width  n    ratio at {EFFECTS[-1]:.0%}"
    for tool in dict.fromkeys(each.tool for each in campaigns):
        own = [each for each in campaigns if each.tool == tool]
        cells = []
        for effect in EFFECTS:
            called = [each.is_called for each in own if each.effect == effect]
            exact = stats.binomtest(sum(called), len(called)).proportion_ci(method="exact")
            cells.append(f"{sum(called)} of {len(called)} [{exact.low:.0%}, {exact.high:.0%}]")
        half = np.median([np.nan_to_num((each.high - each.low) / 2, nan=np.inf) for each in own])  # NaN: no bounds
        ratio = np.median([each.ratio for each in own if each.effect == EFFECTS[-1]])
        n = np.median([each.n for each in own])
        yield f"{tool:20s}  {cells[0]:32s}  {cells[1]:32s}  {half:9.2%}  {n:3.0f}  {ratio:.4f}"


def _recall(out: Path, tools: Mapping[str, Peer], name: str, effect: float, number: int, seconds: float) -> Sampling:
    """Return a campaign that is kept below `out`, or run it and keep its samples."""
    path = out / f"{number:03d}-{effect:g}-{name.replace(' ', '-')}.json"
    if not path.exists():
        _write_commands(out, effect)
        if effect and tools[name].times_process:
            _write_commands(out, effect * _measure_excess(out))
        begin = time.monotonic()
        slower, same = tools[name].run(out, effect, seconds)
        kept = {"slower": list(slower), "same": list(same), "seconds": time.monotonic() - begin}
        path.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    kept = json.loads(path.read_text(encoding="utf-8"))
    x, y = np.array(kept["slower"]), np.array(kept["same"])
    ends = pairwise.paired_fieller(x, y) if name == "infrabench" else welch(x, y)
    ratio = float(x.mean() / y.mean())
    return Sampling(name, effect, min(len(x), len(y)), ratio, float(ends.low), float(ends.high))


def _write_commands(out: Path, share: float) -> None:
    """Write the two commands of the peers, of which one waits busily for `share` of each chunk's time."""
    for what, own in (("same", 0.0), ("slower", share)):
        script = out / f"{what}.sh"
        script.write_text(f'#!/bin/sh\nINFRABENCH_BUSY_SHARE={own:g} exec python3 "${{0%/*}}/probe.py" "$@"\n')
        script.chmod(0o755)


def _measure_excess(out: Path) -> float:
    """Return how many times as long as its probe a whole process takes: the median of some runs.

    `InfrabenchError` when the probe fails, or does not say how long it took.
    """
    ratios = []
    for _ in range(STARTS):
        done = LocalHost().run((str(out / "same.sh"), str(CHUNKS)), timeout_s=60.0)
        try:
            ratios.append(done.duration_s / json.loads(done.stdout)["seconds"])
        except (ValueError, LookupError, TypeError, ZeroDivisionError) as error:
            ended = "timed out" if done.timed_out else f"exited with {done.status}"
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-400:]
            raise InfrabenchError(
                f"{out / 'same.sh'} {ended} and did not say how long its probe took: {said or 'it wrote nothing'}. "
                "See that python3 runs on this machine"
            ) from error
    return float(np.median(ratios))


def welch(x: Any, y: Any) -> Interval:
    """Return Welch's 95 % interval (1947) of the difference of means as a ratio: 1 + difference / mean of `y`."""
    ends = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    below = float(np.mean(y))
    return Interval(1 + float(ends.low) / below, 1 + float(ends.high) / below, 0.95)


def _infrabench(folder: Path, effect: float, seconds: float) -> Samples:
    """Blocks of both in rounds that take turns, with monitors, guards and a ledger on disk, until the time is used."""
    begin = time.monotonic()
    case = Case("spin", "default", {"chunks": CHUNKS}, rounds=ROUNDS)
    study = Study(
        "peers", "", "same", ("same", "slower"), {"once": Profile(MOST_BLOCKS, (case,))}, Limits(), (), {"": 0.02},
        seed=SEED,
    )  # fmt: skip
    wanted = designs.design(study, Request("peers", "once"), declared={"spin": spin.PARAMS})
    host, workload, guards = LocalHost(), registry.workload("spin"), Guards(None, None, None, None)
    samples: dict[str, list[float]] = {"same": [], "slower": []}
    prefixes = {"same": (), "slower": ("env", f"INFRABENCH_BUSY_SHARE={effect:g}")}
    kept = folder / f"session-{time.time_ns()}"
    with watching([host], {}) as monitor:
        benches = {
            name: Bench({role: Target(role, host, prefix) for role in ("server", "client")}, monitor, {}, guards)
            for name, prefix in prefixes.items()
        }
        number = 0
        with SessionFolder(kept).opened({"parameters": {}}, designs.block(wanted, 0)) as session:
            while number < 2 or (time.monotonic() - begin) * (number + 1) / number < seconds:
                block = designs.block(wanted, number)
                if number:
                    session.append_block(block)
                for turns in group_turns(block, wanted.order):
                    for each in execute_turns([(trial, benches[trial.system]) for trial in turns], workload):
                        session.append_trial(each.record, each.blobs)
                        if each.record.state != "ok":
                            raise InfrabenchError(f"a trial is {each.record.state}: {each.record.reason}")
                        value = next(one.value for one in each.record.measurements if one.metric == "total_s")
                        samples[each.record.trial.system].append(value)
                number += 1
    return samples["slower"], samples["same"]


def _count_runs(folder: Path, seconds: float, runs_at_once: int) -> int:
    """Return how many runs of each command fit in a campaign of a peer, by what one of each takes with its start."""
    took = run_timed((str(folder / "same.sh"), str(CHUNKS)))
    took += run_timed((str(folder / "slower.sh"), str(CHUNKS)))
    return max(int((seconds - took) / took) - runs_at_once, 2)


def _hyperfine(folder: Path, effect: float, seconds: float) -> Samples:
    runs = _count_runs(folder, seconds, 1)  # a warm-up run of each
    found = _call_hyperfine(folder, runs, ("same", "slower"), warmup=1)
    return found["slower"], found["same"]


def _hyperfine_by_hand(folder: Path, effect: float, seconds: float) -> Samples:
    end = time.monotonic() + seconds
    samples: dict[str, list[float]] = {"same": [], "slower": []}
    took = 0.0
    while len(samples["same"]) < 2 or time.monotonic() + took < end:
        begin = time.monotonic()
        for name in ("same", "slower"):
            samples[name] += _call_hyperfine(folder, 1, (name,), warmup=0)[name]
        took = time.monotonic() - begin
    return samples["slower"], samples["same"]


def _call_hyperfine(folder: Path, runs: int, names: Sequence[str], *, warmup: int) -> dict[str, list[float]]:
    out = folder / "hyperfine.json"
    commands = [f"{folder / name}.sh {CHUNKS}" for name in names]
    argv = ("hyperfine", "-N", "--warmup", str(warmup), "--runs", str(runs), "--export-json", str(out), *commands)
    run_timed(argv, limit_s=3600.0)
    results = json.loads(out.read_text(encoding="utf-8"))["results"]
    return {name: list(each["times"]) for name, each in zip(names, results, strict=True)}


def _rebench(folder: Path, effect: float, seconds: float) -> Samples:
    runs = _count_runs(folder, seconds - 1, 0)  # its own start takes about a second
    programs = [folder / f"{name}.sh" for name in ("same", "slower")]
    run_timed(rebench_command(folder, runs, programs, str(CHUNKS), READING), limit_s=3600.0)
    return read_rebench((folder / "rebench.data").read_text(encoding="utf-8"))


def read_rebench(text: str) -> Samples:
    """Return the seconds of both executors from ReBench's data file: tab-separated, comments begin with #."""
    samples: dict[str, list[float]] = {"same": [], "slower": []}
    lines = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    header, rows = lines[0], lines[1:]
    value, executor = header.index("value"), header.index("executor")
    for row in rows:
        samples[row[executor]].append(float(row[value]) / 1000)
    return samples["slower"], samples["same"]


class Peer(NamedTuple):
    """How a campaign of a tool is run, the program that it needs, and whether it times a process."""

    program: str
    run: Callable[[Path, float, float], Samples]
    times_process: bool = False


TOOLS: Mapping[str, Peer] = {
    "infrabench": Peer(sys.executable, _infrabench),
    "hyperfine": Peer("hyperfine", _hyperfine, times_process=True),
    "hyperfine by hand": Peer("hyperfine", _hyperfine_by_hand, times_process=True),
    "rebench": Peer("rebench", _rebench),
}
