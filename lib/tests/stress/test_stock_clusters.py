"""Stock machines as somebody's clusters: bare, prepared, measured, and given back as they were.

They are emulated, and so ten to twenty times slower than others: an hour, in the long form alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench import cli
from infrabench.ledger import records
from infrabench_platforms.systems import _namespace
from tests.support import stock_guests
from tests.support.storm import in_long_form
from tests.support.tiers import without_lab

LACKING = without_lab() or stock_guests.without_emulator()
pytestmark = [
    pytest.mark.timeout(7200),
    in_long_form,
    pytest.mark.skipif(LACKING is not None, reason=f"not run: {LACKING}"),
]
SLOW_S = 600.0


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The inventory of three booted guests, which are a cluster's machines."""
    with stock_guests.open_project(tmp_path_factory.mktemp("project"), 3) as path:
        yield path


@pytest.mark.parametrize(
    ("study", "system", "workload", "settings"),
    [
        ("runtimes", "containerd-runc", "pods-sysbench-cpu", ("pods=4",)),  # as many as there is memory for
        ("runtimes", "crio-runc", "pods-sysbench-cpu", ("pods=4",)),
        # Not iperf3: on an emulated processor it counts up to 0.1 s longer than its last interval, and is refused.
        # Of some 70 round trips a second there, a minute has enough packets to tell which way they went.
        ("cnis", "flannel", "netperf", ("test=TCP_RR", "placement=two-nodes", "seconds=60")),
    ],
)
def test_a_cluster_is_made_of_stock_machines_and_leaves_them_as_they_were(
    study: str, system: str, workload: str, settings: tuple[str, ...], inventory: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    # Multus waits for the API 2.5 s at most, which is too short here for all pods at once: kubelet then tries again.
    monkeypatch.setattr(_namespace, "PODS_S", SLOW_S)
    chosen = ("--systems", system, "--workloads", workload)
    assert cli.main(["hosts", "prepare", str(inventory), "--study", study, *chosen, "--yes"]) == 0
    before = stock_guests.ask(inventory, stock_guests.STATE)
    given = ("--profile", "smoke", "--runs", "1", "--deployments", "1", "--site", str(inventory))
    set_to = ("--set", *(f"{workload}.{each}" for each in settings))
    assert cli.main(["run", study, *chosen, *set_to, *given, "--session", system]) == 0
    folder = inventory.parent / "data/runs" / study / system
    states = [each.state for each in records.read_trials(folder)]
    assert states
    assert set(states) == {"ok"}
    assert records.verify(folder) == []
    changed = stock_guests.list_changes(before, stock_guests.ask(inventory, stock_guests.STATE))
    assert not changed, changed
