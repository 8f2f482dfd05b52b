"""What this machine could run is asked, and nothing is made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import DeploySpec, Limits, NotRunnable, ProvisionError
from infrabench_platforms import availability
from infrabench_platforms.lab import prebuild
from tests.support.fakes import hide_engines

SPEC = DeploySpec("s", Limits(), "")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab that can be, and of which nothing is made yet."""
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv("INFRABENCH_STATE", str(folder))
    monkeypatch.setenv("INFRABENCH_KATA", str(tmp_path / "no kata"))
    hide_engines(tmp_path, monkeypatch)
    monkeypatch.setattr(availability, "require", lambda: None)
    return folder


def asked(study: str, *systems: str, disk_bytes: int = 0) -> dict[str, availability.Outlook]:
    return availability.check_systems(registry.study(study), systems, disk_bytes, {})


@pytest.mark.usefixtures("state")
def test_what_the_lab_brings_itself_runs_once_its_images_are_made() -> None:
    found = asked("containers", "native", "docker", "lxc", "lxd")
    assert {each.lab for each in found.values()} == {None}
    assert {each.first for each in found.values()} == {("guest", "node")}
    assert found["native"].local is None
    assert asked("known-effects", "quota-95")["quota-95"].lab is None  # a label stands for its system
    assert prebuild.seconds(["guest", "node", "guest"]) == prebuild.seconds(["guest", "node"]) > 0


def test_nothing_is_made_by_asking(state: Path) -> None:
    for study, systems in (("cnis", ["flannel", "cilium", "host"]), ("runtimes", ["crio-runsc"]), ("storage", ["zfs"])):
        asked(study, *systems)
    assert [path for path in state.rglob("*") if path.is_file()] == []


@pytest.mark.usefixtures("state")
def test_what_stands_against_a_system_is_named() -> None:
    kata = asked("runtimes", "containerd-kata")["containerd-kata"]
    assert "Kata is not installed" in (kata.lab or "")
    assert kata.first == ()
    assert "nodes of its own" in (kata.local or "")
    assert "GiB free and the stores need" in (asked("storage", "ceph", disk_bytes=10**17)["ceph"].lab or "")
    assert "a CNI needs three hosts" in (asked("cnis", "flannel")["flannel"].local or "")


def test_without_a_lab_every_system_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NotRunnable("the lab needs root")

    monkeypatch.setattr(availability, "require", refuse)
    found = asked("containers", "native", "lxd")
    assert {each.lab for each in found.values()} == {"the lab needs root"}
    assert {each.first for each in found.values()} == {()}


def of(does: Callable[[Any], None], reason: str | None = None) -> Any:
    @contextmanager
    def deploy(site: Any, spec: DeploySpec) -> Iterator[None]:
        try:
            does(site)
            yield
        finally:
            site.hosts["server"].close()

    return SimpleNamespace(supported=lambda site: reason, deploy=deploy)


def refused(site: Any) -> None:
    raise NotRunnable("no bread")


def failed(site: Any) -> None:
    raise ProvisionError("no flour")


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("system", "said"),
    [
        (of(lambda site: site.hosts["server"].run(("rm", "-rf", "/"), timeout_s=1)), None),
        (of(lambda site: site.hosts["client"].put(b"", "/etc/passwd")), None),
        (of(lambda site: None), None),
        (of(lambda site: None, "too old"), "too old"),
        (of(refused), "no bread"),
        (of(failed), "no flour"),
    ],
)
def test_a_system_is_asked_up_to_where_it_would_use_the_lab(system: Any, said: str | None) -> None:
    assert availability._find_obstacle(system, availability.LabAhead(), SPEC) == said
