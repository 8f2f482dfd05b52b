"""Keys that are made or written here are for their owner's eyes alone."""

from __future__ import annotations

import argparse
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from infrabench.cli import lab as labcommand
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms import lab
from infrabench_platforms.lab import network, nodes


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _open_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The most careless setting: everybody may read, and write, what is made without a thought."""
    before = os.umask(0)
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    yield
    os.umask(before)


def test_the_keys_of_the_lab_are_their_owners_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab's own start, up to where it would make its network."""

    class EnoughSeen(Exception):
        pass

    def stop() -> None:
        raise EnoughSeen

    monkeypatch.setattr(network, "up", stop)
    with pytest.raises(EnoughSeen):
        lab._start(None, None)  # type: ignore[arg-type]
    ssh = lab.lab_dir() / "ssh"
    assert mode(lab.lab_dir()) == 0o700
    assert mode(ssh) == 0o700
    assert mode(ssh / "id_ed25519") == 0o600
    assert "PRIVATE KEY" in (ssh / "id_ed25519").read_text()


def test_the_host_key_of_a_node_is_its_own_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = []

    def no_container(*argv: str | Path, **_: object) -> object:
        started.append(str(argv[0]))
        return LocalHost().run([str(each) for each in argv], timeout_s=20) if argv[0] == "ssh-keygen" else None

    monkeypatch.setattr(nodes, "sh", no_container)
    image = SimpleNamespace(hash="x", rootfs=tmp_path / "rootfs")
    public = lab.lab_dir() / "ssh/id_ed25519.pub"
    public.parent.mkdir(parents=True)
    public.write_text("ssh-ed25519 AAAA\n")
    nodes.start(nodes.SERVER, image, {})  # type: ignore[arg-type]
    assert started == ["ssh-keygen", "lxc-start"]
    etc = nodes.nodes_dir() / nodes.SERVER.container / "upper/etc/ssh"
    assert mode(etc / "ssh_host_ed25519_key") == 0o600


def test_the_kubeconfig_of_a_kept_cluster_is_its_owners_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    config = b"client-key-data: x\n"
    host = SimpleNamespace(get=lambda path: config)
    cluster = SimpleNamespace(kubectl=SimpleNamespace(host=host))

    @contextmanager
    def keeping(name: str, parts: tuple[str, ...]):
        yield None

    monkeypatch.setattr(lab, "keep_cluster", keeping)
    monkeypatch.setattr("infrabench_platforms.clusters.cni.make_cluster", lambda machines, cni: cluster)
    arguments = argparse.Namespace(kubernetes="bridge", hosts=[])
    lines = list(labcommand.up(arguments))
    assert mode(lab.kubeconfig("bridge")) == 0o600
    assert lab.kubeconfig("bridge").read_bytes() == config
    assert str(lab.kubeconfig("bridge")) in lines[-1]
