"""What Slurm is asked for: whole nodes, one start of a job, time from the plan; and that nothing is left in it."""

from __future__ import annotations

import getpass
import math
import os
import re
from collections.abc import Sequence
from typing import Any

from infrabench.core import DesignError, Result, SiteError, digest
from infrabench.experiment.campaign.file import Slurm
from infrabench.ledger import catalogue
from infrabench.machines.hosts.host import LocalHost

PREFIX = "infrabench-"
RUN = r"_[0-9a-f-]{36}"  # what the executor adds to the names of its jobs
ASK_S = 60.0
FIRST_LOOK_S = 10  # after which it asks Slurm how its jobs are; later ever more rarely, up to three minutes
# An estimate is one; a job that is ended by its limit loses a trial, and its site.
TIMES, MORE_S = 3, 1800


def resources(asked: Slurm, seconds: float) -> dict[str, Any]:
    """Return what a job that is expected to take at most so many seconds is submitted with, in Snakemake's words."""
    # In quotes, as the executor's command line for a shell takes them; the file's schema leaves no quote in a word.
    extra = ["'--exclusive'", *([f"'--nodelist={asked.nodes}'"] if asked.nodes else [])]
    given = {"slurm_partition": asked.partition, "slurm_account": asked.account, "constraint": asked.constraint}
    return {
        **{name: value for name, value in {**given, "qos": asked.qos}.items() if value is not None},
        "slurm_extra": " ".join(extra),
        "runtime": math.ceil((TIMES * seconds + MORE_S) / 60),  # minutes
        "mem_mb": 0,  # nothing is asked for: the whole node is the job's, with its memory
    }


def job_prefix(campaign: str) -> str:
    """Return what the names of a campaign's jobs begin with, in at most the 50 characters that Snakemake allows.

    Checkouts of one user may have campaigns of one name: the digest tells their jobs apart.
    """
    return f"{PREFIX}{campaign[:30]}-{digest([str(catalogue.home().resolve()), campaign], 8)}"


def options(campaign: str, asked: Sequence[Slurm]) -> list[str]:
    """Return the options of Snakemake's executor."""
    words = ["--slurm-no-requeue", "--slurm-jobname-prefix", job_prefix(campaign)]
    words += ["--slurm-init-seconds-before-status-checks", str(FIRST_LOOK_S)]
    words += [] if any(each.account for each in asked) else ["--slurm-no-account"]
    # sacct is installed everywhere, and answers only where Slurm keeps accounts.
    accounts = LocalHost(environment=os.environ).run(("sacct", "--allocations", "--noheader"), timeout_s=ASK_S)
    return words if accounts.ok else [*words, "--slurm-status-command", "squeue"]


def cancel(campaign: str) -> list[str]:
    """Cancel what an engine that was killed left in the queue or running, and return the ids of those jobs."""
    here = LocalHost(environment=os.environ)
    result = here.run(("squeue", "--noheader", f"--user={getpass.getuser()}", "--format=%i %j"), timeout_s=ASK_S)
    if result.status in (126, 127):
        raise DesignError("there is no Slurm here (squeue cannot be run): start the campaign on a login node")
    if not result.ok:
        raise SiteError(f"Slurm does not answer: squeue {_explain_failure(result)}. Is slurmctld up?")
    rows = [line.split(None, 1) for line in result.stdout.decode("utf-8", "replace").splitlines()]
    ours = re.compile(re.escape(job_prefix(campaign)) + RUN)
    found = [number for number, name in (row for row in rows if len(row) == 2) if ours.fullmatch(name.strip())]
    if found and not (gone := here.run(("scancel", *found), timeout_s=ASK_S)).ok:
        raise SiteError(
            f"jobs of an earlier start cannot be cancelled: scancel {_explain_failure(gone)}. Cancel them by hand: "
            f"scancel {' '.join(found)}"
        )
    return found


def _explain_failure(result: Result) -> str:
    said = result.stderr.decode("utf-8", "replace").strip()[-300:].rstrip(".")
    return f"{result.ending}: {said or 'no reason given'}"
