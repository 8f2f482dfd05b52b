"""Campaigns on lab nodes: three pairs of hosts, by the engine here and through a real Slurm, with kills of both."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from infrabench import cli
from infrabench.core import Host, Machines, Result, wait
from infrabench.experiment.campaign import checks, engine, file, summary
from infrabench.experiment.campaign.plan import Plan
from infrabench.ledger import catalogue, records
from infrabench.machines.sites.site import open_site
from infrabench.notebook import headless, multisite
from infrabench_platforms import lab
from infrabench_platforms.lab import node_groups
from infrabench_platforms.lab.shell import state_dir
from tests.support import slurm_cluster
from tests.support.places import ROOT
from tests.support.slurm_cluster import PARTITION
from tests.support.started_commands import check_whole
from tests.support.storm import in_long_form

# The first run makes an image of Debian packages: two minutes.
pytestmark = [pytest.mark.timeout(3600)]

LONGEST_S = 900.0
NODES = ("node1", "node2", "node3")
RACKS = ("rack-a", "rack-b", "rack-c")
BLOCKS = 8
SLOWED = """
for top in /sys/fs/cgroup/cpu/docker /sys/fs/cgroup/docker; do
  mkdir -p "$top" 2>/dev/null || continue
  [ ! -e "$top/cpu.cfs_quota_us" ] || { echo 20000 >"$top/cpu.cfs_quota_us"; echo slowed; exit; }
  [ ! -e "$top/cpu.max" ] || { echo "20000 100000" >"$top/cpu.max"; echo slowed; exit; }
done
exit 1
"""
STUDY = "{{profile: smoke, systems: [{systems}], workloads: [sysbench-cpu], runs: {blocks}}}"
CAMPAIGN = """name: {name}
studies: {{containers: {study}}}
sites:
{sites}shares: [[{labels}]]
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A project's home that the nodes see where this machine has it; /tmp may be another one there."""
    (ROOT / "out").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="campaigns-", dir=ROOT / "out"))
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(catalogue.VARIABLE, str(folder))
        yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def racks(home: Path) -> Iterator[tuple[str, ...]]:
    """Three pairs of hosts; their inventories are in the project's home."""
    with lab.use(), ExitStack() as stack:
        for name in RACKS:
            group = node_groups.pair_group(name)
            shutil.copy(node_groups.make_pair(name, group), home / f"{name}.yml")
            stack.callback(node_groups.remove, group)
        yield RACKS


@pytest.fixture(scope="module")
def cluster(racks: tuple[str, ...]) -> Iterator[Machines]:
    """A Slurm whose jobs can steer the pairs: its nodes see the keys, and the image that guests are made of."""
    python = Path(sys.base_prefix)
    shared = [ROOT, lab.lab_dir() / "ssh", state_dir() / "images", *([] if python == Path("/usr") else [python])]
    with slurm_cluster.open_cluster(len(NODES), shared) as made:
        yield made


def campaign(home: Path, name: str, sites: Mapping[str, str], systems: str, blocks: int = BLOCKS) -> file.Campaign:
    """Write the campaign of the containers study on these sites, which share this machine."""
    path = home / f"{name}.yml"
    rows = "".join(f"  {label}: {place}\n" for label, place in sites.items())
    study = STUDY.format(systems=systems, blocks=blocks)
    path.write_text(CAMPAIGN.format(name=name, study=study, sites=rows, labels=", ".join(sites)))
    return file.read(path)


def check(host: Host, *argv: str) -> Result:
    result = host.run(argv, timeout_s=60)
    assert result.ok, (argv, result.stdout, result.stderr)
    return result


@dataclass(frozen=True)
class Engine:
    """A campaign's engine, a unit of its own on the controller."""

    controller: Host
    unit: str

    def ended(self) -> bool:
        state = self.controller.run(("systemctl", "is-active", self.unit), timeout_s=20).stdout.decode().strip()
        return state not in ("active", "activating", "deactivating")

    def said(self) -> str:
        ask = ("journalctl", "--no-pager", "--lines=60", f"--unit={self.unit}")
        log, queue = (self.controller.run(argv, timeout_s=20).stdout.decode() for argv in (ask, ("squeue",)))
        return log + queue


@contextmanager
def engaged(controller: Host, home: Path, name: str) -> Iterator[Engine]:
    """Start the campaign's engine on the controller, as a unit of its own whose children it does not take with it."""
    path = str(home / f"{name}.yml")
    command = (sys.executable, "-m", "infrabench.cli", "campaign", "run", path, "--executor", "slurm")
    given = (f"--setenv={catalogue.VARIABLE}={home}", "--setenv=HOME=/root", f"--working-directory={home}")
    unit = f"infrabench-campaign-{uuid.uuid4().hex[:8]}"
    check(controller, "systemd-run", f"--unit={unit}", "--property=KillMode=process", *given, *command)
    try:
        yield Engine(controller, unit)
    finally:
        controller.run(("systemctl", "stop", unit), timeout_s=60)


def until(what: Callable[[], bool], told: Callable[[], str]) -> None:
    assert wait.until(what, LONGEST_S, 0.5), told()


def trials(home: Path, name: str, site: str = "*") -> int:
    return len(list(home.glob(f"data/runs/containers/{name}.{site}.containers/trials/[!.]*")))


def states(home: Path, name: str) -> dict[str, tuple[str, str | None]]:
    data = json.loads((home / "out/campaigns" / name / summary.FILE).read_text())["sessions"]
    return {each["site"]: (each["state"], each["reason"]) for each in data}


