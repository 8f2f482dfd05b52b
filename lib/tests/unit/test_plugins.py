"""Every plug-in that is shipped is whole: found by its file alone, held against what the guides ask of it.

A system, a workload or a figure that lacks a part fails here; docs/add-a-*.md say how to add the part.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from infrabench import registry
from infrabench.analysis import figures
from infrabench.analysis.tables import notation
from infrabench.core import Deployment, Kind, Target
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.hosts.probes import facts
from infrabench.notebook import session_figures
from infrabench_platforms.lab import images, nodes
from tests.support.checks import check_each
from tests.support.fakes import fake_site
from tests.support.places import TESTS

ROOT = Path(registry.__file__).parents[2]
SYSTEMS, WORKLOADS, STUDIES = (registry.names(kind) for kind in ("systems", "workloads", "studies"))
ENGINES = registry.study("containers").systems
MEASURED = {case.workload for name in STUDIES for each in registry.study(name).profiles.values() for case in each.cases}
OF_CONTAINERS = sorted(
    {case.workload for each in registry.study("containers").profiles.values() for case in each.cases}
)
ROLES = {"server", "client", "near", "far", "control", "worker", "worker1", "worker2", "conductor"}
PARAM_UNITS = {"", "s", "B", "KiB", "bit/s", "1/s"}
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


def test_a_system_keeps_its_contract() -> None:
    def check(name: str) -> None:
        module: Any = registry.system(name)
        site, spec = object(), object()
        inspect.signature(module.supported).bind(site)
        inspect.signature(module.deploy).bind(site, spec)
        assert module.__doc__
        assert module.__doc__.splitlines()[0].endswith((".", "?"))

    check_each(check, SYSTEMS)


def test_a_system_is_measured_by_a_study() -> None:
    systems = {system for study in STUDIES for system in registry.study(study).systems}
    check_each(lambda name: [] if name in systems else ["no study has it"], SYSTEMS)


def test_a_system_says_what_its_hosts_need() -> None:
    def check(name: str) -> None:
        needs = getattr(registry.system(name), "NEEDS", None)
        assert needs is not None, "declare NEEDS: role -> program -> Debian package"
        check_needs(needs)

    check_each(check, SYSTEMS)


def test_an_engine_says_why_it_cannot_run() -> None:
    image = {"tar": "/x.tar", "hash": "x"}

    def check(name: str) -> None:
        supported = registry.system(name).supported
        without = supported(fake_site(guest_image=None, guest_image_reason="no root"))  # type: ignore[arg-type]
        bare = supported(fake_site(BareHost("bare"), guest_image=image))  # type: ignore[arg-type]
        if name == "native":
            assert (without, bare) == (None, None)
            return
        assert without == "no guest image: no root"
        assert isinstance(bare, str)
        assert "bare" in bare
        assert "\n" not in bare

    check_each(check, ENGINES)


def test_what_an_engine_needs_is_in_the_node_of_the_lab() -> None:
    packages = {*images.packages("node")} | {"util-linux", "procps", "tar", "iproute2"}

    def check(name: str) -> list[str]:
        needs = registry.system(name).NEEDS["server"]  # type: ignore[attr-defined]
        absent = {package for package in needs.values() if package} - packages
        return [f"{package} is not in the node" for package in sorted(absent)]

    check_each(check, ENGINES)


def test_the_version_of_an_engine_is_asked_of_every_host() -> None:
    def check(name: str) -> None:
        assert name in facts.TOOLS
        assert mentioned(name, "campaigns.md"), "what parity may name"

    check_each(check, sorted({*ENGINES} - WITHOUT_VERSION))


def test_the_data_of_an_engine_lie_on_the_file_system_of_the_machine() -> None:
    engines = sorted({*ENGINES} - WITHOUT_VERSION)
    check_each(lambda name: [] if name in nodes.DATA.values() else ["lab/nodes.py has no place for it"], engines)


def test_an_engine_stands_in_the_guide() -> None:
    check_each(lambda name: [] if mentioned(name, "run-a-study.md") else ["run-a-study.md lacks it"], ENGINES)


def test_a_workload_keeps_its_contract() -> None:
    def check(name: str) -> None:
        module: Any = registry.workload(name)
        assert list(inspect.signature(module.plan).parameters) == ["params", "roles"]
        assert list(inspect.signature(module.version).parameters) == ["target"]
        assert list(inspect.signature(module.supported).parameters) == ["deployment"]
        assert list(inspect.signature(module.parse).parameters) == ["capture"]
        assert module.__doc__
        assert module.__doc__.startswith(f"{name}: "), "the title of the workload"

    check_each(check, WORKLOADS)


def test_what_a_workload_declares_is_whole() -> None:
    def check(name: str) -> list[str]:
        module: Any = registry.workload(name)
        wrong = []
        for param, declared in module.PARAMS.items():
            wrong += [] if declared.meaning and not declared.meaning.endswith(".") else [f"{param} has no meaning"]
            wrong += [] if declared.unit in PARAM_UNITS else [f"{param}: unknown unit {declared.unit!r}"]
            for end, unit in {"_bytes": "B", "_s": "s", "seconds": "s", "_kib": "KiB"}.items():
                if param.endswith(end) and not param.endswith("_per_s") and declared.unit != unit:
                    wrong.append(f"{param} is in {unit}")
            declared.check(param, declared.default)
            if isinstance(declared.default, int | float) and not isinstance(declared.default, bool):
                wrong += [] if declared.choices or declared.least is not None else [f"{param} has no least value"]
        if hasattr(module, "VERSION"):
            argv, pattern = module.VERSION
            wrong += [] if argv and re.compile(pattern).groups == 1 else ["VERSION: argv, and a pattern of one group"]
        return wrong

    check_each(check, WORKLOADS)


def test_every_parameter_of_a_workload_is_used_by_it() -> None:
    def check(name: str) -> list[str]:
        text = registry.source("workloads", name).read_text()
        shared = [path.read_text() for path in (ROOT / "lib/infrabench/workloads").glob("*.py")]
        shared = [each for each in shared if each != text]
        return [
            f"{param} is not used" for param in registry.workload(name).PARAMS
            if not any(re.search(rf"""["']{re.escape(param)}["'](?!: Param)""", each) for each in (text, *shared))
        ]  # fmt: skip

    check_each(check, WORKLOADS)


