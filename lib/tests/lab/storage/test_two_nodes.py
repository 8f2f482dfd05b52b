"""A client on a node of its own, for real: its bytes cross the link, which is shaped; a link that is cut is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Deployment, DeploySpec, Site, Target
from infrabench.studies.storage import STUDY
from infrabench_platforms.stores import link
from tests.support.lab_trials import run_trial, values

pytestmark = [pytest.mark.timeout(1800)]

MIB = 2**20
SPEC = DeploySpec("test", STUDY.limits, "", disk_bytes=512 * MIB, two_nodes=True)
REQUESTS = {"area_bytes": 128 * MIB, "seconds": 2.0, "ramp_s": 0.0, "mode": "strict"}
WIRE_B_PER_S = 125e6
# As a cable that is pulled out: what is sent to the store reaches nobody. The lab's own way to the node stays.
CUT = ("ip", "neigh", "replace", "{}", "lladdr", "02:49:42:00:ff:ff", "dev", "eth0", "nud", "permanent")
MEND = ("ip", "neigh", "del", "{}", "dev", "eth0")


@pytest.fixture(scope="module", params=["zfs", "ceph", "raw"])
def deployment(request: pytest.FixtureRequest, lab_site: Site) -> Iterator[Deployment]:
    with registry.system(request.param).deploy(lab_site, SPEC) as made:
        yield made


def measure(site: Site, made: Deployment, workload: str, **params: Any) -> dict[str, float]:
    return values(run_trial(site, made, workload, **params).record)


@pytest.mark.parametrize("pattern", ["randread", "randwrite"])
def test_single_requests_in_both_places(deployment: Deployment, lab_site: Site, pattern: str) -> None:
    for placement in ("same-node", "two-nodes", "same-node"):
        found = measure(lab_site, deployment, "fio-4k", placement=placement, pattern=pattern, **REQUESTS)
        assert found["iops"] > 50
        if placement == "two-nodes":
            assert found["iops"] * 4096 < WIRE_B_PER_S


def test_files_and_a_database_on_another_node(deployment: Deployment, lab_site: Site) -> None:
    copied = measure(lab_site, deployment, "file-copy", placement="two-nodes", files=4, total_bytes=256 * MIB)
    assert copied["read_B_per_s"] < WIRE_B_PER_S
    assert copied["write_B_per_s"] < WIRE_B_PER_S
    done = measure(lab_site, deployment, "oltp", placement="two-nodes", rows=10_000, seconds=3)
    assert done["transactions_per_s"] > 1


def test_its_facts_say_where_the_client_is_and_that_the_link_is_shaped(deployment: Deployment) -> None:
    assert deployment.facts["client"] == {
        "two-nodes": "a node of its own", "link": f"{link.RATE} each way (a token bucket on either end)",
    }  # fmt: skip
    for target in deployment.targets.values():
        shown = target.check(("tc", "qdisc", "show", "dev", target.devices["uplink"]), timeout_s=20).decode()
        assert "qdisc tbf" in shown
        assert "rate 1Gbit" in shown


@pytest.mark.parametrize(("workload", "params"), [("fio-4k", REQUESTS), ("file-copy", {"total_bytes": 2000 * MIB})])
def test_a_link_that_is_cut_fails_the_trial_and_not_the_next(
    deployment: Deployment, lab_site: Site, workload: str, params: Mapping[str, Any]
) -> None:
    server, client = deployment.targets["server"], deployment.targets["client"]
    cut = threading.Event()

    def cut_once_it_runs() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not cut.wait(0.2):
            if client.host.run(("sh", "-c", "grep -qx fio /proc/[0-9]*/comm"), timeout_s=10).ok:
                cut.wait(1.0)
                client.host.run([word.format(server.address) for word in CUT], timeout_s=10)
                return

    thread = threading.Thread(target=cut_once_it_runs)
    thread.start()
    begun = time.monotonic()
    long = {**params, "seconds": 60.0} if workload == "fio-4k" else params
    try:
        record = run_trial(lab_site, deployment, workload, placement="two-nodes", **long).record
    finally:
        cut.set()
        thread.join()
        client.host.run([word.format(server.address) for word in MEND], timeout_s=10)
    assert record.state == "failed"
    assert "the network between client and store is gone" in record.reason
    assert not record.measurements
    assert time.monotonic() - begun < 150
    measure(lab_site, deployment, "fio-4k", placement="two-nodes", **REQUESTS)
    measure(lab_site, deployment, "fio-4k", placement="same-node", **REQUESTS)


def test_bytes_that_took_another_way_are_no_result(deployment: Deployment, lab_site: Site) -> None:
    """The client's targets are those of the store's own node: everything works, and nothing crosses."""
    server = deployment.targets["server"]
    life = {**deployment.targets["client"].lifecycle, "store": server.lifecycle["store-listens"], "watch": ("env",)}
    life["uri"] = server.lifecycle["uri"] if deployment.system == "ceph" else life["uri"]
    here = Target("client", server.host, lifecycle=life, devices=server.devices)
    near = Deployment(deployment.system, {"server": server, "client": here}, deployment.facts)
    record = run_trial(lab_site, near, "fio-4k", placement="two-nodes", **REQUESTS).record
    assert record.state == "invalid", record.reason
    assert "two nodes" in record.reason