def assert_proven(planned: Plan, wanted: int) -> None:
    """Every trial is there once and sound, and by the times in the ledgers no two met."""
    assert sum(stand.done for stand in planned.stands.values()) == wanted
    for job in planned.jobs:
        check_whole(job.folder)
        every = records.read_trials(job.folder)
        # What is there beyond the plan repeats a trial that the machine spoilt.
        invalid = {records.place(each.trial) for each in every if not each.trial.attempt and each.state == "invalid"}
        assert {records.place(record.trial) for record in every if record.trial.attempt} == invalid
        assert (engine.own(job, planned.campaign)["out"]).is_file()
    of_sessions = json.loads(summary.write(planned).read_text())["sessions"]
    assert [each["not_run"] for each in of_sessions] == [{}] * len(planned.jobs)
    told, alone = summary.describe_overlaps(planned)
    assert alone, told


def slowed(inventory: Path) -> None:
    """Let the containers of a server have a fifth of one processor together, whatever a session's limits say.

    Half of one is what they, and those without a limit, have anyway while others load this machine.
    """
    with open_site(inventory) as site:
        done = site.hosts["server"].run(("sh", "-ec", SLOWED), timeout_s=20)
    assert done.ok, done.stderr


def test_three_pairs_go_on_after_a_kill_and_a_planted_difference_is_found(racks: tuple[str, ...], home: Path) -> None:
    wanted = campaign(home, "here", {name: f"{name}.yml" for name in racks}, "native, docker")
    slowed(home / "rack-c.yml")
    command = (sys.executable, "-m", "infrabench.cli", "campaign", "run", str(wanted.path))
    with (home / "here.log").open("wb") as log:
        begun = subprocess.Popen(command, cwd=home, stdout=log, stderr=log, start_new_session=True)
    try:
        until(lambda: trials(home, "here") >= 3 or begun.poll() is not None, (home / "here.log").read_text)
        assert begun.poll() is None, (home / "here.log").read_text()
    finally:
        os.kill(begun.pid, signal.SIGKILL)
        begun.wait()
    before = trials(home, "here")
    assert 3 <= before < len(racks) * 2 * BLOCKS
    assert cli.main(["campaign", "run", str(wanted.path)]) == 0
    assert set(states(home, "here").values()) == {("complete", None)}
    assert_proven(checks.read_plan(wanted), len(racks) * 2 * BLOCKS)

    path = home / "out/campaigns/here" / summary.FILE
    assert (path.parent / headless.SITES).is_file()
    (found,) = multisite.opened(path)
    over = found.over[found.over["metric"] == "events_per_s"].iloc[0]
    ratios = found.rows[found.rows["metric"] == "events_per_s"].set_index("site")["ratio"]
    assert ratios["rack-c"] < 0.75 * min(ratios["rack-a"], ratios["rack-b"])
    assert over["p_sites"] < 0.001
    assert over["across"] == "differs between sites"


@in_long_form
def test_through_slurm_it_goes_on_after_kills_of_engine_and_daemon(cluster: Machines, home: Path) -> None:
    controller, blocks = cluster.hosts["queue"], 4
    places = {
        rack: f"{{target: {rack}.yml, slurm: {{nodes: {node}, partition: {PARTITION}}}}}"
        for rack, node in zip(RACKS, NODES, strict=True)
    }
    wanted = campaign(home, "queued", places, "native, docker", blocks)
    every = len(RACKS) * 2 * blocks
    with engaged(controller, home, "queued") as begun:
        until(lambda: trials(home, "queued") >= 2 or begun.ended(), begun.said)
        assert not begun.ended(), begun.said()
        check(controller, "systemctl", "kill", "--kill-who=main", "--signal=KILL", begun.unit)
        until(begun.ended, begun.said)
    assert 2 <= trials(home, "queued") < every
    with engaged(controller, home, "queued") as begun:
        until(lambda: trials(home, "queued", "rack-b") >= 2 or begun.ended(), begun.said)
        assert not begun.ended(), begun.said()
        check(cluster.hosts["node2"], "systemctl", "kill", "--kill-who=main", "--signal=KILL", "slurmd.service")
        time.sleep(5)
        check(cluster.hosts["node2"], "systemctl", "restart", "slurmd.service")
        until(begun.ended, begun.said)
    starts = 2
    while {state for state, _ in states(home, "queued").values()} != {"complete"} and starts < 4:
        # It may still be in use already: then there is nothing to resume.
        controller.run(("scontrol", "update", "nodename=node2", "state=resume"), timeout_s=60)
        with engaged(controller, home, "queued") as begun:
            until(begun.ended, begun.said)
        starts += 1
    assert set(states(home, "queued").values()) == {("complete", None)}, begun.said()
    assert_proven(checks.read_plan(wanted, "slurm"), every)
    assert check(controller, "squeue", "--noheader").stdout == b""


def test_a_node_that_is_lost_for_good_stops_its_site_alone(cluster: Machines, home: Path) -> None:
    controller = cluster.hosts["queue"]
    places = {node: f"{{target: local, slurm: {{nodes: {node}, partition: {PARTITION}}}}}" for node in NODES}
    campaign(home, "lost", places, "native", 3)
    with engaged(controller, home, "lost") as begun:
        until(lambda: trials(home, "lost", "node1") >= 1 or begun.ended(), begun.said)
        # The daemon and all that it started: as if the node's power were gone.
        check(cluster.hosts["node1"], "systemctl", "kill", "--kill-who=all", "--signal=KILL", "slurmd.service")
        until(begun.ended, begun.said)
    found = states(home, "lost")
    assert found["node1"][0] == "partial"
    assert found["node1"][1]
    assert {found["node2"], found["node3"]} == {("complete", None)}
