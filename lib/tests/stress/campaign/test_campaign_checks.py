"""What is refused before anything starts, on sites that are really asked; what Slurm is asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infrabench.core import DesignError, InfrabenchError, SiteError
from infrabench.experiment.campaign import checks, engine, slurm, summary
from infrabench.experiment.campaign.checks import Answer
from infrabench.experiment.campaign.file import Campaign, Slurm
from infrabench.machines.hosts import claims
from infrabench.machines.hosts.host import LocalHost
from tests.support.campaigns import Inventory, planned, refused
from tests.support.scripts import write_program

Written = Callable[[str], Campaign]
STUDY = "name: c\nstudies: {camp: {profile: few}}\n"


def test_sites_that_answer_are_planned(written: Written, inventory: Inventory) -> None:
    inventory("a")
    inventory("b")
    found = planned(written(STUDY + "sites: {a: a.yml, b: b.yml}\nshares: [[a, b]]\n"))
    assert [job.id for job in found.jobs] == ["a.camp", "b.camp"]
    assert found.alone == {"a", "b"}  # their servers run on this kernel, whatever their addresses say
    assert found.apart("a", "b")
    assert {stand.state for stand in found.stands.values()} == {"missing"}


def test_everything_that_is_wrong_comes_at_once(home: Path, written: Written, inventory: Inventory) -> None:
    inventory("a")
    inventory("gone", there=False)
    begun = time.monotonic()
    found = refused(
        written(
            "name: c\n"
            "studies:\n"
            "  camp: {profile: fw}\n"
            "  kamp: {}\n"
            "  fio: {study: camp, profile: few, systems: [plane]}\n"
            "  cnis: {sites: [b]}\n"
            "  known-effects: {}\n"
            "sites: {a: a.yml, again: a.yml, gone: gone.yml, here: local, lost: lost.yml, any: auto}\n"
            "shares: [[a, nowhere], [here, here]]\n"
            "parity: [kernl]\n"
        )
    )
    assert time.monotonic() - begun < 30  # nobody is waited for longer than seconds
    told = "\n".join(found)
    for words in (
        "studies.camp: unknown profile of study 'camp' 'fw': did you mean few",
        "studies.kamp: unknown study 'kamp': did you mean camp",
        "studies.fio: unknown system 'plane': did you mean plain",
        "line 6, studies.cnis.sites: there is no site 'b' in this campaign",
        "studies.known-effects: study 'known-effects' has no notebook",
        "sites a and again are one: both are ",
        "sites.gone: server: cannot connect: ",
        "sites.lost: unknown site ",
        "sites.any: a campaign says which sites it means",
        "shares.0: there is no site 'nowhere' in this campaign",
        "shares.1: a group has two sites or more",
        "parity: unknown name in parity 'kernl': did you mean kernel",
        "sites a and here share a machine: server of a and server of here run on one kernel",
    ):
        assert words in told, words
    assert not (home / "data").exists()
    assert not (home / "out").exists()


def test_two_sites_that_share_a_host_say_so(written: Written, inventory: Inventory, home: Path) -> None:
    first, second = inventory("a"), inventory("b")
    client = first.read_text().split("server: ")[1].split("\n")[0]
    second.write_text(second.read_text().replace("\nknown_hosts", f"\n  client: {client}\nknown_hosts"))
    known = [home / f"ssh-{name}" / "known_hosts" for name in "ab"]
    known[1].write_text(known[1].read_text() + known[0].read_text())
    text = STUDY + "sites: {a: a.yml, b: b.yml}\n"
    told = refused(written(text))
    assert told == [
        "sites a and b share a machine: server of a and client of b have one address. Write shares: [[a, b]], and they "
        "take turns"
    ]
    planned(written(text + "shares: [[b, a]]\n"))


def test_a_session_of_other_parameters_is_named_before_anything_starts(written: Written, home: Path) -> None:
    campaign = written(STUDY + "sites: {here: local}\n")
    folder = checks.read_plan(campaign).jobs[0].folder
    assert folder == home / "data/runs/camp/c.here.camp"
    folder.mkdir(parents=True)
    (folder / "session.json").write_text(json.dumps({"format": 1, "parameters": {"study": "camp"}}))
    (told,) = refused(campaign)
    assert told.startswith("here.camp: ")
    assert "was made with other parameters" in told


def test_parity_is_asked_of_the_sites(written: Written, inventory: Inventory) -> None:
    inventory("a")
    inventory("b")
    sites = STUDY + "sites: {a: a.yml, b: b.yml}\nshares: [[a, b]]\n"
    planned(written(sites + "parity: [kernel, distribution, python3, tools]\n"))


def test_a_lab_that_is_not_up_says_what_its_kernel_is_and_no_more(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infrabench_platforms.provider.require_lab", lambda: None)
    text = STUDY + "sites: {b: lab, here: local}\nshares: [[b, here]]\n"
    planned(written(text + "parity: [kernel]\n"))
    (told,) = refused(written(text + "parity: [kernel, distribution]\n"))
    assert told == "parity: distribution of b: its nodes can be asked when it is up"


def test_differing_versions_are_named_by_role() -> None:
    answers = {
        "a": Answer("a", facts={"kernel": {"server": "6.1", "client": "6.1"}, "docker": {"server": "27"}}),
        "b": Answer("b", facts={"kernel": {"server": "6.2"}, "docker": {"server": "27"}}),
        "c": Answer("c", silent={"docker": "a cluster does not say it of its nodes"}),
    }
    assert checks.find_inequalities(answers, ["kernel", "docker"]) == [
        "parity: kernel (server) differs: a 6.1, b 6.2",
        "parity: docker of c: a cluster does not say it of its nodes",
    ]
    assert checks.find_inequalities(answers, []) == []


@pytest.mark.parametrize(("other", "differ"), [(2**36 - 8192, False), (2**35, True), ("nothing", True)])
def test_a_kernel_that_finds_some_bytes_less_has_the_same_memory(other: int | str, differ: bool) -> None:
    sizes = {"a": 2**36, "b": other}
    answers = {name: Answer(name, facts={"memory": {"server": str(size)}}) for name, size in sizes.items()}
    assert bool(checks.find_inequalities(answers, ["memory"])) is differ


def test_one_kernel_is_one_machine() -> None:
    answers = {name: Answer(name, kernels=kernels) for name, kernels in (
        ("a", {"server": 10**18, "client": 2 * 10**18}), ("b", {"server": 10**18 + 10**6}),
        ("c", {"server": 3 * 10**18, "client": 2 * 10**18 + 1000}),
    )}  # fmt: skip
    assert checks.common_kernels(answers) == {("a", "c"): ("client", "client")}


def test_a_kernel_says_when_it_started_to_the_microsecond() -> None:
    told = [claims.boot_time(LocalHost()) for _ in range(5)]
    assert max(told) - min(told) < claims.ONE_KERNEL_NS / 10
    started = next(int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if "btime" in line)
    assert abs(told[0] / 1e9 - started) < 2


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
        (home / "bin" / name).unlink(missing_ok=True)
        write_program(home / "bin" / name, text)
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
    write_program(home / "bin/squeue", "echo cannot contact controller >&2; exit 1")
    with pytest.raises(SiteError, match="Slurm does not answer: squeue exited with 1: cannot contact controller"):
        slurm.cancel("c")
    (home / "bin/squeue").unlink()
    with pytest.raises(DesignError, match="there is no Slurm here"):
        slurm.cancel("c")


def test_accounts_are_guessed_for_nobody(cluster: Path, home: Path) -> None:
    assert "--slurm-no-account" in slurm.options("c", [Slurm(), Slurm(nodes="a")])
    assert "--slurm-no-account" not in slurm.options("c", [Slurm(), Slurm(account="a")])
    assert slurm.options("c", [])[-2:] == ["--slurm-status-command", "squeue"]
    write_program(home / "bin/sacct", "exit 0")
    assert "squeue" not in slurm.options("c", [])
