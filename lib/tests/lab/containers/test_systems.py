"""The systems of the containers study on the real lab: alike in limits and path, pausable, and gone afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from infrabench import registry
from infrabench.core import Deployment, DeploySpec, Host, Limits, Site
from infrabench_platforms import guest_bridge

NAMES = registry.study("containers").systems
# All that any of the engines knows of images, and what is unpacked.
_IMAGES = """
docker image ls --quiet --no-trunc | sort; podman image ls --quiet --no-trunc | sort
lxc image list --format csv --columns F | sort; incus image list --format csv --columns F | sort
ls -d /var/lib/lxc/* /var/tmp/infrabench-*; :
"""
SPEC = DeploySpec("test", Limits(cpus="0", memory_bytes=512 * 2**20, nofile=5000), "198.18.64.10")


@pytest.fixture(scope="module", params=NAMES)
def deployment(request: pytest.FixtureRequest, lab_site: Site) -> Iterator[Deployment]:
    system = registry.system(request.param)
    assert system.supported(lab_site) is None
    with system.deploy(lab_site, SPEC) as made:
        yield made


def test_limits_are_those_set_and_seen_from_inside(deployment: Deployment) -> None:
    target = deployment.targets["server"]
    assert deployment.facts["limits"] == {"cpus": "0", "memory_bytes": 512 * 2**20, "nofile": 5000}
    assert target.check(("nproc",), timeout_s=10) == b"1\n"
    assert target.check(("sh", "-c", "ulimit -n"), timeout_s=10) == b"5000\n"


def test_memory_limit_bites(deployment: Deployment) -> None:
    eater = ("fio", "--name=x", "--ioengine=mmap", "--filename=/dev/shm/ib-eat", "--size=700m", "--rw=write", "--bs=1m")
    result = deployment.targets["server"].run(eater, timeout_s=60)
    deployment.targets["server"].run(("rm", "-f", "/dev/shm/ib-eat"), timeout_s=10)
    assert not result.ok


def test_the_client_reaches_the_target_over_the_same_path(deployment: Deployment, lab_site: Site) -> None:
    target, client = deployment.targets["server"], lab_site.hosts["client"]
    inside = target.check(("ip", "-br", "-4", "addr", "show", "dev", "eth0"), timeout_s=10).decode()
    assert f"{target.address}/24" in inside
    trace = client.run(("ip", "route", "get", target.address), timeout_s=5).stdout.decode()
    assert "via 198.18.0.11" in trace
    refused = client.run(("curl", "-sS", "-m", "3", f"http://{target.address}:9/"), timeout_s=10)
    assert b"onnect" in refused.stderr
    assert refused.status == 7  # refused at once: somebody is there


def test_nothing_leads_out_of_a_target(deployment: Deployment) -> None:
    away = deployment.targets["server"].run(("curl", "-sS", "-m", "2", "http://203.0.113.1/"), timeout_s=10)
    assert away.status in (7, 28)


def test_pause_stops_it_and_resume_lets_it_go_on(deployment: Deployment) -> None:
    target = deployment.targets["server"]
    if deployment.pause is None:
        assert deployment.system == "native"
        return
    script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo $i >/run/ib-count; sleep 0.01; done >/dev/null 2>&1 &"
    target.check(("sh", "-c", script), timeout_s=10)
    count = lambda: int(target.check(("cat", "/run/ib-count"), timeout_s=10) or 0)  # noqa: E731
    time.sleep(0.3)
    deployment.pause()
    time.sleep(1.0)
    deployment.resume()
    first = count()
    assert first < 80  # without the pause it would have come past 100
    time.sleep(0.3)
    assert count() > first


def test_a_throw_away_instance_comes_and_goes(deployment: Deployment) -> None:
    target = deployment.targets["server"]
    life = target.lifecycle
    for _ in range(2):
        made = target.host.run(life["create"], timeout_s=60)
        assert made.ok, made.stderr
        assert _until_ok(target.host, (*life["exec"], "true"))
        gone = target.host.run(life["remove"], timeout_s=60)
        assert gone.ok, gone.stderr
    if deployment.system != "native":
        assert not target.host.run((*life["exec"], "true"), timeout_s=10).ok


def test_an_image_is_imported_and_an_instance_made_of_it_and_nothing_of_either_stays(deployment: Deployment) -> None:
    host, life = deployment.targets["server"].host, deployment.targets["server"].lifecycle
    before = host.run(("sh", "-c", _IMAGES), timeout_s=30).stdout
    for _ in range(2):
        for name in ("remove-image", "copy-image", "import-image", "create-imported"):
            step = host.run(life[name], timeout_s=180)
            assert step.ok, (name, step.stderr)
        assert _until_ok(host, (*life["exec"], "true"))
        if deployment.system != "native":
            assert host.run((*life["exec"], "test", "-e", "/infrabench-spare-image.tar.mark"), timeout_s=10).ok
        assert host.run(("sh", "-c", _IMAGES), timeout_s=30).stdout != before
        for name in ("remove", "remove-image", "remove-image"):
            step = host.run(life[name], timeout_s=60)
            assert step.ok, (name, step.stderr)
        assert host.run(("sh", "-c", _IMAGES), timeout_s=30).stdout == before


def test_every_target_has_the_same_listening_queue(deployment: Deployment) -> None:
    target = deployment.targets["server"]
    wanted = guest_bridge.listen_queue(target.host)
    if deployment.system in ("lxd", "incus") and wanted != guest_bridge.SOMAXCONN:
        return  # this kernel does not show it inside
    assert target.check(("cat", "/proc/sys/net/core/somaxconn"), timeout_s=10) == b"%d\n" % wanted


def _until_ok(host: Host, argv: tuple[str, ...]) -> bool:
    return any(host.run(argv, timeout_s=10).ok for _ in range(200))