def test_a_workload_is_measured_by_a_study() -> None:
    check_each(lambda name: [] if name in MEASURED else ["no study has it"], sorted({*WORKLOADS} - OF_THE_HARNESS))


def test_a_workload_says_what_each_metric_is() -> None:
    def check(name: str) -> None:
        declared = registry.metric_kinds(name)
        assert declared
        for metric, kind in declared.items():
            assert {*([kind] if isinstance(kind, str) else kind.values())} <= {*get_args(Kind)}, metric
            assert notation.metric_title(metric)

    check_each(check, WORKLOADS)


def test_what_a_workload_of_guests_needs_is_declared_and_in_their_image() -> None:
    # What each package brings along: a tool in a package of its own that another one depends on.
    brought = {"util-linux", "procps", "redis-tools"}
    packages = {*images.packages("guest")} | brought

    def check(name: str) -> list[str]:
        needs = registry.workload(name).PROGRAMS  # type: ignore[attr-defined]
        check_needs(needs)
        absent = {package for each in needs.values() for package in each.values() if package} - packages
        return [f"{package} is not in the guest" for package in sorted(absent)]

    check_each(check, OF_CONTAINERS)


def test_a_workload_says_what_is_missing_inside() -> None:
    bare = Target("server", LocalHost("here"), ("env", "PATH=/nowhere"))

    def check(name: str) -> None:
        reason = registry.workload(name).supported(Deployment("x", {"server": bare}, {}))
        assert isinstance(reason, str)
        assert ("life cycle" if name == "startup" else "not found") in reason

    check_each(check, OF_CONTAINERS)
    assert registry.workload("null").supported(Deployment("x", {"server": bare}, {})) is None


def test_a_profile_runs_systems_of_its_study() -> None:
    def check(name: str) -> None:
        study = registry.study(name)
        for profile in study.profiles.values():
            assert {*profile.systems} <= {*study.systems}

    check_each(check, STUDIES)


def draws(each: object) -> bool:
    """Tell whether something that figures export is a function that draws one."""
    return inspect.isfunction(each) and each.__annotations__.get("return") in ("Drawn", "Figure | None")


DRAWN = [name for name in figures.__all__ if draws(getattr(figures, name))]


def test_a_figure_has_a_width_and_a_test() -> None:
    tests = "".join(path.read_text() for path in TESTS.rglob("test_*.py"))

    def check(name: str) -> None:
        draw = getattr(figures, name)
        on_screen = name == "interim"  # of a session that runs
        assert on_screen or {"view", "width_mm"} & set(inspect.signature(draw).parameters)
        assert inspect.getdoc(draw)
        assert re.search(rf"\b{name}\(", tests) is not None, f"no test draws {name}"

    check_each(check, DRAWN)


def test_a_figure_of_a_session_is_public_and_explained() -> None:
    public = [getattr(figures, name) for name in DRAWN]

    def check(kind: str) -> None:
        assert figures.FIGURES[kind].draw in public or kind == "scaling"  # `curves` without its ratios
        assert f"``{kind}``" in (inspect.getdoc(session_figures.figure) or "")
        assert f"`{kind}`" in guide("add-a-figure.md"), "docs/add-a-figure.md does not say it"

    check_each(check, figures.FIGURES)


def test_the_lists_find_something() -> None:
    assert len(SYSTEMS) >= 20
    assert len(WORKLOADS) >= 20
    assert len(DRAWN) >= 10
    assert {"podman", "redis"} <= {*ENGINES, *OF_CONTAINERS}
