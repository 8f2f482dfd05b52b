"""Container engines: what limits are compared, and what their throw-away instances are made of and removed by."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import DeploySpec, Limits, ProvisionError, Target
from infrabench_platforms import containers, guest_bridge
from infrabench_platforms.systems import lxc, lxd, native, podman
from tests.support.checks import check_each
from tests.support.cluster_fakes import Scripted

SPEC = DeploySpec("s", Limits(), "198.18.64.13")


def answering(cpus_of_host: str, cpus_inside: str) -> Scripted:
    """Return a host that knows its processors, and a target's limits."""
    inside = {"cpus": cpus_inside, "memory_bytes": str(SPEC.limits.memory_bytes), "nofile": str(SPEC.limits.nofile)}
    return Scripted(
        lambda argv, stdin: (0, json.dumps(inside).encode() if containers._LIMITS in argv else cpus_of_host.encode())
    )


def site(host: Scripted) -> Any:
    return SimpleNamespace(kind="lab", facts={}, hosts={"server": host})


def test_a_target_has_every_processor_of_its_host_unless_some_are_named() -> None:
    def verify(host: Scripted, limits: Limits = SPEC.limits) -> object:
        return containers.verify_limits(Target("server", host, ("enter",)), limits, "lxc")["cpus"]

    assert verify(answering("0-3\n", "0-3")) == "0-3"
    assert verify(answering("0-3\n", "1"), Limits(cpus="1")) == "1"
    with pytest.raises(ProvisionError, match="cpus: asked for 0-3, found 0-1"):
        verify(answering("0-3\n", "0-1"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return LXC's folder with an unpacked image, and beside it LXC's programs, which note how they are called."""
    (tmp_path / "lxc/base/rootfs/etc").mkdir(parents=True)
    (tmp_path / "lxc/base/rootfs/etc/hostname").write_text("guest\n")
    (tmp_path / "lxc/spare.config").write_text("of the spare\n")
    for name in ("lxc-start", "lxc-stop", "lxc-info", "lxc-unfreeze"):
        status = "exit $(cat ../status)" if name == "lxc-stop" else "exit 0"
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$(basename "$0") $*" >>../log\n{status}\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "status").write_text("0")
    return tmp_path / "lxc"


def shell(home: Path, text: str, *args: str) -> list[str]:
    """Run a script beside LXC's programs, and return how they were called."""
    path = f"{home.parent}:{os.environ['PATH']}"
    subprocess.run(("sh", "-c", text, "sh", *args), cwd=home, env={"PATH": path}, check=True, timeout=30)
    log = home.parent / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_a_throw_away_instance_of_lxc_is_a_copy_as_that_of_lxd(home: Path) -> None:
    assert shell(home, lxc._SPARE, ".", "base", "spare", "spare.config") == ["lxc-start -P . -n spare -d"]
    assert (home / "spare/rootfs/etc/hostname").read_text() == "guest\n"
    assert (home / "spare/config").read_text() == "of the spare\n"
    assert f"lxc.rootfs.path = dir:{lxc.HOME}/{lxc.SPARE}/rootfs\n" in lxc._config(
        site(answering("0", "0")), SPEC, lxc.SPARE, "198.18.64.254", "0"
    )


def test_the_removal_of_one_of_lxc_asks_only_where_it_failed(home: Path) -> None:
    for status, calls in (("0", ["lxc-stop"]), ("1", ["lxc-stop", "lxc-info"])):
        (home.parent / "status").write_text(status)
        (home.parent / "log").unlink(missing_ok=True)
        (home / "spare").mkdir()
        assert [line.split()[0] for line in shell(home, lxc._REMOVE_SPARE, ".", "spare")] == calls
        assert not (home / "spare").exists()


def test_a_throw_away_instance_of_lxd_takes_one_call_and_is_as_the_one_measured() -> None:
    lab = site(Scripted(lambda argv, stdin: (0, b"16384")))
    life = lxd._lifecycle(lxd.FAMILY["lxd"], lab, SPEC, "guest", "0-1")
    script, *words = life["create"][2:]
    assert (script.count('"$0"'), words[:3]) == (1, ["lxc", "guest", "infrabench-spare-lxd"])
    spare, own = json.loads(words[3]), lxd._describe_instance(lab, SPEC, SPEC.address, "0-1")
    for each, address in ((spare, guest_bridge.spare_address(lab)), (own, SPEC.address)):
        assert f"lxc.net.0.ipv4.address = {address}/24" in each["config"].pop("raw.lxc")
        assert each["devices"]["eth0"].pop("hwaddr") == guest_bridge.derive_mac(address)
    assert spare == own


def bare(folder: Path) -> Scripted:
    """Return a host without any engine: scripts find usual programs, and nothing of what they are to remove."""
    folder.mkdir()
    for name in ("cat", "find", "grep", "ls", "rm", "rmdir", "sleep", "timeout"):
        (folder / name).symlink_to(str(shutil.which(name)))

    def answer(argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes]:
        if argv[0] != "sh":
            return 127, b"not found"
        absent = [f"{folder}/absent" if word.startswith("/") else f"absent-{word}" for word in argv[4:]]
        done = subprocess.run(("/bin/sh", *argv[1:4], *absent), env={"PATH": str(folder)}, check=False, timeout=30)
        return done.returncode, b""

    return Scripted(answer)


def test_what_an_engine_leaves_is_removed_from_a_host_without_the_engine_too(tmp_path: Path) -> None:
    engines = [name for name in registry.names("systems") if hasattr(registry.system(name), "remove")]
    assert {*engines} >= {"docker", "incus", "lxc", "lxd", "native", "podman"}
    check_each(lambda name: registry.system(name).remove(bare(tmp_path / name)), engines)


@pytest.mark.parametrize(
    ("podman_does", "is_unmounted"), [(None, False), ("exit 1", False), ("echo 3f9c", False), ("exit 0", True)]
)
def test_the_storage_of_podman_is_unmounted_where_podman_says_that_it_is_empty(
    podman_does: str | None, is_unmounted: bool, tmp_path: Path
) -> None:
    for name, text in (("umount", ">unmounted"), ("podman", podman_does)):
        if text is not None:
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
    script = ("/bin/sh", "-c", podman._REMOVE_IMAGES, "sh", podman.IMAGE)
    subprocess.run(script, cwd=tmp_path, env={"PATH": str(tmp_path)}, check=True, timeout=30)
    assert (tmp_path / "unmounted").exists() == is_unmounted


def test_native_says_what_it_stands_on_in_the_lab() -> None:
    with native.deploy(site(answering("0", "0")), SPEC) as made:
        assert "overlay" in made.facts["storage"]


@pytest.mark.parametrize("is_root", [True, False])
def test_native_leaves_no_file_that_a_workload_has_made_on_the_host(
    is_root: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "theirs.bin"

    def write_files() -> None:
        for path in (other, tmp_path / "1048576.bin", tmp_path / "64.bin.part"):
            path.touch()

    def answer(argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes]:
        if native._REMOVE_FILES in argv:
            return subprocess.run(argv, check=False, timeout=30).returncode, b""
        return answering("0", "0").answer(argv, stdin)

    def interrupt() -> None:
        with native.deploy(site(Scripted(answer)), SPEC):
            assert list(tmp_path.iterdir()) == [other]
            write_files()
            raise KeyboardInterrupt

    monkeypatch.setattr(native, "FILES", str(tmp_path))
    monkeypatch.setattr(containers, "is_root", lambda host: is_root)
    write_files()  # as of a session that was killed
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert list(tmp_path.iterdir()) == [other]
