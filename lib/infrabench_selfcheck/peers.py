"""Against peers: who finds differences of 0.5 and 2 % in the same time, and who finds one where there is none?

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
measured before each of its campaigns. The median of each tool's ratios at the largest difference is printed.

Every campaign is a line of a file: its samples, what it took, the tool's version and the machine. The table comes from
that file, on any machine, whichever tools are installed there; only what the file lacks is run.
"""

from __future__ import annotations

import csv
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
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
from infrabench.experiment.provenance import collect
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts import claims
from infrabench.machines.hosts.host import LocalHost
from infrabench.stats import pairwise
from infrabench.stats.intervals import Interval
from infrabench.workloads import spin
from infrabench_selfcheck.overhead import find_program, hyperfine_command, is_installed, rebench_command, run_timed

CHUNKS, ROUNDS = 400, 4  # of a run of a peer, and of a trial, which cuts them into so many runs
STARTS = 5  # of which the median is how much of a process is its start
EFFECTS = (0.0, 0.005, 0.02)
SEED = 20200315
MOST_BLOCKS = 100_000
# The interpreter itself: what stands for it on the search path may be a script, or another one for a tool that clears
# its environment as ReBench does, and the commands would not be the same. `python3` beside them is a link to it.
PYTHON = Path(sys.executable).resolve()
FILE = "campaigns.jsonl"
READING = '1000 * json.loads(data.strip().splitlines()[-1])["seconds"]'  # of what the probe prints, in ms
Key = tuple[int, float, str, float]  # repetition, busy-wait, tool, seconds
COMMANDS = ("same", "slower")
Samples = dict[str, list[float]]  # seconds of each run, by command


class Sampling(NamedTuple):
    """One campaign of one tool as it is kept: seconds asked and taken, and the seconds of each run of both commands."""

    repetition: int
    effect: float
    tool: str
    seconds: float
    took_s: float
    version: str
    machine: str
    slower: Sequence[float]
    same: Sequence[float]

    @property
    def key(self) -> Key:
        return self.repetition, self.effect, self.tool, self.seconds


class Finding(NamedTuple):
    """What a tool's interval says of one campaign: the ratio of the slower to the same."""

    tool: str
    effect: float
    n: int
    took_s: float
    ratio: float
    low: float
    high: float

    @property
    def is_called(self) -> bool:
        """Whether its 95 % interval excludes 1."""
        return self.low > 1 or self.high < 1


def report(repetitions: int, seconds: float, out: Path, say: Callable[[str], None]) -> Iterator[str]:
    """Run the campaigns that the file below `out` lacks, each repetition in random order, and yield the table.

    `seconds`: of each campaign. `DesignError` when a number is too small for anything to be inferred.
    """
    if repetitions < 1 or seconds < 5:
        raise DesignError("peers are compared in at least one repetition, with campaigns of at least 5 seconds")
    out.mkdir(parents=True, exist_ok=True)
    path = out / FILE
    kept = {each.key: each for each in read_campaigns(path)}
    plan = [
        (number, effect, name, seconds)
        for number in range(repetitions)
        for effect in EFFECTS
        for name in np.random.default_rng([SEED, number, int(1e6 * effect)]).permutation(list(TOOLS)).tolist()
    ]
    absent = [name for name, tool in TOOLS.items() if not (name == "infrabench" or is_installed(tool.program))]
    lacking = [key for key in plan if key not in kept and key[2] not in absent]
    if lacking:
        machine, versions = _describe_machine(), {key[2]: _ask_version(TOOLS[key[2]]) for key in lacking}
        with (
            claims.claim_hosts([LocalHost()], claims.make_holder("peers")),
            tempfile.TemporaryDirectory(dir=out.resolve()) as folder,
        ):
            (Path(folder) / "python3").symlink_to(PYTHON)
            for at, key in enumerate(lacking):
                kept[key] = _run(Path(folder), key, versions[key[2]], machine)
                with path.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(kept[key]._asdict()) + "\n")
                left = words((len(lacking) - at - 1) * seconds)
                what = f"repetition {key[0] + 1} of {repetitions}, busy-wait of {100 * key[1]:g} %"
                say(f"{key[2]}, {what}: about {left} left")
    done = sorted((kept[key] for key in plan if key in kept), key=lambda each: list(TOOLS).index(each.tool))
    yield f"spin, {CHUNKS} chunks a run; {repetitions} repetitions, {seconds:g} s a campaign"
    yield from table([judge(each) for each in done])
    yield "with " + ", ".join(dict.fromkeys(f"{each.tool} {each.version}" for each in done))
    yield "on " + "; ".join(dict.fromkeys(each.machine for each in done))
    for name in absent:
        if lost := sum(key[2] == name and key not in kept for key in plan):
            yield f"{name}: {lost} campaigns not run: {TOOLS[name].program} is not installed"


