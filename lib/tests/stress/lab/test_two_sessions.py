"""Two sessions at once, by two processes, on each pair of sites: the second is told who measures, both end whole."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from infrabench.ledger.records import read_trial, recorded, verify
from infrabench.machines.hosts import marks
from infrabench.machines.hosts.remote_shell import probe
from infrabench_platforms import lab
from infrabench_platforms.lab import node_groups
from tests.support.started_commands import check_whole, end_command, start_command, wait_for_trials

SITES = ("local", "lab", "inventory")
REQUEST = ("run", "containers", "--profile", "smoke", "--systems", "native", "--workloads", "null")
RUNS_THAT_OUTLAST = "5000"  # the first is stopped when all others have been told


@pytest.fixture(scope="module")
def places(nothing_left_of_module: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What `--site` is for each site: this machine, the lab's hosts, and the same hosts as somebody's inventory."""
    lab.up()
    server, client = lab.NODES
    inventory = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    inventory.write_text(
        node_groups.INVENTORY.format(
            name="ours", server=server.address, client=client.address, ssh=lab.lab_dir() / "ssh"
        )
    )
    return {"local": "local", "lab": "lab", "inventory": str(inventory)}


def started(folder: Path, site: str, runs: str) -> subprocess.Popen[str]:
    """Start a session with the locks that sessions of other users and controllers have as well."""
    environment = {key: value for key, value in os.environ.items() if key != marks.LOCKS}
    words = (*REQUEST, "--runs", runs, "--site", site, "--session", str(folder))
    return start_command(*words, environment={**environment, "INFRABENCH_HOME": str(folder.parent)})


@pytest.mark.parametrize("first_site", SITES)
def test_the_second_is_told_and_both_end_whole(places: dict[str, str], tmp_path: Path, first_site: str) -> None:
    first = tmp_path / "first"
    measuring = started(first, places[first_site], RUNS_THAT_OUTLAST)
    wait_for_trials(first, 1, measuring)
    # All at once: none of them gets a host, so they do not meet either.
    others = {site: started(tmp_path / site, places[site], "2") for site in SITES}
    for site, child in others.items():
        status, said = end_command(child)
        assert status not in (0, -signal.SIGKILL), (site, said)
        assert "in use by" in said, (site, said)
        assert "Traceback" not in said, (site, said)
        if (first_site, site) != ("lab", "lab"):  # a lab in use is refused before its hosts are asked
            assert f"in use by session {first.name} of user" in said, (site, said)
        assert not (tmp_path / site / "trials").exists() or not recorded(tmp_path / site)
    assert measuring.poll() is None, "it ended before the others were told: give it more runs"
    measuring.send_signal(signal.SIGINT)
    assert end_command(measuring)[0] == 130
    assert verify(first) == []
    assert {read_trial(first, name).state for name in recorded(first)} <= {"ok", "invalid"}
    # The one that was told runs when it is tried again; over the three first sites, each has its turn.
    second = tmp_path / first_site
    status, said = end_command(started(second, places[first_site], "2"))
    assert status == 0, said
    check_whole(second)


def test_a_user_without_rights_is_told_too(tmp_path: Path) -> None:
    """The lock is one that every user can take: neither rights nor a folder of his own get him past it."""
    first = tmp_path / "first"
    measuring = started(first, "local", RUNS_THAT_OUTLAST)
    try:
        wait_for_trials(first, 1, measuring)
        script = ("/usr/bin/python3", *probe("machines/hosts/probes/claim.py")[1:], "", "0", '{"claim": "other"}')
        other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *script)
        told = subprocess.run(other, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=30)
        assert '"state": "busy"' in told.stdout
        assert '"session": "first"' in told.stdout
    finally:
        measuring.send_signal(signal.SIGINT)
        assert end_command(measuring)[0] == 130
