"""Stock machines as somebody's hosts: from bare to a report, and a store, and as they were again.

They are emulated, and so ten to twenty times slower than others: half an hour, in the long form alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from infrabench import cli
from infrabench.ledger import records
from infrabench.machines.sites.inventory import Inventory, open_hosts
from infrabench.machines.sites.prepare.plan import APART
from infrabench.machines.sites.prepare.requirements import collect_needs
from infrabench.machines.sites.site import read_file
from tests.support import stock_guests
from tests.support.places import ROOT
from tests.support.storm import in_long_form
from tests.support.tiers import without_lab

LACKING = without_lab() or stock_guests.without_emulator()
pytestmark = [
    pytest.mark.timeout(7200),
    in_long_form,
    pytest.mark.skipif(LACKING is not None, reason=f"not run: {LACKING}"),
]

SYSTEMS = ("native", "docker", "lxc", "incus")
WORKLOADS = ("sysbench-cpu", "web", "startup")
BLOCKS = 2
# Settings that are counters or those of connection tracking, which the kernel loads and keeps; groups that come and go.
COUNTERS = (
    r"fs\.(dentry|file-nr|inode|aio-nr|quota)|kernel\.(random|ns_last_pid|pty|sched)|net\.ipv4\.tcp_fastopen_key"
    r"|net\.netfilter\.nf_|net\.nf_conntrack_max"
)
PASSING = "user|session|systemd-|run-|apt|man-db|logrotate|dpkg"
# All that a session might leave on a host: links, routes, filters, settings, mounts, groups, users, units, instances
# and images.
STATE = f"""
exec 2>/dev/null
ip -br link | awk '{{print "link", $1}}'; ip -o -4 address | awk '{{print "address", $2, $4}}'
ip route show table all | sed 's/ expires .*//; s/^/route /'; ip rule | sed 's/^/rule /'
nft --stateless list ruleset | sed 's/^/filter /'
sysctl -a | grep -vE '^({COUNTERS})' | sed 's/^/setting /'
awk '{{print "mount", $5, $9}}' /proc/self/mountinfo | grep -v '^mount /run/user' | sort
find /sys/fs/cgroup -type d | grep -vE '/({PASSING})' | sed 's/^/group /' | sort
getent passwd; getent group
systemctl list-unit-files --plain --no-legend | awk '{{print "unit", $1, $2}}'
systemctl list-units --state=running --plain --no-legend | awk '{{print "runs", $1}}' | grep -vE '^runs (session-|user)'
docker ps -aq | sed 's/^/docker /'; docker network ls -q | sed 's/^/docker network /'; docker volume ls -q
docker images -aq | sed 's/^/docker image /'; incus image list -f csv | sed 's/^/incus image /'
lxc-ls -1 | sed 's/^/lxc /'; incus list -f csv; incus profile list -f csv; incus network list -f csv
incus storage list -f csv; true
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project's home of its own, with the notebooks and the recorded sessions that they show."""
    home = tmp_path_factory.mktemp("project")
    for name in ("notebooks", "data/recorded"):
        shutil.copytree(ROOT / name, home / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFRABENCH_HOME", str(home))
        yield home


@pytest.fixture(scope="module")
def inventory(project: Path) -> Iterator[Path]:
    """The inventory of two booted guests: a server, which is reached by sudo, and a client."""

    def describe(key: Path, known_hosts: Path) -> dict[str, Any]:
        hosts = {
            "server": stock_guests.describe_host(1, key, stock_guests.USER),
            "client": stock_guests.describe_host(2, key),
        }
        return {"name": "stock", "known_hosts": str(known_hosts), "hosts": hosts}

    unbooted = Inventory.model_validate(describe(Path("key"), Path("known_hosts")))
    names: set[str] = set()
    for study, systems, workloads in (("containers", SYSTEMS, None), ("storage", ("ceph",), ("fio-4k",))):
        needs = collect_needs(unbooted, [study], systems, workloads).needs
        names |= {name for each in needs.values() for name in each.packages()}
    folder = stock_guests.make_disk(sorted(names | {apart for name, apart in APART.items() if name in names}))
    with stock_guests.boot(folder, 2) as known_hosts:
        path = project / "hosts.yml"
        path.write_text(yaml.safe_dump(describe(folder / "login", known_hosts)))
        yield path


def _hosts_say(inventory: Path, script: str) -> dict[str, set[str]]:
    found = read_file(inventory)
    assert isinstance(found, Inventory)
    with open_hosts(found, found.machines()) as opened:
        answers = {name: host.run(("sh", "-s"), timeout_s=120, stdin=script.encode()) for name, host in opened.items()}
    assert all(each.status == 0 for each in answers.values()), answers
    return {name: {*each.stdout.decode().splitlines()} for name, each in answers.items()}


def test_bare_hosts_are_prepared_measured_and_left_as_they_were(inventory: Path, project: Path, capsys: Any) -> None:
    asked = ("hosts", "prepare", str(inventory), "--study", "containers", "--systems", ",".join(SYSTEMS))
    assert all("incus" not in " ".join(lines) for lines in _hosts_say(inventory, "dpkg-query -W").values())
    assert cli.main([*asked, "--dry-run"]) == 0
    assert " install --yes " in capsys.readouterr().out
    assert cli.main([*asked, "--yes"]) == 0, capsys.readouterr().out
    capsys.readouterr()
    assert cli.main([*asked, "--yes"]) == 0
    assert "nothing was changed" in capsys.readouterr().out

    _hosts_say(inventory, STATE)  # asked for the first time, Incus starts its daemon, which stays
    before = _hosts_say(inventory, STATE)
    given = {"mode": "run", "profile": "smoke", "site": str(inventory), "session": "stock", "runs": BLOCKS}
    lists = {"systems": SYSTEMS, "workloads": WORKLOADS}
    words = [word for name, value in given.items() for word in ("-p", name, str(value))]
    words += [word for name, values in lists.items() for word in ("-p", name, ",".join(values))]
    out = project / "out/containers.ipynb"
    assert cli.main(["notebook", "run", str(project / "notebooks/containers.ipynb"), str(out), *words]) == 0
    assert cli.main(["report", str(out), "--out", str(project / "out")]) == 0
    assert list((project / "out/report").glob("*.html"))
    folder = project / "data/runs/containers/stock"
    every = records.read_trials(folder)
    assert records.verify(folder) == []
    cells = {(each.trial.system, each.trial.workload) for each in every if each.state == "ok"}
    assert cells == {*product(SYSTEMS, WORKLOADS)}
    assert _hosts_say(inventory, STATE) == before


def test_a_store_is_made_on_a_stock_machine_and_leaves_it_as_it_was(inventory: Path, project: Path) -> None:
    asked = ("hosts", "prepare", str(inventory), "--study", "storage", "--systems", "ceph", "--workloads", "fio-4k")
    assert cli.main([*asked, "--yes"]) == 0
    before = _hosts_say(inventory, STATE)
    given = ("--profile", "smoke", "--runs", "1", "--deployments", "1", "--systems", "ceph", "--workloads", "fio-4k")
    assert cli.main(["run", "storage", *given, "--site", str(inventory), "--session", "store"]) == 0
    states = [each.state for each in records.read_trials(project / "data/runs/storage/store")]
    assert states
    assert set(states) == {"ok"}
    assert _hosts_say(inventory, STATE) == before
