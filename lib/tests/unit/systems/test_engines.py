"""Container engines: what limits are compared, and what their throw-away instances are made of and removed by."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import DeploySpec, Limits, ProvisionError, Target
from infrabench_platforms import containers, guest_bridge
from infrabench_platforms.systems import docker, lxc, lxd, native, podman
from tests.support.checks import check_each
from tests.support.cluster_fakes import Scripted, answers
from tests.support.fakes import fake_site

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
    life = lxd._lifecycle(lxd.FAMILY["lxd"], lab, SPEC, "guest", "0-1", "/guest.tar")
    script, *words = life["create"][2:]
    assert (script.count('"$0"'), words[:3]) == (1, ["lxc", "guest", "infrabench-spare-lxd"])
    spare, own = json.loads(words[3]), lxd._describe_instance(lab, SPEC, SPEC.address, "0-1")
    for each, address in ((spare, guest_bridge.spare_address(lab)), (own, SPEC.address)):
        assert f"lxc.net.0.ipv4.address = {address}/24" in each["config"].pop("raw.lxc")
        assert each["devices"]["eth0"].pop("hwaddr") == guest_bridge.derive_mac(address)
    assert spare == own


LXD = lxd.FAMILY["lxd"]
OURS, THEIRS = ({"name": name, "config": label} for name, label in (("infrabench-lxd", {lxd.LABEL: "s"}), ("web", {})))


def test_of_lxd_what_carries_our_label_is_removed_and_what_is_frozen_thawed_first() -> None:
    for status, calls in (("Running", []), ("Frozen", [("lxc", "start", "infrabench-lxd")])):
        host = Scripted(answers({"list": [{**each, "status": status} for each in (THEIRS, OURS)]}))
        lxd._remove(LXD, host)
        assert host.asked[1:] == [*calls, ("lxc", "delete", "--force", "infrabench-lxd")]


def test_a_daemon_that_refuses_a_removal_is_asked_again_and_what_stays_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes]:
        if "list" in argv:
            return 0, json.dumps([{**OURS, "status": "Running"}]).encode()
        return int(sum("delete" in each for each in host.asked) < 3), b"is busy"

    host = Scripted(refuse)
    lxd._remove(LXD, host)
    assert sum("delete" in each for each in host.asked) == 3
    host = Scripted(refuse)
    monkeypatch.setattr(lxd, "REMOVE_S", 0.0)
    with pytest.raises(ProvisionError, match=r"lxc delete --force infrabench-lxd on node exited with 1 .*: is busy"):
        lxd._remove(LXD, host)


def test_a_daemon_that_does_not_answer_is_waited_for_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Scripted(lambda argv, stdin: (int(len(host.asked) < 2), b'{"environment": {}}'))
    assert LXD.wait_for_answer(host) == {"environment": {}}
    monkeypatch.setattr(lxd, "READY_S", 0.0)
    with pytest.raises(ProvisionError, match=r"lxc query /1\.0 on node exited with 1 .*: connection refused"):
        LXD.wait_for_answer(Scripted(lambda argv, stdin: (1, b"connection refused")))


def test_what_is_no_json_is_told_with_its_command() -> None:
    host = Scripted(lambda argv, stdin: (0, b"| NAME | STATE |"))
    with pytest.raises(ProvisionError, match=r"lxc list --format json on node printed no JSON .*NAME"):
        containers.read_json(host, ("lxc", "list", "--format", "json"))


def test_an_instance_of_an_imported_image_is_as_one_of_the_image_that_is_kept() -> None:
    lab = site(Scripted(lambda argv, stdin: (0, b"16384")))
    every = {
        "docker": (docker._lifecycle(lab, SPEC, "infrabench/guest:1", "/guest.tar"), docker.SPARE_IMAGE),
        "lxd": (lxd._lifecycle(LXD, lab, SPEC, "infrabench-guest-1", "0-1", "/guest.tar"), lxd.SPARE_IMAGE),
    }
    for life, image in every.values():
        assert life["copy-image"][-2:] == ("/guest.tar", containers.SPARE_TAR)
        assert {containers.SPARE_TAR, image} <= {*life["import-image"]}
        assert [pair[1] for pair in zip(life["create"], life["create-imported"], strict=True) if len({*pair}) > 1] == [
            image
        ]
        assert image in life["remove-image"]


def test_the_copy_of_an_image_has_one_file_more_and_goes_with_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("guest\n")
    tar, copy = tmp_path / "guest.tar", tmp_path / "copy.tar"
    run = partial(subprocess.run, check=True, timeout=30, capture_output=True, text=True)
    run(("tar", "-C", tmp_path, "-cf", tar, "file"))
    for _ in range(2):  # that of a killed trial is written over
        run(("sh", "-c", containers._COPY_IMAGE, "sh", tar, copy))
        assert run(("tar", "-tf", copy)).stdout.splitlines() == ["file", "copy.tar.mark"]
    run(containers.unpack_command(str(copy), str(tmp_path / "image/rootfs")))
    assert (tmp_path / "image/rootfs/file").read_text() == "guest\n"
    assert (tmp_path / "image").stat().st_mode & 0o777 == 0o700
    run(("sh", "-c", containers._REMOVE_IMAGE, "sh", copy, "rm", "-r", tmp_path / "image"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "guest.tar"]


def test_a_throw_away_container_of_docker_is_as_the_one_measured() -> None:
    lab = site(Scripted(lambda argv, stdin: (0, b"4096")))
    own = docker._create(lab, SPEC, docker.NAME, SPEC.address, "guest:1", "--hostname", docker.NAME)
    spare, address = docker._lifecycle(lab, SPEC, "guest:1", "/guest.tar")["create"], guest_bridge.spare_address(lab)
    mac = guest_bridge.derive_mac(address)
    differ = [pair for pair in zip(own, spare, strict=True) if len({*pair}) > 1]
    assert differ == [
        (docker.NAME, docker.SPARE), (SPEC.address, address), ("--hostname", "--mac-address"), (docker.NAME, mac),
    ]  # fmt: skip


@pytest.mark.parametrize(("version", "is_said"), [("20.10.24+dfsg1", False), ("27.5.1", False), ("28.0.4", True)])
def test_a_docker_that_drops_what_others_route_is_told_not_to(version: str, is_said: bool) -> None:
    host = Scripted()
    docker._make_network(host, site(host), SPEC, version)
    (create,) = host.asked
    assert ("--opt=com.docker.network.bridge.gateway_mode_ipv4=nat-unprotected" in create) is is_said


def test_a_container_of_docker_that_ended_at_once_is_told_with_what_it_said() -> None:
    told = {"inspect": {"State": {"Status": "exited", "Pid": 0}}, "logs": "exec sleep: not found"}
    with pytest.raises(ProvisionError, match=r"docker on node: the container is exited: .*exec sleep: not found"):
        docker._start(Scripted(answers(told)), ("docker", "run"))


@pytest.mark.parametrize(
    ("fails", "said"),
    [("", None), ("ps", "no daemon"), ("rm", "infrabench-docker is still there"), ("network ls", "no daemon"),
     ("network rm", "no daemon"), ("unpause", None)],
)  # fmt: skip
def test_what_docker_does_not_remove_is_an_error(fails: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "docker").write_text(f"""#!/bin/sh
case "$*" in "{fails or "-"}"*) echo no daemon >&2; exit 1 ;; esac
case "$*" in *--format*) echo infrabench-docker is still there ;; *--quiet*) echo 0f ;; *) echo "$*" >>log ;; esac
""")
    (tmp_path / "docker").chmod(0o755)
    argv = ("/bin/sh", "-c", docker._REMOVE, "sh", containers.LABEL, docker.SPARE_IMAGE)
    env = {"PATH": str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode == 0, (said or "") in done.stderr) == (said is None, True)
    if not fails:
        image = f"image rm --force {docker.SPARE_IMAGE}"
        calls = ["unpause 0f", "rm --force --volumes 0f", image, "network rm 0f"]
        assert (tmp_path / "log").read_text().splitlines() == calls


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
    ("module", "asked", "own", "other"),
    [
        (docker, "context inspect", "unix:///var/run/docker.sock\n", "tcp://198.51.100.7:2376\n"),
        (LXD, "remote get-default", "local\n", "far\n"),
    ],
)
def test_an_engine_whose_client_asks_another_machine_is_not_used_and_nothing_there_removed(
    module: Any, asked: str, own: str, other: str
) -> None:
    here, elsewhere = (
        Scripted(answers({asked: answer, "list": [], "query": {}, "id -u": "0"})) for answer in (own, other)
    )
    image = {"hash": "0", "tar": "x"}
    assert module.supported(fake_site(here, guest_image=image)) is None
    assert "Try: " in module.supported(fake_site(elsewhere, guest_image=image))
    elsewhere.asked.clear()
    module.remove(elsewhere)
    assert not [argv for argv in elsewhere.asked if {"rm", "delete", "list", "ls"} & {*argv} or "rm" in argv[-1]]


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


def test_docker_is_left_without_what_was_imported() -> None:
    told = {"image ls": "infrabench/guest:1\ninfrabench/guest:2\n", "guest:1": (1, "conflict: somebody's is of it")}
    host = Scripted(answers(told))
    docker._remove_images(host)
    listing, *removals = host.asked
    assert listing[-1] == docker.IMAGE
    assert removals == [("docker", "image", "rm", f"infrabench/guest:{each}") for each in (1, 2)]


def pool(**more: object) -> dict[str, object]:
    return {"name": lxd.POOL, "description": lxd.OURS, "used_by": [], **more}


@pytest.mark.parametrize(
    ("pools", "removed"),
    [
        ([pool()], [lxd.POOL]), ([pool(used_by=["/1.0/instances/web"])], []), ([pool(description="")], []),
        ([pool(name="mine")], []), ([], []), (None, []),
    ],
)  # fmt: skip
def test_lxd_is_left_without_what_was_imported(pools: list[object] | None, removed: list[str]) -> None:
    names = {"0a": ["infrabench-guest-1"], "0b": ["infrabench-of-mine"], "0c": []}
    images = [{"fingerprint": each, "aliases": [{"name": name} for name in some]} for each, some in names.items()]
    host = Scripted(answers({"image list": images, "storage list": pools}))
    lxd._remove_images(lxd.FAMILY["lxd"], host)
    assert [argv[-1] for argv in host.asked if "delete" in argv] == ["0a", *removed]


def test_what_lxd_does_not_let_go_is_told(caplog: pytest.LogCaptureFixture) -> None:
    host = Scripted(answers({"image list": [], "storage list": [pool()], "storage delete": (1, "busy")}))
    lxd._remove_images(lxd.FAMILY["lxd"], host)
    assert "LXD keeps what was imported: lxc storage delete infrabench on node" in caplog.text
    assert "busy" in caplog.text
