"""The dependency rule: who may import whom (design, section 3). It holds for imports inside functions too."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import infrabench

ROOT = Path(infrabench.__file__).parent
# Each part of the package -> the parts that it may import. `core` is the vocabulary and is open to all.
MAY = {
    "core": set(),
    "registry": set(),
    "orders": set(),
    "design": {"orders"},
    "costs": {"design"},
    "sums": set(),
    "records": {"sums"},
    "ledger": {"records", "sums"},
    "interrupts": set(),
    "archive": {"records", "sums"},
    "relay": set(),
    "pipes": set(),
    "channels": {"pipes"},
    "host": {"channels", "pipes", "relay"},
    "veil": set(),
    "yamlfile": set(),
    "site": {"host", "inventory", "kubeconfig", "lab", "stores", "yamlfile"},
    "inventory": {"clusters", "host", "lab"},
    "kubeconfig": {"lab", "veil"},
    "guards": set(),
    "monitor": set(),
    "trial": {"guards", "monitor", "veil"},
    "progress": {"costs"},
    "deployments": {"registry", "design", "veil"},
    "preflight": {"design"},
    "provenance": {"ledger", "records", "veil"},
    "blocks": {"design", "ledger", "orders", "records"},
    "runner": {"blocks", "deployments", "design", "ledger", "monitor", "preflight", "progress", "records", "trial"},
    "session": {
        "blocks", "costs", "registry", "design", "description", "ledger", "records", "provenance", "deployments",
        "preflight", "progress", "runner", "veil",
    },
    "description": {"design", "provenance", "records", "runner"},
    "reparse": {"ledger", "records", "registry", "sums", "trial"},
    "runs": {"archive", "design", "interrupts", "progress", "records", "registry", "session", "site"},
    "comparability": {"provenance", "records"},
    "labels": {"records"},
    "tidy": {"records", "sums"},
    "stats": {"tidy", "stats", "display"},
    "validation": {"stats", "tidy", "validation"},
    "tex": set(),
    "display": {"tex"},
    "figures": {"tidy", "stats", "display", "figures"},
    "tables": {"display", "tables"},
    "report": {"abstract", "archive", "display", "facade", "labels", "records", "report", "runs", "tidy"},
    "headless": {"progress"},
    "published": {"published"},
    "probes": set(),
    "clusters": {"clusters", "host"},
    "stores": {"clusters", "stores"},
    "systems": {"clusters", "host", "stores", "systems"},
    "workloads": {"workloads"},
    "lab": {"clusters", "host", "lab", "stores"},
    "studies": set(),
    "inline": {"analysis", "display", "tex"},
    "paper": {"analysis", "display", "figures", "inline", "tables"},
    "pictures": {"analysis", "figures"},
    "scenarios": {"analysis"},
    "layers": {"analysis"},
    "beside": {"analysis", "display", "published", "stats"},
    "grades": {"analysis", "display", "published"},
    "answers": {"analysis", "display", "tables"},
    "crosscheck": {"analysis", "display", "facade"},
    "timelines": {"analysis", "facade", "figures", "labels", "records", "registry", "reparse"},
    "trust": {"analysis", "display", "tables", "validation"},
    "analysis": {"display", "published", "stats", "tables"},
    "literature": {"analysis", "display", "figures", "published", "runs", "tables"},
    "planned": {"costs", "design", "progress", "runner", "session", "stats", "tidy"},
    "facade": {
        "analysis", "comparability", "design", "labels", "live", "planned", "progress", "records", "registry", "runs",
        "session", "stats", "tidy",
    },
    "live": {"analysis", "display", "figures", "labels", "progress", "records", "stats", "tables", "tidy"},
    "outlook": {"lab", "registry", "site"},
    "again": {"blocks", "design", "ledger", "records", "registry", "session"},
    "landing": {
        "again", "analysis", "archive", "costs", "display", "labels", "outlook", "progress", "records", "registry",
        "runs", "session",
    },
    "workbench": {"headless", "progress", "runs"},
    "accounts": {"comparability", "facade", "labels", "records"},
    "across": {
        "across", "analysis", "comparability", "display", "facade", "figures", "records", "runs", "stats", "tables",
    },
    "abstract": {"accounts", "analysis", "facade", "records", "tables"},
    "commands": {
        "across", "archive", "benchmarks", "comparability", "costs", "dataset", "design", "facade", "fidelity",
        "headless", "lab", "labels", "ledger", "paper", "planned", "progress", "records", "registry", "reparse",
        "report", "runs", "session", "tables", "trust", "validation", "workbench",
    },
    "dataset": {
        "analysis", "comparability", "dataset", "display", "facade", "labels", "ledger", "records", "runs", "stats",
        "sums", "tables", "tidy",
    },
    "claims": {
        "analysis", "claims", "comparability", "costs", "design", "display", "facade", "progress", "published",
        "records", "reparse", "runs", "session", "stats", "sums", "trust", "validation",
    },
    "artifact": {"analysis", "archive", "artifact", "display", "facade", "records", "runs", "sums"},
    "campaign": {
        "campaign", "costs", "design", "headless", "host", "inventory", "kubeconfig", "lab", "preflight", "progress",
        "provenance", "records", "registry", "runs", "session", "site", "yamlfile",
    },
    "evaluation": {"artifact", "claims", "runs", "tables"},
    "labcommand": {"clusters", "host", "lab", "registry"},
    "sources": {"host", "inventory", "sources"},
    "preparing": {"inventory", "lab", "preparing", "registry", "site"},
    "hosting": {"commands", "inventory", "preparing", "site", "sources"},
    "cli": {"campaign", "commands", "dataset", "evaluation", "hosting", "labcommand"},
    "benchmarks": {
        "design", "host", "ledger", "monitor", "records", "registry", "site", "stats", "trial",
    },
    "byhand": set(),
    "fidelity": {
        "byhand", "deployments", "design", "ledger", "monitor", "preflight", "progress", "registry", "site", "stats",
        "trial",
    },
    "__init__": {"abstract", "accounts", "facade", "landing", "planned"},
}  # fmt: skip
# Each third-party package -> the one part of the package that speaks with it.
BEHIND = {
    "docker": {"systems/docker.py"},
    "pylxd": {"systems/lxd.py"},
    "fabric": {"host.py"},
    "paramiko": {"channels.py", "host.py"},
    "yaml": {"artifact/writing.py", "sources/placing.py", "yamlfile.py"},
    "pydantic": {"campaign/file.py", "inventory.py"},
    "papermill": {"headless.py"},
    "traitlets": {"headless.py"},
    "nbclient": {"headless.py"},
    "rados": {"stores/node/ceph_talk.py"},
    "nbformat": {f"report/{name}.py" for name in ("assemble", "executed", "outputs", "pages", "site")},
    "nh3": {"report/outputs.py"},
    "jinja2": {"report/pages.py"},
    "sphinx": {"report/site.py", "report/mathml.py"},
    "docutils": {"report/mathml.py"},
    "tqdm": {"progress.py"},
    "IPython": {"abstract.py", "live.py"},
    "rocrate": {"artifact/crate.py"},
    "packaging": {"artifact/licences.py"},
}
OPEN = {"numpy", "pandas", "scipy", "matplotlib", "seaborn", "pyarrow", "tenacity", "statsmodels", "scikit_posthocs"}
ANALYSIS = {
    "stats", "figures", "tables", "tidy", "display", "analysis", "answers", "beside", "crosscheck", "grades", "inline",
    "layers", "literature", "pictures", "scenarios", "timelines", "trust", "validation",
}  # fmt: skip
# parts above the analysis that may have tables of their own
TABLES = {
    "abstract", "accounts", "across", "artifact", "claims", "dataset", "facade", "landing", "planned", "published",
}
NUMERIC = {"pandas", "scipy", "matplotlib", "seaborn", "pyarrow", "statsmodels", "scikit_posthocs"}


def violations(source: str, name: str) -> list[str]:
    """Return what is wrong with the imports of the file `name` (relative to the package)."""
    part = name.split("/")[0].removesuffix(".py")
    if part not in MAY:
        return [f"{name}: no rule for this part; add one to MAY"]
    found = []
    for module in imported(ast.parse(source), name):
        top, *rest = module.split(".")
        if top == "infrabench":
            wanted = rest[0] if rest else "__init__"
            if wanted not in MAY[part] | {"core"}:
                found.append(f"{name} may not import infrabench.{wanted}")
        elif top in BEHIND:
            if name not in BEHIND[top]:
                found.append(f"{name} may not import {top}: only {sorted(BEHIND[top])} may")
        elif top in NUMERIC and part not in ANALYSIS | TABLES:
            found.append(f"{name} may not import {top}: the analysis does")
        elif top not in OPEN and top not in sys.stdlib_module_names:
            found.append(f"{name} imports {top}, which no rule speaks of")
    return found


def imported(tree: ast.AST, name: str) -> list[str]:
    """Return every module that the file imports, also inside functions; TYPE_CHECKING blocks count as well."""
    modules = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = ["infrabench", *name.split("/")[:-1]]
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(each for each in (base, node.module) if each)
            inside = module == "infrabench" or (node.level and not node.module)
            modules += [f"{module}.{alias.name}" for alias in node.names] if inside else [module]
    return modules


@pytest.mark.parametrize("name", sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")))
def test_every_file_keeps_the_rule(name):
    assert violations((ROOT / name).read_text(), name) == []


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("core.py", "import infrabench.host", "may not import infrabench.host"),
        ("core.py", "import numpy.random\nimport requests", "imports requests, which no rule speaks of"),
        ("stats/new.py", "from infrabench.session import run", "may not import infrabench.session"),
        ("figures/new.py", "from infrabench import systems", "may not import infrabench.systems"),
        ("tidy.py", "def f():\n    from infrabench.workloads import fio", "may not import infrabench.workloads"),
        ("workloads/new.py", "from ..session import run", "may not import infrabench.session"),
        ("workloads/new.py", "import docker", "may not import docker"),
        ("systems/new.py", "from infrabench import site", "may not import infrabench.site"),
        ("systems/docker.py", "import pylxd", "may not import pylxd"),
        ("ledger.py", "import pandas as pd", "may not import pandas"),
        ("trial.py", "from infrabench.ledger import write_trial", "may not import infrabench.ledger"),
        ("unheard_of.py", "", "no rule for this part"),
    ],
)
def test_the_rule_can_be_broken(name, source, said):
    assert any(said in each for each in violations(source, name))


def test_what_is_allowed_passes():
    assert violations("from infrabench.core import Step\nimport json", "workloads/new.py") == []
    assert violations("from infrabench.systems import _guests\nfrom infrabench.host import X", "systems/new.py") == []
    assert violations("def f():\n    import docker", "systems/docker.py") == []
