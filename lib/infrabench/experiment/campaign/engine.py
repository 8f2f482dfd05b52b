"""The engine of a campaign: Snakemake, which drives one process for each job and keeps apart what must be.

It is started anew each time, in a folder of its own, with the jobs that the ledgers say are still to be done: it has no
memory of its own that a kill could spoil, no lock that could be left behind, and nothing to decide from the times of
files. It never repeats a job, and never moves one.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from infrabench.core import DesignError, InfrabenchError, digest, locks
from infrabench.core.locks import hold_lock
from infrabench.experiment.campaign import job as process
from infrabench.experiment.campaign import plan, slurm
from infrabench.experiment.campaign.file import Executor
from infrabench.experiment.campaign.plan import Job, Plan
from infrabench.ledger import catalogue
from infrabench.ledger.records import recorded

LOG = "snakemake.log"
LOOK_S = 5.0  # between two looks at what the jobs say of themselves
COUNT_S = 60.0  # between two counts of their trials
END_S = 2 * process.GRACE_S  # for an engine that was asked to end
SHARED_S = 60  # a file that another machine made may be seen so much later

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class How:
    """How a campaign is run: by which executor, how many jobs steered from here at once, which profile of Snakemake."""

    executor: Executor = "local"
    at_once: int = 1
    profile: str | None = None


def require(executor: Executor) -> None:
    """Raise `DesignError` when Snakemake, or its plug-in for the executor, is not installed."""
    named = {"slurm": "snakemake_executor_plugin_slurm", "kubernetes": "snakemake_executor_plugin_kubernetes"}
    for module in ("snakemake", *((named[executor],) if executor in named else ())):
        if importlib.util.find_spec(module) is None:
            how = "pip install 'infrabench[campaign]'"
            if sys.version_info >= (3, 14):
                how = "it is not made for this Python yet: make env PYTHON=python3.13, or an older one"
            raise DesignError(f"a campaign needs {module.replace('_', '-')}: {how}")


def folder(campaign: str) -> Path:
    """Return the folder of a campaign: its executed notebooks, logs, figures and summary."""
    return catalogue.home() / "out" / "campaigns" / campaign


def own(job: Job, campaign: str) -> dict[str, Path]:
    """Return where a job's executed notebook, its log, its figures and tables, and what it says of itself are."""
    place, label = folder(campaign) / job.site.label, job.label
    names = {"out": f"{label}.ipynb", "log": f"{label}.log", "files": label, "state": f".{label}.json"}
    return {what: place / name for what, name in names.items()}


def todo(planned: Plan) -> list[Job]:
    """Return the jobs that are not done: the ledger is not complete, or the notebook was not executed to its end."""
    return [
        job
        for job in planned.jobs
        if job.site.label not in planned.without
        and (planned.stands[job.id].state != "complete" or last_event(job, planned.campaign).get("event") != "finished")
    ]


def last_event(job: Job, campaign: str) -> dict[str, Any]:
    """Return what a job last said of itself, see `job.read`."""
    return process.read(own(job, campaign)["state"])


def run(planned: Plan, how: How) -> None:
    """Run every job that is not done; returns when nothing is left that can be done.

    Which jobs failed, and why, stands in what they say of themselves (`summary`). Raises `InfrabenchError` when another
    process runs this campaign, or Snakemake itself ended before its jobs.
    """
    place = folder(planned.campaign)
    with hold_lock(place / ".lock", f"campaign {planned.campaign} is being run by another process; wait for it"):
        if how.executor == "slurm" and (left := slurm.cancel(planned.campaign)):
            log.info("cancelled in Slurm, left by an earlier start: %s", ", ".join(left))
        shutil.rmtree(place / "engine", ignore_errors=True)  # of the last start; nothing in it counts
        # now that nobody else may
        stands = {job.id: plan.read_stand(job) for job in planned.jobs if job.site.label not in planned.without}
        planned = replace(planned, stands={**planned.stands, **stands})
        if waiting := todo(planned):
            begun = place / "engine" / uuid.uuid4().hex
            begun.mkdir(parents=True)
            _run_engine(planned, how, waiting, begun)


def _run_engine(planned: Plan, how: How, waiting: Sequence[Job], begun: Path) -> None:
    child, specs, report = None, _write_specs(planned, how, waiting, begun), _Report(waiting, planned)
    try:
        with hold_lock(begun / "alive", "another process has this start"):
            with (begun / LOG).open("wb") as output:
                child = subprocess.Popen(
                    command(planned, how, begun), cwd=begun, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    start_new_session=True,  # an interruption is ours to pass on, in order
                    env={**os.environ, "XDG_CACHE_HOME": str(begun / "cache")},
                )  # fmt: skip
            while not _has_ended(child, LOOK_S):
                report.update()
    except KeyboardInterrupt:
        log.info("stopping; what is recorded is safe, and the same command goes on")
        if child is not None and how.executor != "local":  # jobs elsewhere are called back by Snakemake
            child.send_signal(signal.SIGINT)
        raise
    finally:
        # Nobody holds the lifeline now, so jobs on this machine end.
        if child is not None:
            _await_end(child, specs if how.executor == "local" else [])
        report.update()
    if child.returncode < 0:
        raise InfrabenchError(
            f"Snakemake was killed by signal {-child.returncode}. What is recorded is safe; the same command goes on"
        )
    if not any(process.read(Path(spec["state"])) for spec in specs):
        raise InfrabenchError(f"Snakemake began no job (status {child.returncode}): see {begun / LOG}")


