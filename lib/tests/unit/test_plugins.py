"""Every plug-in that is shipped is whole: found by its file alone, held against what the guides ask of it.

A system, a workload or a figure that lacks a part fails here; docs/add-a-*.md say how to add the part.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from infrabench import registry
from infrabench.analysis import figures
from infrabench.analysis.tables import notation
from infrabench.core import Deployment, Kind, Target
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.hosts.probes import facts
from infrabench.machines.lab import images, nodes
from infrabench.notebook import session_figures
from tests.support.fakes import fake_site
from tests.support.places import TESTS

ROOT = Path(registry.__file__).parents[2]
DATA = TESTS / "data"
SYSTEMS, WORKLOADS, STUDIES = (registry.names(kind) for kind in ("systems", "workloads", "studies"))
ENGINES = registry.study("containers").systems
MEASURED = {case.workload for name in STUDIES for each in registry.study(name).profiles.values() for case in each.cases}
OF_CONTAINERS = sorted(
    {case.workload for each in registry.study("containers").profiles.values() for case in each.cases}
)
ROLES = {"server", "client", "near", "far", "control", "worker", "worker1", "worker2", "conductor"}
CASES = ("ok", "truncated", "garbage")
OF_THE_HARNESS = {"null"}  # measures infrabench itself: `infrabench selfcheck overhead`
# Whose version is not one program's: the host itself.
WITHOUT_VERSION = {"native"}


def guide(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def mentioned(word: str, page: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", guide(page), re.IGNORECASE) is not None


def check_needs(needs: Mapping[str, Mapping[str, str]]) -> None:
    assert needs
    assert set(needs) <= ROLES
    for programs in needs.values():
        assert programs
        assert all(program and isinstance(package, str) for program, package in programs.items())


class BareHost(LocalHost):
    """A host without any program: every command fails as a shell says it."""

    def run(self, argv: Any, *, timeout_s: float, stdin: bytes = b"") -> Any:
        return super().run(("sh", "-c", "echo not found >&2; exit 127"), timeout_s=timeout_s)


# ------------------------------------------------------------------------------------------------------------- systems


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_keeps_its_contract(name: str) -> None:
    module: Any = registry.system(name)
    site, spec = object(), object()
    inspect.signature(module.supported).bind(site)
    inspect.signature(module.deploy).bind(site, spec)
    assert module.__doc__
    assert module.__doc__.splitlines()[0].endswith((".", "?"))


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_is_measured_by_a_study(name: str) -> None:
    assert any(name in {*registry.study(study).systems} for study in STUDIES)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_says_what_its_hosts_need(name: str) -> None:
    if not hasattr(registry.system(name), "NEEDS"):
        assert name.endswith("-vm"), "declare NEEDS: role -> program -> Debian package"
        return  # runs in a guest that the lab makes
    check_needs(registry.system(name).NEEDS)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_says_why_it_cannot_run(name: str) -> None:
    without = registry.system(name).supported(fake_site(guest_image_reason="no root"))  # type: ignore[arg-type]
    image = {"tar": "/x.tar", "hash": "x"}
    bare = registry.system(name).supported(fake_site(BareHost("bare"), guest_image=image))  # type: ignore[arg-type]
    if name == "native":
        assert (without, bare) == (None, None)
        return
    assert without == "no guest image: no root"
    assert isinstance(bare, str)
    assert "bare" in bare
    assert "\n" not in bare


@pytest.mark.parametrize("name", ENGINES)
def test_what_an_engine_needs_is_in_the_node_of_the_lab(name: str) -> None:
    packages = {*images.packages("node")} | {"util-linux", "procps", "tar", "iproute2"}
    needs = registry.system(name).NEEDS["server"]  # type: ignore[attr-defined]
    assert {package for package in needs.values() if package} <= packages


@pytest.mark.parametrize("name", sorted({*ENGINES} - WITHOUT_VERSION))
def test_the_version_of_an_engine_is_asked_of_every_host(name: str) -> None:
    assert name in facts.TOOLS
    assert mentioned(name, "campaigns.md"), "what parity may name"


@pytest.mark.parametrize("name", sorted({*ENGINES} - WITHOUT_VERSION))
def test_the_data_of_an_engine_lie_on_the_file_system_of_the_machine(name: str) -> None:
    assert name in nodes.DATA.values()


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_stands_in_the_guide(name: str) -> None:
    assert mentioned(name, "run-a-study.md")


# ----------------------------------------------------------------------------------------------------------- workloads


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_keeps_its_contract(name: str) -> None:
    module: Any = registry.workload(name)
    assert list(inspect.signature(module.plan).parameters) == ["params", "roles"]
    assert list(inspect.signature(module.version).parameters) == ["target"]
    assert list(inspect.signature(module.supported).parameters) == ["deployment"]
    assert list(inspect.signature(module.parse).parameters) == ["capture"]
    assert module.__doc__
    assert module.__doc__.startswith(f"{name}: "), "the title of the workload"
    assert all(type(value) in (bool, int, float, str) for value in module.DEFAULTS.values())


@pytest.mark.parametrize("name", sorted({*WORKLOADS} - OF_THE_HARNESS))
def test_a_workload_is_measured_by_a_study(name: str) -> None:
    assert name in MEASURED


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_says_what_each_metric_is(name: str) -> None:
    declared = registry.metric_kinds(name)
    assert declared
    for metric, kind in declared.items():
        assert {*([kind] if isinstance(kind, str) else kind.values())} <= {*get_args(Kind)}, metric
        assert notation.metric_title(metric)


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("case", CASES)
def test_a_workload_has_outputs_of_its_tool(name: str, case: str) -> None:
    about = json.loads((DATA / name / case / "case.json").read_text())
    assert about["tool"]
    assert ("measurements" in about["expect"]) == (case == "ok")


@pytest.mark.parametrize("name", OF_CONTAINERS)
def test_what_a_workload_of_guests_needs_is_declared_and_in_their_image(name: str) -> None:
    needs = registry.workload(name).NEEDS  # type: ignore[attr-defined]
    check_needs(needs)
    # What each package brings along: a tool in a package of its own that another one depends on.
    brought = {"util-linux", "procps", "redis-tools"}
    packages = {*images.packages("guest")} | brought
    assert {package for each in needs.values() for package in each.values() if package} <= packages


@pytest.mark.parametrize("name", OF_CONTAINERS)
def test_a_workload_says_what_is_missing_inside(name: str) -> None:
    bare = Target("server", LocalHost("here"), ("env", "PATH=/nowhere"))
    reason = registry.workload(name).supported(Deployment("x", {"server": bare}, {}))
    assert isinstance(reason, str)
    assert reason


@pytest.mark.parametrize("name", STUDIES)
def test_smoke_has_every_workload_that_paper_has(name: str) -> None:
    cases = {profile: {case.workload for case in each.cases} for profile, each in registry.study(name).profiles.items()}
    assert cases["smoke"] >= cases["paper"]


@pytest.mark.parametrize("name", STUDIES)
def test_a_profile_runs_systems_of_its_study(name: str) -> None:
    study = registry.study(name)
    for profile in study.profiles.values():
        assert {*profile.systems} <= {*study.systems}


# ------------------------------------------------------------------------------------------------------------- figures


def modules_of_figures() -> list[str]:
    """Return the modules that draw a figure: those that have a function of their own name."""
    folder = Path(figures.__file__).parent
    trees = {path.stem: ast.parse(path.read_text()) for path in sorted(folder.glob("[!_]*.py"))}
    return [
        name for name, tree in trees.items()
        if any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)
    ]  # fmt: skip


DRAWN = sorted({*modules_of_figures()} - {"caption", "save"})


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_is_public_has_a_width_and_a_test(name: str) -> None:
    draw = getattr(figures, name)
    assert name in figures.__all__
    assert "width_mm" in inspect.signature(draw).parameters
    assert inspect.getdoc(draw)
    tests = "".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    assert re.search(rf"\b{name}\(", tests), f"no test draws {name}"


@pytest.mark.parametrize("kind", session_figures.FIGURES)
def test_a_figure_of_a_session_is_explained(kind: str) -> None:
    assert f"``{kind}``" in (inspect.getdoc(session_figures.figure) or "")
    assert f"`{kind}`" in guide("add-a-figure.md")


def test_the_lists_find_something() -> None:
    assert len(SYSTEMS) >= 20
    assert len(WORKLOADS) >= 20
    assert len(DRAWN) >= 10
    assert {"podman", "redis"} <= {*ENGINES, *OF_CONTAINERS}
