"""A campaign through a real Slurm on lab nodes: it goes on after kills of engine and daemon, and no two trials meet."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infrabench import lab, records, runs
from infrabench.campaign import checks, engine, exclusive, file, summary
from infrabench.core import Host, Machines, Result
from infrabench.lab.queue import PARTITION

# The first run makes an image of Debian packages: two minutes.
pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[3]
LONGEST_S = 900.0
NODES = ("node1", "node2", "node3")
UNIT = "infrabench-campaign"
CAMPAIGN = """name: slurm
studies: {{containers: {{profile: smoke, systems: [native], workloads: [sysbench-cpu], runs: {blocks}}}}}
sites:
{sites}
shares: [[{labels}]]
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A project's home that the nodes see where this machine has it; /tmp may be another one there."""
    (ROOT / "out").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="slurm-test-", dir=ROOT / "out"))
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(runs.VARIABLE, str(folder))
        yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def cluster(home: Path) -> Iterator[Machines]:
    python = Path(sys.base_prefix)
    shared = [ROOT, *([] if python == Path("/usr") else [python])]
    with lab.use(), lab.slurm(len(NODES), shared) as made:
        yield made


def campaign(home: Path, blocks: int) -> file.Campaign:
    """Write the campaign of the containers study on three nodes, each a site of its own; they share this machine."""
    sites = [f"  {node}: {{target: local, slurm: {{nodes: {node}, partition: {PARTITION}}}}}\n" for node in NODES]
    path = home / "slurm.yml"
    path.write_text(CAMPAIGN.format(blocks=blocks, sites="".join(sites), labels=", ".join(NODES)))
    return file.read(path)


def check(host: Host, *argv: str) -> Result:
    result = host.run(argv, timeout_s=60)
    assert result.ok, (argv, result.stdout, result.stderr)
    return result


@contextmanager
def engaged(controller: Host, home: Path) -> Iterator[None]:
    """Start the campaign's engine on the controller, as a unit of its own whose children it does not take with it."""
    command = (sys.executable, "-m", "infrabench.cli", "campaign", str(home / "slurm.yml"), "--executor", "slurm")
    given = (f"--setenv={runs.VARIABLE}={home}", "--setenv=HOME=/root", f"--working-directory={home}")
    controller.run(("systemctl", "reset-failed", UNIT), timeout_s=20)
    check(controller, "systemd-run", f"--unit={UNIT}", "--property=KillMode=process", *given, *command)
    try:
        yield
    finally:
        controller.run(("systemctl", "stop", UNIT), timeout_s=60)


def ended(controller: Host) -> bool:
    state = controller.run(("systemctl", "is-active", UNIT), timeout_s=20).stdout.decode().strip()
    return state not in ("active", "activating", "deactivating")


def until(what: Callable[[], bool], controller: Host) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not what():
        assert time.monotonic() < deadline, said(controller)
        time.sleep(0.5)


def said(controller: Host) -> str:
    log = controller.run(("journalctl", "--no-pager", "--lines=60", f"--unit={UNIT}"), timeout_s=20).stdout.decode()
    queue = controller.run(("squeue",), timeout_s=20).stdout.decode()
    return log + queue


def trials(home: Path, node: str = "*") -> int:
    return len(list(home.glob(f"data/runs/containers/slurm.{node}.containers/trials/[!.]*")))


def states(home: Path) -> dict[str, tuple[str, str | None]]:
    data = json.loads((home / "out/campaigns/slurm" / summary.FILE).read_text())["sessions"]
    return {each["site"]: (each["state"], each["reason"]) for each in data}


def test_a_campaign_goes_on_after_kills_of_engine_and_daemon(
    cluster: Machines, home: Path, record_property: Callable[[str, object], None]
) -> None:
    controller, blocks = cluster.hosts["queue"], 12
    wanted = campaign(home, blocks)
    with engaged(controller, home):
        until(lambda: trials(home) >= 2 or ended(controller), controller)
        assert not ended(controller), said(controller)
        check(controller, "systemctl", "kill", "--kill-who=main", "--signal=KILL", UNIT)
        until(lambda: ended(controller), controller)
    before = trials(home)
    assert 2 <= before < len(NODES) * blocks
    with engaged(controller, home):
        until(lambda: trials(home, "node2") >= 2 or ended(controller), controller)
        assert not ended(controller), said(controller)
        check(cluster.hosts["node2"], "systemctl", "kill", "--kill-who=main", "--signal=KILL", "slurmd.service")
        time.sleep(5)
        check(cluster.hosts["node2"], "systemctl", "restart", "slurmd.service")
        until(lambda: ended(controller), controller)
    starts = 2
    while {state for state, _ in states(home).values()} != {"complete"} and starts < 4:
        check(controller, "scontrol", "update", "nodename=node2", "state=resume")
        with engaged(controller, home):
            until(lambda: ended(controller), controller)
        starts += 1
    assert set(states(home).values()) == {("complete", None)}, said(controller)
    planned = checks.read_only(wanted, "slurm")
    assert trials(home) == len(NODES) * blocks  # none is lost, and none was recorded twice
    for job in planned.jobs:
        assert records.verify(job.folder) == []
        assert (engine.own(job, "slurm")["out"]).is_file()
    told, alone = exclusive.told(planned)
    record_property("campaign", {"starts": starts, "told": told[0]})
    assert alone, told
    assert check(controller, "squeue", "--noheader").stdout == b""


def test_a_node_that_is_lost_for_good_stops_its_site_alone(cluster: Machines, home: Path) -> None:
    controller = cluster.hosts["queue"]
    shutil.rmtree(home / "data" / "runs" / "containers")
    shutil.rmtree(home / "out" / "campaigns")
    campaign(home, 3)
    with engaged(controller, home):
        until(lambda: trials(home, "node1") >= 1 or ended(controller), controller)
        # The daemon and all that it started: as if the node's power were gone.
        check(cluster.hosts["node1"], "systemctl", "kill", "--kill-who=all", "--signal=KILL", "slurmd.service")
        until(lambda: ended(controller), controller)
    found = states(home)
    assert found["node1"][0] == "partial"
    assert found["node1"][1]
    assert {found["node2"], found["node3"]} == {("complete", None)}
