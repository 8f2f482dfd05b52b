"""What the harness itself costs: wall time per trial that does nothing, beyond a bare exec of the same command.

Every way of driving the command takes its turn in every block, in random order, so that a machine that drifts drifts
for all. The unit is the block: one number per way, the mean wall time per run of the command. hyperfine (Debian
package) and ReBench drive the same command on this machine; their own start, which a long session shares out over its
trials as ours does, is left out: (time of many runs - time of one run) / (many - 1).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import numpy as np

from infrabench import registry
from infrabench.core.errors import DesignError, InfrabenchError, SiteError
from infrabench.core.hosts import Host, Target
from infrabench.core.request import Request
from infrabench.core.studies import Case, Guards, Profile, Study
from infrabench.core.systems import Limits
from infrabench.core.trials import Trial
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution.monitor import Monitor, watching
from infrabench.experiment.execution.trial import Bench, execute
from infrabench.ledger.records import PROBE, read_blocks, read_session, read_trials
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts import claims
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.site import open_site
from infrabench.stats.intervals import median_interval

COMMAND = ("true",)
PER_BLOCK = 20  # runs of the command by each way in each block
SEED = 20200315
LIMIT_S = 120.0
# What ReBench reads a number of milliseconds with, from what a run prints.
ADAPTER = """
import json
from rebench.interop.adapter import GaugeAdapter
from rebench.model.data_point import DataPoint
from rebench.model.measurement import Measurement

class Reading(GaugeAdapter):
    def parse_data(self, data, run_id, invocation):
        point = DataPoint(run_id)
        point.add_measurement(Measurement(invocation, 1, %s, "ms", run_id, "total"))
        return [point]
"""
Way = Callable[[], float]
Make = Callable[[Path, int], tuple[str, ...]]  # folder, number of runs -> argv


def report(site: str, blocks: int) -> Iterator[str]:
    """Yield the lines of the table: per way, median seconds per run, and what it has beyond a bare exec."""
    if blocks < 6:
        raise DesignError(f"blocks must be at least 6, not {blocks}: a median has no 95 % interval below that")
    with _hosts(site) as hosts, tempfile.TemporaryDirectory(prefix="infrabench-") as folder:
        with _ways(hosts, Path(folder), blocks, others=site == "local") as ways:
            taken = measure(ways, blocks)
        yield f"{' '.join(COMMAND)} on {hosts[0].name} ({site}), {blocks} blocks of {PER_BLOCK} runs, interleaved"
    yield "way                          ms per run, median [95 %]    beyond a bare exec, ms [95 %]"
    for name, seconds in taken.items():
        beyond = "" if name == "bare exec" else _format_ms(seconds - taken["bare exec"])
        yield f"{name:27s}  {_format_ms(seconds)}    {beyond}".rstrip()
    for name in sorted(set(_OTHERS) - set(taken)):
        reason = f"{name} is not installed" if site == "local" else "it drives this machine only"
        yield f"{name:27s}  not run: {reason}"


def measure(ways: Mapping[str, Way], blocks: int) -> dict[str, np.ndarray]:
    """Return, by way, the seconds per run of the command in each block; one block before them is thrown away."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    names = list(ways)
    for block in range(blocks):
        for index in np.random.default_rng([SEED, block]).permutation(len(names)):
            taken[names[index]].append(ways[names[index]]())
    return {name: np.array(seconds) for name, seconds in taken.items()}


def tool_share(folder: Path) -> str:
    """Return a sentence: who had the session's wall time, from first to last trial.

    Tools: the measured steps. Preparing and cleaning up: commands of the workloads too, such as starting a server or
    removing an instance. What is left is the harness itself, switching between systems included.
    """
    data = read_session(folder)
    found = read_trials(folder)
    if not found:
        raise InfrabenchError(f"{folder} has no trial yet")
    if list(folder.glob("provenance/suite.resumed-*.json")):
        raise InfrabenchError(
            f"{folder} was interrupted, or its systems were made ready anew: its wall time has gaps; take another one"
        )
    starts = sorted((datetime.fromisoformat(record.started_utc).timestamp(), record.duration_s) for record in found)
    wall = starts[-1][0] + starts[-1][1] - starts[0][0]
    tools, steps = sum(record.tool_s for record in found), sum(s["duration_s"] for r in found for s in r.steps)
    probes = sum(each["seconds"] for each in read_blocks(folder, PROBE))
    rest = wall - steps - probes
    return (
        f"{data['study']} {data['profile']} on {data['site']['name']}: {len(found)} trials in {wall:.0f} s; tools "
        f"{tools / wall:.1%}, their preparing and cleaning up {(steps - tools) / wall:.1%}, drift probes "
        f"{probes / wall:.1%}, the harness itself {rest / wall:.1%}, which is {1000 * rest / len(found):.0f} ms per "
        "trial"
    )


@contextmanager
def _hosts(site: str) -> Iterator[list[Host]]:
    """Yield the hosts of a site, the one that is measured first; all are watched, as in a session."""
    if site == "local":  # without the guest image that opening the site would make
        with claims.claim_hosts([LocalHost()], claims.make_holder("overhead")):
            yield [LocalHost()]
        return
    with open_site(site, session="overhead") as opened:
        yield [opened.hosts["server"], *(host for role, host in opened.hosts.items() if role != "server")]