def read_campaigns(path: Path) -> list[Sampling]:
    """Return the campaigns that a file keeps, in the order of its lines; none where there is no file.

    `InfrabenchError` for a line that is no campaign.
    """
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            found.append(Sampling(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise InfrabenchError(f"{path}, line {number}: no campaign of a tool; remove the line: {error}") from error
    return found


def judge(campaign: Sampling) -> Finding:
    """Return what the tool's interval says of a campaign."""
    x, y = np.array(campaign.slower), np.array(campaign.same)
    ends = pairwise.paired_fieller(x, y) if campaign.tool == "infrabench" else welch(x, y)
    n, ratio = min(len(x), len(y)), float(x.mean() / y.mean())
    return Finding(campaign.tool, campaign.effect, n, campaign.took_s, ratio, float(ends.low), float(ends.high))


def table(answers: Sequence[Finding]) -> Iterator[str]:
    """Yield a row for each tool: how often it called a difference, with and without one, and its median half-width."""
    rates = "  ".join(f"{f'different at {100 * effect:g} %':22s}" for effect in EFFECTS)
    yield f"{'tool':17s}  {rates}  half-width     n  took   ratio at {100 * EFFECTS[-1]:g} %"
    for tool in dict.fromkeys(each.tool for each in answers):
        own = [each for each in answers if each.tool == tool]
        cells = []
        for effect in EFFECTS:
            called = [each.is_called for each in own if each.effect == effect]
            if not called:
                cells.append("not run")
                continue
            exact = stats.binomtest(sum(called), len(called)).proportion_ci(method="exact")
            cells.append(f"{sum(called)} of {len(called)} [{exact.low:.0%}, {exact.high:.0%}]")
        half = np.median([np.nan_to_num((each.high - each.low) / 2, nan=np.inf) for each in own])  # NaN: no bounds
        ratio = np.median([each.ratio for each in own if each.effect == EFFECTS[-1]] or [np.nan])
        n, took = np.median([each.n for each in own]), np.median([each.took_s for each in own])
        rates = "  ".join(f"{cell:22s}" for cell in cells)
        yield f"{tool:17s}  {rates}  {half:10.2%}  {n:4.0f}  {took:3.0f} s  {ratio:.4f}"


def _describe_machine() -> str:
    cpu = collect.of_host(LocalHost())["cpu"] or {}
    model = cpu.get("model_name") or f"{platform.machine()}, its model not told"  # as on ARM
    return f"{model}, {os.cpu_count()} processors, Linux {platform.release()}"


def _ask_version(tool: Peer) -> str:
    if tool.program == sys.executable:
        return (collect.of_suite()["commit"] or importlib.metadata.version("infrabench"))[:12]
    done = LocalHost().run((find_program(tool.program), "--version"), timeout_s=60.0)
    said = done.stdout.decode("utf-8", "replace").split()
    if not done.ok or not said:
        raise InfrabenchError(f"{tool.program} --version does not tell its version: {done.ending}")
    return said[-1]


def _run(folder: Path, key: Key, version: str, machine: str) -> Sampling:
    """Run a campaign of a tool and return what is kept of it; times to the microsecond."""
    _, effect, name, seconds = key
    tool = TOOLS[name]
    (folder / "probe.py").write_text(spin.PROBE.read_text(encoding="utf-8"), encoding="utf-8")
    _write_commands(folder, effect)
    if effect and tool.times_process:
        _write_commands(folder, effect * _measure_excess(folder))
    begin = time.monotonic()
    samples = tool.run(folder, effect, seconds)
    took_s = round(time.monotonic() - begin, 3)
    rounded = {name: [round(each, 6) for each in values] for name, values in samples.items()}
    return Sampling(*key, took_s, version, machine, **rounded)


def _write_commands(folder: Path, share: float) -> None:
    """Write the two commands of the peers, of which one waits busily for `share` of each chunk's time."""
    for what, own in (("same", 0.0), ("slower", share)):
        script = folder / f"{what}.sh"
        run = 'exec "${0%/*}/python3" "${0%/*}/probe.py" "$@"'
        script.write_text(f"#!/bin/sh\nINFRABENCH_BUSY_SHARE={own:g} {run}\n")
        script.chmod(0o755)


def _measure_excess(folder: Path) -> float:
    """Return how many times as long as its probe a whole process takes: the median of some runs.

    `InfrabenchError` when the probe fails, or does not say how long it took.
    """
    ratios = []
    for _ in range(STARTS):
        done = LocalHost().run((str(folder / "same.sh"), str(CHUNKS)), timeout_s=60.0)
        try:
            ratios.append(done.duration_s / json.loads(done.stdout)["seconds"])
        except (ValueError, LookupError, TypeError, ZeroDivisionError) as error:
            ended = "timed out" if done.timed_out else f"exited with {done.status}"
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-400:]
            raise InfrabenchError(
                f"{folder / 'same.sh'} {ended} and did not say how long its probe took: {said or 'it wrote nothing'}. "
                f"See that {PYTHON} runs on this machine"
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
    samples: Samples = {name: [] for name in COMMANDS}
    shares = {"same": 0.0, "slower": effect}
    path = f"PATH={folder}:{os.environ.get('PATH', os.defpath)}"
    prefixes = {name: ("env", path, f"INFRABENCH_BUSY_SHARE={share:g}") for name, share in shares.items()}
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
    return samples


def _count_runs(folder: Path, seconds: float, runs_at_once: int) -> int:
    """Return how many runs of each command fit in a campaign of a peer, by what one of each takes with its start."""
    took = sum(run_timed((str(folder / f"{name}.sh"), str(CHUNKS))) for name in COMMANDS)
    return max(int((seconds - took) / took) - runs_at_once, 2)


def _hyperfine(folder: Path, effect: float, seconds: float) -> Samples:
    # A warm-up run of each is none of those that count.
    return _call_hyperfine(folder, _count_runs(folder, seconds, 1), COMMANDS, warmup=1)


def _hyperfine_by_hand(folder: Path, effect: float, seconds: float) -> Samples:
    end = time.monotonic() + seconds
    samples: Samples = {name: [] for name in COMMANDS}
    took = 0.0
    while len(samples["same"]) < 2 or time.monotonic() + took < end:
        begin = time.monotonic()
        for name in COMMANDS:
            samples[name] += _call_hyperfine(folder, 1, (name,), warmup=0)[name]
        took = time.monotonic() - begin
    return samples


def _call_hyperfine(folder: Path, runs: int, names: Sequence[str], *, warmup: int) -> Samples:
    commands = [f"{folder / name}.sh {CHUNKS}" for name in names]
    run_timed(hyperfine_command(folder, runs, commands, warmup), limit_s=3600.0)
    results = json.loads((folder / "hyperfine.json").read_text(encoding="utf-8"))["results"]
    return {name: each["times"] for name, each in zip(names, results, strict=True)}


def _rebench(folder: Path, effect: float, seconds: float) -> Samples:
    runs = _count_runs(folder, seconds - 1, 0)  # its own start takes about a second
    programs = [folder / f"{name}.sh" for name in COMMANDS]
    run_timed(rebench_command(folder, runs, programs, str(CHUNKS), READING), limit_s=3600.0)
    return read_rebench((folder / "rebench.data").read_text(encoding="utf-8"))


def read_rebench(text: str) -> Samples:
    """Return the seconds of both executors from ReBench's data file: tab-separated, comments begin with #."""
    samples: Samples = {name: [] for name in COMMANDS}
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        samples[row["executor"]].append(float(row["value"]) / 1000)
    return samples


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
