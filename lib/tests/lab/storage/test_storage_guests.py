"""The cross-check for real: OpenZFS's module and krbd in emulated guests of the lab, and single requests in both.

Minutes, and a kernel module compiled before where that was not done yet: a part of the long form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Deployment, DeploySpec, Site, Target
from infrabench.studies.storage import STUDY
from infrabench_platforms.lab import images
from infrabench_platforms.stores.node import krbd
from tests.support.lab_trials import run_trial, values
from tests.support.storm import in_long_form

pytestmark = [pytest.mark.timeout(3600), in_long_form]

MIB = 2**20
SPEC = DeploySpec("test", STUDY.limits, "", disk_bytes=256 * MIB)
COURSE = Path(__file__).with_name("crosscheck_course.py").read_text(encoding="utf-8")
REQUESTS = {"path": "kernel", "area_bytes": 64 * MIB, "seconds": 4.0, "ramp_s": 1.0}


@pytest.fixture(scope="module", params=["zfs-vm", "ceph-vm"])
def deployment(request: pytest.FixtureRequest, lab_site: Site) -> Iterator[Deployment]:
    with registry.system(request.param).deploy(lab_site, SPEC) as made:
        yield made


def course(target: Target, *words: str) -> dict[str, Any]:
    argv = (*target.lifecycle["inside"], "python3", "-", *words)
    result = target.host.run(argv, timeout_s=600, stdin=COURSE.encode())
    assert result.ok, result.stderr.decode("utf-8", "replace")[-2000:]
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_it_says_that_it_is_emulated_and_which_engine_ran(deployment):
    assert deployment.facts["emulated"] is True
    assert deployment.facts["guest"]["accelerator"].startswith("tcg")
    engine = {"zfs-vm": "the kernel's module", "ceph-vm": "ceph"}[deployment.system]
    assert engine in deployment.facts["engine"]
    assert images.cached("vm")


@pytest.mark.parametrize("mode", ["default", "strict"])
def test_single_requests_inside_the_guest(deployment, lab_site, mode):
    finished = run_trial(lab_site, deployment, "fio-4k", **REQUESTS, mode=mode, pattern="randwrite")
    assert values(finished.record)["iops"] > 50


def test_paths_that_a_guest_has_not_are_left_out(deployment):
    lifecycle = deployment.targets["server"].lifecycle
    assert not lifecycle["uri"]
    assert not lifecycle["mount"]


def test_it_is_whole_after_it_was_frozen(deployment):
    deployment.pause()
    deployment.resume()
    target = deployment.targets["server"]
    state = target.check((*target.lifecycle["store"], "state"), timeout_s=60)
    assert json.loads(state)["clean"] is True


def test_the_kernels_engine_keeps_what_it_promises(deployment):
    if deployment.system != "zfs-vm":
        pytest.skip("not run: this guest uses Ceph")
    told = course(deployment.targets["server"], "life", "")
    assert told["intact"] == [True, True, True]
    assert told["degraded"] is False
    assert told["rebuilt"]["clean"] is True
    assert told["rebuilt"]["copied_B"] >= 40 * MIB
    assert told["light"]["supported"] is False
    assert (told["whole"]["errors"], told["whole"]["unrecoverable"]) == (0, 0)
    assert told["one"]["hit"] == 2
    assert (told["one"]["scrub"]["repaired"], told["one"]["scrub"]["unrecoverable"]) == (2, 0)
    assert (told["again"]["errors"], told["again"]["unrecoverable"]) == (0, 0)
    assert told["both"]["hit"] == 4
    assert (told["both"]["scrub"]["repaired"], told["both"]["scrub"]["unrecoverable"]) == (0, 2)
    assert told["readable"] is False
    assert told["left"] == []
    assert told["parameters"] is True
    assert told["usage"]["storage"]
    assert "module" in told["facts"]["engine"]


def test_a_kernel_with_rbd_has_the_image_as_a_device(deployment):
    if deployment.system != "ceph-vm":
        pytest.skip("not run: this guest uses ZFS")
    target = deployment.targets["server"]
    home = Path(target.lifecycle["inside"][-1]).parent
    inside = target.lifecycle["inside"]
    source = Path(krbd.__file__).parent
    for name in ("krbd.py", "daemons.py", "ceph_cluster.py", "config.py", "__init__.py"):
        text = (source / name).read_bytes()
        argv = (*inside, "sh", "-c", 'mkdir -p "${1%/*}" && cat >"$1"', "sh", f"/opt/infrabench/store/node/{name}")
        assert target.host.run(argv, timeout_s=60, stdin=text).ok
    dump = target.check(("ceph", "-c", str(home / "ceph.conf"), "osd", "dump", "-f", "json"), timeout_s=60)
    osds = [each["public_addrs"]["addrvec"] for each in json.loads(dump)["osds"]]
    ports = [addr["addr"].rpartition(":")[2] for addrs in osds for addr in addrs if addr["type"] == "v1"]
    monitor = str(krbd.PORT + 1)
    for port in (monitor, *ports):  # the guest has no network: its kernel reaches the cluster through our line
        way = ("ssh", "-F", f"{home}/guest/ssh.conf", "-O", "forward", "-R", f"{port}:127.0.0.1:{port}", "guest")
        target.check(way, timeout_s=60)
    key = krbd.secret(target.host.get(str(home / "keyring")).decode())
    (device,) = target.lifecycle["device"]
    told = course(target, "mapped", f"127.0.0.1:{monitor}", key, "rbd", "volume", device)
    assert told == {"size": 128 * 2**30, "same": True, "left": []}
