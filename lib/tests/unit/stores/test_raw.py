"""The engine `raw`: a disk as it is, served in both modes of durability, and without anything that takes a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.core import NotRunnable, Target
from infrabench.machines.hosts.host import LocalHost
from infrabench.workloads import integrity, rebuild
from infrabench_platforms.stores.node import daemons, disks, raw
from infrabench_platforms.stores.node.config import GIB, Config, StoreError


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Config, list[list[str]]]:
    """A store whose server is written down and not started, and what was."""
    config = Config("raw", "r", 6 * GIB, GIB, homes=str(tmp_path))
    config.run.mkdir(parents=True)
    begun: list[list[str]] = []
    running: list[str] = []

    def start(_: Config, name: str, argv: tuple[object, ...]) -> int:
        begun.append([str(word) for word in argv])
        running.append(name)
        return 1

    monkeypatch.setattr(daemons, "start", start)
    monkeypatch.setattr(daemons, "alive", lambda _, name: name in running or None)
    monkeypatch.setattr(daemons, "stop", lambda _, name: running.remove(name) if name in running else None)
    monkeypatch.setattr(disks, "device", lambda _, disk: Path(f"/dev/loop{disk}"))
    return config, begun


def test_a_mode_is_a_server_of_its_own_and_strict_flushes_each_write(served: tuple[Config, list[list[str]]]) -> None:
    config, begun = served
    raw.serve(config, "default")
    raw.serve(config, "default")
    raw.serve(config, "strict")
    raw.unserve(config)
    raw.serve(config, "strict")
    assert [argv[6:] for argv in begun] == [
        ["file", "/dev/loop0"],
        *[["--filter=fua", "file", "/dev/loop0", "fuamode=force"]] * 2,
    ]
    assert all(argv[:6] == ["nbdkit", "-f", "-t", "32", "-U", str(config.socket)] for argv in begun)


@pytest.mark.parametrize("verb", ["fail", "replace", "corrupt", "scrub", "repair"])
def test_what_takes_a_second_copy_is_refused(verb: str, served: tuple[Config, list[list[str]]]) -> None:
    with pytest.raises(StoreError, match="no second copy"):
        getattr(raw, verb)(served[0])


def test_workloads_on_copies_are_not_run_on_it() -> None:
    def of(copies: int, **more: tuple[str, ...]) -> dict[str, Target]:
        store = {"store": ("store",), "mount": ("/m",), "uri": ("nbd+unix:///",), "copies": (str(copies),), **more}
        return {"server": Target("server", LocalHost("here"), lifecycle=store)}

    for workload in (rebuild, integrity):
        params = {name: each.default for name, each in workload.PARAMS.items()}
        with pytest.raises(NotRunnable, match="it has no second copy"):
            workload.plan(params, of(1))
        assert workload.plan(params, of(2))