@contextmanager
def _ways(hosts: Sequence[Host], folder: Path, blocks: int, *, others: bool) -> Iterator[dict[str, Way]]:
    """Yield the ways of driving `COMMAND` on the first host, each a function that does so `PER_BLOCK` times."""
    host = hosts[0]
    profile = Profile((blocks + 1) * PER_BLOCK, (Case("null", "default"),))
    study = Study("nothing", "", "native", ("native",), {"once": profile}, Limits(), (), {"": 0.02}, seed=SEED)
    trials = designs.trials(designs.design(study, Request("nothing", "once")))

    def bare() -> float:
        begin = time.perf_counter()
        for _ in range(PER_BLOCK):
            host.run(COMMAND, timeout_s=LIMIT_S)
        return (time.perf_counter() - begin) / PER_BLOCK

    with ExitStack() as stack:
        ways: dict[str, Way] = {"bare exec": bare}
        for name, watched in (("infrabench", hosts), ("infrabench, no monitor", [])):
            session = stack.enter_context(SessionFolder(folder / name).opened({"parameters": {}}, trials))
            ways[name] = _harness(host, session, iter(trials), stack.enter_context(watching(watched, {})))
        if others:
            ways |= {name: _marginal(make, folder) for name, make in _OTHERS.items() if is_installed(name)}
        yield ways


def _harness(host: Host, session: SessionFolder, trials: Iterator[Trial], monitor: Monitor) -> Way:
    """Return the way of a session: monitors, trial, parser, guards, ledger on disk."""
    guards = Guards(None, None, None, None)
    bench = Bench({"server": Target("server", host), "client": Target("client", host)}, monitor, {}, guards)
    null = registry.workload("null")

    def way() -> float:
        begin = time.perf_counter()
        for _ in range(PER_BLOCK):
            finished = execute(next(trials), null, bench)
            session.append_trial(finished.record, finished.blobs)
            if finished.record.state != "ok":
                raise InfrabenchError(f"a null trial is {finished.record.state}: {finished.record.reason}")
        return (time.perf_counter() - begin) / PER_BLOCK

    return way


def _marginal(make: Make, folder: Path) -> Way:
    """Return the way of another tool: what one more run of the command costs it."""

    def way() -> float:
        one, many = (run_timed(make(folder, count)) for count in (1, PER_BLOCK))
        return (many - one) / (PER_BLOCK - 1)

    return way


def run_timed(argv: Sequence[str], limit_s: float = LIMIT_S) -> float:
    """Return how long a command takes; `SiteError` when it fails or does not end within the limit."""
    begin = time.perf_counter()
    try:
        done = subprocess.run(argv, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise SiteError(f"{argv[0]} did not end within {limit_s:g} s") from error
    taken = time.perf_counter() - begin
    if done.returncode:
        raise SiteError(f"{argv[0]} exited with {done.returncode}: {(done.stderr or done.stdout).decode()[-400:]}")
    return taken


def hyperfine_command(folder: Path, runs: int, commands: Sequence[str], warmup: int = 0) -> tuple[str, ...]:
    """Return the command of hyperfine that runs each command so often; its samples go to ``hyperfine.json``."""
    out = str(folder / "hyperfine.json")
    return ("hyperfine", "-N", "--warmup", str(warmup), "--runs", str(runs), "--export-json", out, *commands)


def rebench_command(
    folder: Path, runs: int, programs: Sequence[Path], word: str = "", reading: str = "0.0"
) -> tuple[str, ...]:
    """Return the command of ReBench that runs programs so often with a word; its samples go to ``rebench.data``.

    `reading`: the milliseconds of a run as a Python expression of `data`, what it prints; a command that prints none is
    given one, as ReBench does not do without.
    """
    suite = {"command": word, "gauge_adapter": {"Reading": "reading.py"}, "invocations": runs, "benchmarks": ["run"]}
    config = {  # JSON is YAML
        "default_experiment": "all",
        "benchmark_suites": {"runs": suite},
        "executors": {each.stem: {"path": str(each.parent), "executable": each.name} for each in programs},
        "experiments": {"all": {"suites": ["runs"], "executions": [each.stem for each in programs]}},
    }
    (folder / "rebench.conf").write_text(json.dumps(config))
    (folder / "reading.py").write_text(ADAPTER % reading)
    data = str(folder / "rebench.data")
    return (find_program("rebench"), "--clean", "-D", "-df", data, str(folder / "rebench.conf"))


_OTHERS: Mapping[str, Make] = {
    "hyperfine": lambda folder, runs: hyperfine_command(folder, runs, [" ".join(COMMAND)]),
    "rebench": lambda folder, runs: rebench_command(folder, runs, [Path(shutil.which(COMMAND[0]) or COMMAND[0])]),
}


def find_program(name: str) -> str:
    """Return a program of the environment's own, also when that is not activated; else its name."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else name


def is_installed(name: str) -> bool:
    """Return whether a program is in the environment or on the search path."""
    return shutil.which(find_program(name)) is not None


def _format_ms(seconds: np.ndarray) -> str:
    middle, found = float(np.median(seconds)), median_interval(seconds)
    return f"{1000 * middle:7.2f} [{1000 * found.low:.2f}, {1000 * found.high:.2f}]"
