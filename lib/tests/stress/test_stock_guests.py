"""Stock machines as somebody's hosts: from bare to a report and as they were again; a store; two at once, one lost.

They are emulated, and so ten to twenty times slower than others: half an hour, in the long form alone.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from infrabench import cli
from infrabench.experiment.campaign import checks, file, summary
from infrabench.ledger import records
from tests.support import stock_guests
from tests.support.places import ROOT
from tests.support.started_commands import end_command, start_command, wait_for_trials
from tests.support.storm import in_long_form
from tests.support.tiers import without_lab

LACKING = without_lab() or stock_guests.without_emulator()
pytestmark = [
    pytest.mark.timeout(7200),
    in_long_form,
    pytest.mark.skipif(LACKING is not None, reason=f"not run: {LACKING}"),
]

SYSTEMS = stock_guests.SYSTEMS
WORKLOADS = ("sysbench-cpu", "web", "startup")
BLOCKS = 2
SLOW_S = 600  # within which a container's page has to come there
LONGEST_S = 3600.0


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's home of its own, with the notebooks and the recorded sessions that they show."""
    home = tmp_path_factory.mktemp("project")
    for name in ("notebooks", "data/recorded"):
        shutil.copytree(ROOT / name, home / name)
    return home


@pytest.fixture(scope="module")
def inventory(project: Path) -> Iterator[Path]:
    """The inventory of two booted guests."""
    with stock_guests.open_project(project, 2) as path:
        yield path


def test_bare_hosts_are_prepared_measured_and_left_as_they_were(
    inventory: Path, project: Path, capsys: Any, record_property: Callable[[str, object], None]
) -> None:
    asked = ("hosts", "prepare", str(inventory), "--study", "containers", "--systems", ",".join(SYSTEMS))
    assert all("incus" not in " ".join(lines) for lines in stock_guests.ask(inventory, "dpkg-query -W").values())
    assert cli.main([*asked, "--dry-run"]) == 0
    assert " install --yes " in capsys.readouterr().out
    assert cli.main([*asked, "--yes"]) == 0, capsys.readouterr().out
    capsys.readouterr()
    assert cli.main([*asked, "--yes"]) == 0
    assert "nothing was changed" in capsys.readouterr().out

    stock_guests.ask(inventory, stock_guests.STATE)  # asked for the first time, Incus starts its daemon, which stays
    before, begun_s = stock_guests.ask(inventory, stock_guests.STATE), time.monotonic()
    given = {"mode": "run", "profile": "smoke", "site": str(inventory), "session": "stock", "runs": BLOCKS}
    given |= {"set": f"startup.limit_s={SLOW_S}"}
    lists = {"systems": SYSTEMS, "workloads": WORKLOADS}
    words = [word for name, value in given.items() for word in ("-p", name, str(value))]
    words += [word for name, values in lists.items() for word in ("-p", name, ",".join(values))]
    out = project / "out/containers.ipynb"
    assert cli.main(["notebook", "run", str(project / "notebooks/containers.ipynb"), str(out), *words]) == 0
    record_property("seconds", round(time.monotonic() - begun_s))
    assert cli.main(["report", str(out), "--out", str(project / "out")]) == 0
    assert list((project / "out/report").glob("*.html"))
    folder = project / "data/runs/containers/stock"
    every = records.read_trials(folder)
    assert records.verify(folder) == []
    cells = {(each.trial.system, each.trial.workload) for each in every if each.state == "ok"}
    assert cells == {*product(SYSTEMS, WORKLOADS)}
    changed = stock_guests.list_changes(before, stock_guests.ask(inventory, stock_guests.STATE))
    assert not changed, changed


def test_a_store_is_made_on_a_stock_machine_and_leaves_it_as_it_was(inventory: Path, project: Path) -> None:
    asked = ("hosts", "prepare", str(inventory), "--study", "storage", "--systems", "ceph", "--workloads", "fio-4k")
    assert cli.main([*asked, "--yes"]) == 0
    before = stock_guests.ask(inventory, stock_guests.STATE)
    given = ("--profile", "smoke", "--runs", "1", "--deployments", "1", "--systems", "ceph", "--workloads", "fio-4k")
    assert cli.main(["run", "storage", *given, "--site", str(inventory), "--session", "store"]) == 0
    states = [each.state for each in records.read_trials(project / "data/runs/storage/store")]
    assert states
    assert set(states) == {"ok"}
    changed = stock_guests.list_changes(before, stock_guests.ask(inventory, stock_guests.STATE))
    assert not changed, changed


def test_two_sites_are_measured_at_the_same_time_and_a_lost_one_comes_back(inventory: Path, project: Path) -> None:
    hosts = yaml.safe_load(inventory.read_text())
    for site, role in (("one", "server"), ("two", "client")):
        alone = {**hosts, "name": site, "hosts": {"server": hosts["hosts"][role]}}
        (project / f"{site}.yml").write_text(yaml.safe_dump(alone))
        wanted = ("--study", "containers", "--systems", "native", "--workloads", "sysbench-cpu", "--yes")
        assert cli.main(["hosts", "prepare", str(project / f"{site}.yml"), *wanted]) == 0
    path = project / "both.yml"
    study = {"profile": "smoke", "systems": ["native"], "workloads": ["sysbench-cpu"], "runs": 12}
    path.write_text(
        yaml.safe_dump(
            {"name": "both", "studies": {"containers": study}, "sites": {"one": "one.yml", "two": "two.yml"}}
        )
    )
    lost = project / "data/runs/containers/both.two.containers"
    child = start_command("campaign", "run", str(path))
    wait_for_trials(lost, 6, child, LONGEST_S)
    stock_guests.set_link(2, "down")
    status, said = end_command(child, LONGEST_S)
    stock_guests.set_link(2, "up")
    assert status != 0, said
    states = {each["site"]: each["state"] for each in _sessions(project)}
    assert states == {"one": "complete", "two": "partial"}, said

    assert cli.main(["campaign", "run", str(path)]) == 0
    assert {each["state"] for each in _sessions(project)} == {"complete"}
    planned = checks.read_plan(file.read(path))
    one, two = ([*summary.spans(job.site.label, job.folder)] for job in planned.jobs)
    together = sum(a.begin_s < b.end_s and b.begin_s < a.end_s for a in one for b in two)
    assert together >= 2, (one, two)
    assert summary.describe_overlaps(planned)[1]


def _sessions(project: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((project / "out/campaigns/both" / summary.FILE).read_text())["sessions"]
    return found
