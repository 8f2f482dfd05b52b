"""The dependency rule: rooms stand in rows, and none imports a row above it, inside functions neither."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import infrabench
from tests.support.checks import check_each
from tests.support.places import LIB, LIBRARY, PACKAGES, PLATFORMS, SELFCHECK, files_of_packages

# The rooms from the top to the bottom: each may import those below it. `core` is the vocabulary and is open to all.
# Rooms are parts of `infrabench`, and the packages beside it.
ROWS = (
    "cli", SELFCHECK.name, "publish", "notebook", "analysis", PLATFORMS.name, "experiment", "machines", "studies",
    "workloads", "stats", "ledger", "registry", "core",
)  # fmt: skip
INSIDE = {*ROWS, "__init__"} - {package.name for package in PACKAGES}
# What a room may not import although it stands below. An analysis runs where there is no host, engine or cluster.
RUNNING = ("machines", PLATFORMS.name, "experiment.execution", "experiment.campaign", "experiment.design")
NEVER = {
    "publish": ("machines", PLATFORMS.name, "experiment.execution", "experiment.campaign"),
    "notebook": (PLATFORMS.name,),
    "analysis": RUNNING,
    PLATFORMS.name: ("experiment", "studies", "workloads", "stats", "ledger"),
    "machines": ("studies", "workloads", "stats", "ledger"),
    "studies": ("workloads", "stats", "ledger"),
    "workloads": ("stats", "ledger", "registry"),
    "stats": ("ledger",),
    "ledger": ("registry",),
}
# Each third-party package -> the modules that speak with it, in `infrabench` or a package beside it.
BEHIND = {
    "fabric": {"/machines/hosts/host.py"},
    "paramiko": {"/machines/hosts/ssh_channel.py", "/machines/hosts/host.py"},
    "yaml": {
        "/publish/artifact/writing.py", "/machines/sites/import_hosts.py", "/machines/sites/yaml_with_lines.py",
    },
    "pydantic": {"/experiment/campaign/file.py", "/experiment/design/profile_file.py", "/machines/sites/inventory.py"},
    "papermill": {"/notebook/headless.py"},
    "traitlets": {"/notebook/headless.py"},
    "nbclient": {"/notebook/headless.py"},
    "rados": {"_platforms/stores/node/ceph_cluster.py"},
    "nbformat": {f"/publish/report/{name}.py" for name in ("content", "executed", "pages")},
    "nh3": {"/publish/report/content.py"},
    "mistune": {"/publish/report/content.py"},
    "pygments": {"/publish/report/content.py"},
    "jinja2": {"/publish/report/pages.py"},
    "markupsafe": {"/publish/report/content.py", "/publish/report/pages.py"},
    "tqdm": {"/experiment/execution/progress.py"},
    "IPython": {"/notebook/session_tables.py", "/notebook/live.py", "/notebook/explore.py"},
    "ipywidgets": {"/notebook/explore.py"},
    "rocrate": {"/publish/artifact/crate.py"},
    "packaging": {"/publish/artifact/licences.py"},
    "argcomplete": {"/cli/parser.py"},
}  # fmt: skip
OPEN = {"numpy", "pandas", "scipy", "matplotlib", "seaborn", "pyarrow"}
NUMERIC = {"pandas", "scipy", "matplotlib", "seaborn", "pyarrow"}
WITH_TABLES = {SELFCHECK.name, "publish", "notebook", "analysis", "stats"}


def room_of(place: Sequence[str]) -> str:
    """Return the room of a file or module, given by the parts of its path or dotted name."""
    return place[1].removesuffix(".py") if place[0] == LIBRARY.name else place[0]


def violations(source: str, name: str) -> list[str]:
    """Return what is wrong with the imports of the file `name` (relative to the folder `lib`), each with its line."""
    room = room_of(name.split("/"))
    if room not in {*ROWS, "__init__"}:
        return [f"no room of this name; the rooms are {', '.join(ROWS)}"]
    found = []
    for line, module in imported(ast.parse(source), name):
        top = module.partition(".")[0]
        if top in {package.name for package in PACKAGES}:
            if not is_open(room, module):
                found.append(f"line {line} may not import {module}")
        elif top in BEHIND:
            if name.removeprefix(LIBRARY.name) not in BEHIND[top]:
                found.append(f"line {line} may not import {top}: only {sorted(BEHIND[top])} may")
        elif top in NUMERIC and room not in WITH_TABLES:
            found.append(f"line {line} may not import {top}: the analysis does")
        elif top not in OPEN and top not in sys.stdlib_module_names:
            found.append(f"line {line} imports {top}, which no rule speaks of")
    return found


def is_open(room: str, module: str) -> bool:
    """Tell whether a file of `room` may import `module`, a dotted name."""
    inside = module.removeprefix(f"{LIBRARY.name}.") if module != LIBRARY.name else "__init__"
    wanted = room_of([*module.split("."), "__init__"])
    if room == "__init__":
        return wanted in ("notebook", "analysis")
    if wanted not in ROWS or ROWS.index(wanted) < ROWS.index(room):
        return False
    return not any(inside == each or inside.startswith(f"{each}.") for each in NEVER.get(room, ()))


def imported(tree: ast.AST, name: str) -> list[tuple[int, str]]:
    """Return line and name of every module that the file imports, in functions and TYPE_CHECKING blocks as well."""
    modules = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = name.split("/")[:-1]
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(each for each in (base, node.module) if each)
            inside = module == "infrabench" or (node.level and not node.module)
            names = [f"{module}.{alias.name}" for alias in node.names] if inside else [module]
            modules += [(node.lineno, each) for each in names]
    return modules


def test_every_file_keeps_the_rule() -> None:
    names = [path.relative_to(LIB).as_posix() for path in files_of_packages()]
    assert len(names) > 300
    check_each(lambda name: violations((LIB / name).read_text(), name), names)


def test_the_top_of_the_package_is_its_rooms():
    parts = {path.name.removesuffix(".py") for path in LIBRARY.iterdir() if path.name != "__pycache__"}
    assert parts == INSIDE


def test_there_are_no_packages_but_these() -> None:
    assert {path.parent for path in LIB.glob("*/__init__.py")} == {*PACKAGES}


def test_every_room_says_what_it_is() -> None:
    def check(room: Path) -> None:
        doc = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
        assert doc
        assert doc.splitlines()[0].endswith(".")

    rooms = [LIBRARY / room for room in INSIDE - {"registry", "__init__"}]
    check_each(check, sorted([*rooms, *PACKAGES[1:], *(path.parent for path in PLATFORMS.glob("*/__init__.py"))]))


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("/core/hosts.py", "import infrabench.machines.hosts.host", "may not import infrabench.machines.hosts.host"),
        ("/core/hosts.py", "import numpy.random\nimport requests", "imports requests, which no rule speaks of"),
        ("/stats/new.py", "from infrabench.experiment.execution.session import run", "may not import infrabench.exper"),
        ("/analysis/new.py", "from infrabench_platforms import systems", "may not import infrabench_platforms"),
        ("/analysis/new.py", "from infrabench.experiment.execution import runs", "may not import infrabench.exper"),
        ("/analysis/tidy.py", "def f():\n    from infrabench_platforms import lab", "may not import infrabench_pl"),
        ("/machines/new.py", "from infrabench_platforms.lab import nodes", "may not import infrabench_platforms.lab"),
        ("/workloads/new.py", "from ..experiment.execution import run", "may not import infrabench.experiment"),
        ("/workloads/new.py", "import fabric", "may not import fabric"),
        ("_platforms/systems/new.py", "from infrabench.cli import main", "may not import infrabench.cli"),
        ("_platforms/systems/docker.py", "import paramiko", "may not import paramiko"),
        ("/ledger/ledger.py", "import pandas as pd", "may not import pandas"),
        ("/machines/hosts/host.py", "from infrabench.ledger.ledger import write", "may not import infrabench.ledger"),
        ("/unheard_of.py", "", "no room of this name"),
    ],
)
def test_the_rule_can_be_broken(name, source, said):
    assert any(said in each for each in violations(source, f"infrabench{name}"))


def test_editors_complete_what_a_notebook_may_use():
    block = next(node for node in ast.parse((LIBRARY / "__init__.py").read_text()).body if isinstance(node, ast.If))
    shown = {name.name: node.module.removeprefix("infrabench.") for node in block.body for name in node.names}
    assert shown == infrabench.HOME
