"""The command that prepares hosts: several sites at once, and what is refused before any host is asked."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from infrabench import cli
from infrabench.machines.sites.prepare import apply
from infrabench.machines.sites.prepare.plan import Change, Command, HostPlan

DEAD = {"address": "127.0.0.1", "port": 1}
NEEDS_NO_IMAGE = ("--systems", "docker", "--workloads", "iozone")


def _inventory(folder: Path, name: str, **hosts: dict[str, Any]) -> str:
    path = folder / f"{name}.yml"
    path.write_text(yaml.safe_dump({"name": name, "hosts": hosts or {"server": DEAD}}))
    return str(path)


def test_hosts_of_several_sites_are_asked_at_once_and_named_by_site(tmp_path: Path, capsys: Any) -> None:
    one, two = _inventory(tmp_path, "one"), _inventory(tmp_path, "two", server={"address": "127.0.0.1", "port": 2})
    assert cli.main(["hosts", "prepare", one, two, *NEEDS_NO_IMAGE, "--yes"]) == 1
    told = capsys.readouterr()
    assert "one server: failed: server: cannot connect" in told.out
    assert "two server: failed: server: cannot connect" in told.out
    assert "nothing was changed" in told.out
    assert "infrabench: not ready: one server, two server." in told.err
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["lab"], "lab is prepared by make run itself"),
        (["none.yml"], "unknown site 'none.yml'"),
        (["KUBECONFIG"], "is a kubeconfig: hosts are prepared from an inventory"),
        (["ONE", "--study", "contaners"], "unknown study 'contaners'"),
        (["ONE", "--systems", "dokcer"], "unknown system of these studies 'dokcer': did you mean docker"),
        (["ONE", "--workloads", "wbe"], "unknown workload of these studies 'wbe'"),
        (["ONE", "--study", "cnis", "--systems", "cilium"], "the inventory names no machines for cilium"),
        (["ONE", "ONE"], "another of these inventories is called one too"),
        (["ONE", "OTHER"], "one server and other client are one machine: prepare one site after the other"),
    ],
)
def test_what_cannot_be_prepared_is_refused_first(
    words: list[str], told: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "kind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: d}}]\n"
        "clusters: [{name: d, cluster: {server: 'https://192.0.2.1'}}]\n"
    )
    other = {"server": {"address": "192.0.2.1"}, "client": DEAD}
    paths = {
        "ONE": _inventory(tmp_path, "one"), "OTHER": _inventory(tmp_path, "other", **other),
        "KUBECONFIG": str(kubeconfig),
    }  # fmt: skip
    argv = [paths.get(word, word) for word in words]
    extra = [] if "--workloads" in words or "--study" in words else ["--workloads", "web"]
    assert cli.main(["hosts", "prepare", *argv, *extra, "--dry-run"]) in (1, 2)
    assert told in capsys.readouterr().err


def test_without_a_record_nothing_is_begun(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _inventory(tmp_path, "one")
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    assert cli.main(["hosts", "prepare", path, *NEEDS_NO_IMAGE, "--yes"]) == 1
    assert "no record can be written there" in capsys.readouterr().err


@pytest.fixture
def pending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each host has a command to run, which goes well."""

    def make_plans(hosts: list[HostPlan]) -> list[HostPlan]:
        return [replace(each, commands=(Command(("true",)),)) for each in hosts]

    def apply_plans(planned: list[HostPlan], say: Callable[[str], None]) -> list[HostPlan]:
        return [replace(each, done=each.commands) for each in planned]

    monkeypatch.setattr(apply, "make_plans", make_plans)
    monkeypatch.setattr(apply, "apply_plans", apply_plans)


@pytest.mark.usefixtures("pending")
def test_what_was_done_is_written_down_before_a_word_of_it_is_said(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads the words may stop reading."""
    one, two = _inventory(tmp_path, "one"), _inventory(tmp_path, "two", server={"address": "127.0.0.1", "port": 2})

    def render_results(done: list[HostPlan]) -> Iterator[str]:
        yield f"written: {sorted(path.name.split('.')[0] for path in tmp_path.glob('*.prepared-*.json'))}"

    monkeypatch.setattr(apply, "render_results", render_results)
    assert cli.main(["hosts", "prepare", one, two, *NEEDS_NO_IMAGE, "--yes"]) == 0
    assert "written: ['one', 'two']" in capsys.readouterr().out


@pytest.mark.usefixtures("pending")
def test_a_record_that_cannot_be_written_keeps_neither_results_nor_other_records(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = _inventory(tmp_path, "one"), _inventory(tmp_path, "two", server={"address": "127.0.0.1", "port": 2})
    write_record = apply.write_record

    def write_another(path: Path, *more: Any) -> Path:
        if path.stem == "one":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_record(path, *more)

    monkeypatch.setattr(apply, "write_record", write_another)
    assert cli.main(["hosts", "prepare", one, two, *NEEDS_NO_IMAGE, "--yes"]) == 1
    said = capsys.readouterr()
    assert [f"{name} server: 0 packages and 0 files changed" in said.out for name in ("one", "two")] == [True, True]
    assert [str(path) in said.out for path in tmp_path.glob("*.json")] == [True]
    assert f"infrabench: {one}: no record could be written: No space left on device" in said.err


@pytest.mark.parametrize(
    ("packages", "status"),
    [((), 0), ((Change("fio", "", "3.36"),), 1), ((Change("fio", "3.33", "3.36", optional=True),), 0)],
)
def test_a_host_that_lacks_nothing_is_ready_without_newer_lists_and_packages(
    packages: tuple[Change, ...], status: int, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_plans(hosts: list[HostPlan]) -> list[HostPlan]:
        words = (("apt-get", "update"), *((("apt-get", "install", "fio"),) if packages else ()))
        plan = {"commands": tuple(map(Command, words)), "updates": True, "packages": packages}
        return [replace(each, **plan) for each in hosts]

    monkeypatch.setattr(apply, "make_plans", make_plans)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    path = _inventory(tmp_path, "one")
    assert cli.main(["hosts", "prepare", path, *NEEDS_NO_IMAGE, "--update", "--upgrade"]) == status
    said = capsys.readouterr()
    assert "nothing was changed" in said.out
    assert ("not ready: server" in said.err, "ready as it is: server" in said.out) == (status == 1, status == 0)


@pytest.mark.usefixtures("pending")
@pytest.mark.parametrize(
    ("answer", "more", "status", "told"),
    [
        ("", [], 1, "infrabench: not ready: server; nothing was run, for nobody agreed (--yes)"),
        ("n\n", [], 1, "infrabench: not ready: server; nothing was run, for nobody agreed (--yes)"),
        ("", ["--dry-run"], 0, ""),
        ("y\n", [], 0, ""),
    ],
)
def test_hosts_that_nobody_agreed_to_change_are_not_ready(
    answer: str, more: list[str], status: int, told: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert cli.main(["hosts", "prepare", _inventory(tmp_path, "one"), *NEEDS_NO_IMAGE, *more]) == status
    said = capsys.readouterr()
    assert told in said.err
    assert ("nothing was changed" in said.out) == (answer != "y\n")
    assert bool(list(tmp_path.glob("*.json"))) == (answer == "y\n")
