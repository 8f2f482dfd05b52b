"""What Slurm is asked for: its commands are stood in for by programs that write down what they are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from infrabench.core import DesignError, InfrabenchError, SiteError
from infrabench.experiment.campaign import checks, engine, slurm, summary
from infrabench.experiment.campaign.file import Campaign, Slurm

Written = Callable[[str], Campaign]
RUN = "_0b7e4c3a-1111-4222-8333-444455556666"
PROGRAMS = {
    "sbatch": 'echo 7; for word in "$@"; do printf "%s\\n" "$word"; done >"$HERE/submitted"',
    "squeue": 'case "$*" in *%T*) echo "7|FAILED" ;; *) cat "$HERE/queue" ;; esac',
    "scancel": 'echo "$@" >>"$HERE/cancelled"',
    "sinfo": 'printf "%s\\n" PARTITION "bench*"',
    "sacct": "echo Slurm accounting storage is disabled >&2; exit 1",
    "scontrol": 'echo "MinJobAge = 300 sec"',
}


@pytest.fixture
def cluster(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what a Slurm was told; two jobs are in its queue, one of them of an earlier start."""
    here = home / "slurm"
    here.mkdir()
    monkeypatch.setenv("HERE", str(here))
    for name, text in PROGRAMS.items():
        program = home / "bin" / name
        program.unlink(missing_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    names = [f"{slurm.job_prefix(each)}{RUN}" for each in ("c", "c2")]
    (here / "queue").write_text(f"3 {names[0]}\n4 {names[1]}\n5 something else\n\n")
    return here


def test_a_job_gets_whole_nodes_once_for_a_bounded_time(
    written: Written, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = written(
        "name: c\nstudies: {camp: {profile: few}}\n"
        'sites: {a: {target: local, slurm: {nodes: "n[1-2]", constraint: "big&fast"}}}\n'
    )
    planned = checks.check_all(campaign, "slurm")
    monkeypatch.setattr(slurm, "FIRST_LOOK_S", 1)
    with pytest.raises(InfrabenchError, match=r"Snakemake began no job .*: see .*snakemake.log"):
        engine.run(planned, engine.How("slurm"))
    words = (cluster / "submitted").read_text().splitlines()
    assert {"--exclusive", "--nodelist=n[1-2]", "--no-requeue", "--ntasks=1"} <= set(words)
    assert words[words.index("-p") + 1] == "bench"
    assert words[words.index("-C") + 1] == "big&fast"
    assert not [word for word in words if word == "--requeue" or word.startswith(("--mem", "--account", "-A"))]
    assert words[words.index("-t") + 1] == "31"  # minutes: a plan of seconds, three times, and half an hour
    assert words[words.index("--job-name") + 1].startswith(f"{slurm.job_prefix('c')}_")
    # Slurm says that the job failed; it is not submitted again, and what is missing is named.
    assert (cluster / "cancelled").read_text() == "3\n"
    (entry,) = json.loads(summary.write(planned).read_text())["sessions"]
    assert (entry["state"], entry["reason"]) == ("missing", "not begun")


def test_what_an_earlier_start_left_is_cancelled_and_nothing_else(cluster: Path) -> None:
    assert slurm.cancel("c") == ["3"]
    assert (cluster / "cancelled").read_text() == "3\n"
    assert slurm.cancel("c3") == []
    assert slurm.cancel("c2") == ["4"]


def test_no_slurm_and_a_slurm_that_does_not_answer_are_told_apart(home: Path, cluster: Path) -> None:
    (home / "bin/squeue").write_text("#!/bin/sh\necho cannot contact controller >&2; exit 1\n")
    with pytest.raises(SiteError, match="Slurm does not answer: squeue exited with 1: cannot contact controller"):
        slurm.cancel("c")
    (home / "bin/squeue").unlink()
    with pytest.raises(DesignError, match="there is no Slurm here"):
        slurm.cancel("c")


def test_accounts_are_guessed_for_nobody(cluster: Path, home: Path) -> None:
    assert "--slurm-no-account" in slurm.options("c", [Slurm(), Slurm(nodes="a")])
    assert "--slurm-no-account" not in slurm.options("c", [Slurm(), Slurm(account="a")])
    assert slurm.options("c", [])[-2:] == ["--slurm-status-command", "squeue"]
    (home / "bin/sacct").write_text("#!/bin/sh\nexit 0\n")
    assert "squeue" not in slurm.options("c", [])