def _write_specs(planned: Plan, how: How, waiting: Sequence[Job], begun: Path) -> list[dict[str, Any]]:
    """Write down for Snakemake, and for the jobs, what is to be done in this start; returns that of each job."""
    specs = described(planned, how, waiting, begun)
    for spec in specs:
        Path(spec["state"]).unlink(missing_ok=True)
    lifeline = str(begun / "alive") if how.executor == "local" else None  # locks do not reach other machines everywhere
    started = {"python": sys.executable, "home": str(catalogue.home().resolve()), "lifeline": lifeline, "jobs": specs}
    (begun / "jobs.json").write_text(json.dumps(started, indent=1))
    (begun / "config.json").write_text(json.dumps({"jobs": str(begun / "jobs.json")}))
    return specs


def described(planned: Plan, how: How, waiting: Sequence[Job], begun: Path) -> list[dict[str, Any]]:
    """Return what Snakemake and a job's process are told of each job that waits, in the order of the plan."""
    specs, earlier = [], dict[str, list[str]]()
    for number, job in enumerate(waiting):
        places = own(job, planned.campaign)
        marker = str(begun / f"{job.id}.made")
        wanted = dict(planned.holds(job, how.at_once))
        if how.executor == "slurm":
            wanted |= slurm.resources(job.site.slurm, planned.most_seconds(job))
        lock = catalogue.home() / "data" / "runs" / ".sites" / digest([*job.site.same], 16)
        specs.append(
            plan.job_spec(job, str(places["files"].relative_to(catalogue.home())))
            | {
                "rule": f"job_{number}", "made": marker, "after": earlier.get(job.site.label, []),
                "priority": len(waiting) - number, "resources": wanted, "lock": str(lock),
                **{name: str(places[name]) for name in ("out", "log", "state")},
            }
        )  # fmt: skip
        earlier[job.site.label] = [marker]
    return specs


def command(planned: Plan, how: How, begun: Path) -> list[str]:
    """Return the command line of Snakemake: nothing is tried twice, and a failed job leaves other sites alone."""
    remote = how.executor != "local"
    requests = [job.site.slurm for job in planned.jobs]
    options = slurm.options(planned.campaign, requests) if how.executor == "slurm" else []
    at_once = ("--jobs", len(planned.sites)) if remote else ("--cores", how.at_once)
    return [
        # Should we be killed, it calls its jobs back and ends. (What a shell starts with & is deaf to interruptions.)
        "env", "--default-signal=INT", "setpriv", "--pdeathsig", "INT", "--", sys.executable, "-m", "snakemake",
        "--snakefile", str(resources.files("infrabench.experiment.campaign") / "Snakefile"),
        "--directory", str(begun), "--configfile", str(begun / "config.json"),
        "--executor", how.executor, *map(str, at_once),
        "--keep-going", "--retries", "0", "--scheduler", "greedy", "--nolock", "--rerun-triggers", "mtime",
        "--latency-wait", str(SHARED_S if remote else 0), "--nocolor",
        "--profile", how.profile or "none", "--workflow-profile", "none",
        *options,
        "--resources", *(f"{name}={most}" for name, most in planned.limits(how.at_once).items()),
    ]  # fmt: skip


def _has_ended(child: subprocess.Popen[bytes], wait_s: float) -> bool:
    try:
        child.wait(wait_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _await_end(child: subprocess.Popen[bytes], specs: Sequence[Mapping[str, Any]]) -> None:
    """Return when Snakemake has ended, and every job of it on this machine."""
    deadline = time.monotonic() + END_S
    if not _has_ended(child, END_S):
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    while any(locks.is_locked(Path(spec["lock"])) for spec in specs) and time.monotonic() < deadline:
        time.sleep(locks.POLL_S)


class _Report:
    """What the log says of the jobs so far."""

    def __init__(self, waiting: Sequence[Job], planned: Plan) -> None:
        self._waiting, self._planned = waiting, planned
        self._events: dict[str, str] = {}
        self._counted = time.monotonic()

    def update(self) -> None:
        """Say what began or ended since the last time; now and then also how far the others are."""
        counting = time.monotonic() - self._counted > COUNT_S
        for job in self._waiting:
            last = last_event(job, self._planned.campaign)
            event = last.get("event", "")
            if event != self._events.get(job.id, ""):
                self._events[job.id] = event
                why = f": {last['reason']}" if last.get("reason") else ""
                log.info("%s: %s%s", job.id, event, why)
            elif event == "begun" and counting:
                done = len(recorded(job.folder)) if (job.folder / "trials").is_dir() else 0
                log.info("%s: %d of %d trials", job.id, done, self._planned.stands[job.id].planned)
        if counting:
            self._counted = time.monotonic()
