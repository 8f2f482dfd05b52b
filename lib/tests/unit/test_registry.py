from __future__ import annotations

import os
import subprocess
import sys

import pytest

from infrabench import registry
from infrabench.analysis.tidy import tidy
from infrabench.core import DesignError
from infrabench.machines.hosts.host import LocalHost
from tests.support.fakes import PLUGINS, fake_site, run_session

WORKLOAD = """
from infrabench.core import Param, Measurement, Step
PARAMS = {"text": Param("hello")}
def plan(params, roles):
    return [Step("tool", "server", ("printf", params["text"]))]
def version(target):
    return "1"
def supported(deployment):
    return None
def parse(capture):
    return [Measurement("length", float(len(capture["tool"].stdout)), "B", "higher")]
"""
SYSTEM = """
from contextlib import contextmanager
from infrabench.core import Deployment, Target
def supported(site):
    return None
@contextmanager
def deploy(site, spec):
    yield Deployment("new-system", {"server": Target("server", site.hosts["server"], ("env",))}, {})
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for kind in registry.KINDS:
        (tmp_path / kind).mkdir()
    monkeypatch.setenv(registry.VARIABLE, f"{PLUGINS}:{tmp_path}")
    return tmp_path


def test_a_workload_and_a_system_are_added_by_one_file_each(folder, tmp_path):
    (folder / "workloads" / "new_workload.py").write_text(WORKLOAD)
    (folder / "systems" / "new_system.py").write_text(SYSTEM)
    assert "new-workload" in registry.names("workloads")
    assert "new-system" in registry.names("systems")
    run = run_session(
        registry.study("fakes"), tmp_path / "session", fake_site(LocalHost("here")), runs=2,
        systems=["fake-base", "new-system"], workloads=["new-workload"],
    )  # fmt: skip
    table = tidy(run)
    assert table.groupby("system")["value"].apply(list).to_dict() == {"fake-base": [5, 5], "new-system": [5, 5]}
    assert set(table["scenario"]) == {"default"}


def test_listing_names_imports_no_plugin(folder):
    (folder / "workloads" / "explosive.py").write_text("raise RuntimeError('imported')")
    assert "explosive" in registry.names("workloads")


def test_an_error_inside_a_plugin_is_not_an_unknown_name(folder):
    (folder / "workloads" / "broken.py").write_text("import a_module_that_is_not_there")
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there"):
        registry.workload("broken")


def test_a_plugin_that_breaks_the_contract_is_refused(folder):
    (folder / "workloads" / "poor.py").write_text("PARAMS = {}\ndef plan(params, roles): return []\n")
    with pytest.raises(DesignError, match=r"poor.py lacks version, supported, parse"):
        registry.workload("poor")


def test_a_name_that_two_files_have_is_refused(folder):
    (folder / "systems" / "fake_base.py").write_text(SYSTEM)
    with pytest.raises(DesignError, match="two plug-ins are called 'fake-base'"):
        registry.names("systems")


FAMILY = """
from types import SimpleNamespace
FAMILY = {
    "old-fake": SimpleNamespace(supported=lambda site: "old", deploy=None),
    "new-fake": SimpleNamespace(supported=lambda site: "new", deploy=None),
    "poor-fake": SimpleNamespace(supported=None),
}
"""


def test_the_members_of_a_family_share_a_file_and_none_of_them_has_its_name(folder):
    (folder / "systems" / "kin.py").write_text(FAMILY)
    assert {"old-fake", "new-fake"} <= {*registry.names("systems")}
    assert "kin" not in registry.names("systems")
    assert [registry.system(name).supported(None) for name in ("old-fake", "new-fake")] == ["old", "new"]
    assert registry.source("systems", "new-fake") == folder / "systems" / "kin.py"
    with pytest.raises(DesignError, match=r"kin.py lacks deploy"):
        registry.system("poor-fake")
    (folder / "systems" / "new_fake.py").write_text(SYSTEM)
    with pytest.raises(DesignError, match="two plug-ins are called 'new-fake'"):
        registry.names("systems")


def test_a_family_is_listed_without_an_import_and_anew_once_it_has_changed(folder):
    file = folder / "systems" / "kin.py"
    file.write_text(FAMILY + "raise RuntimeError('imported')")
    assert "old-fake" in registry.names("systems")
    file.write_text(FAMILY.replace("old-fake", "aged-fake"))
    os.utime(file, ns=(0, 0))
    assert "old-fake" not in registry.names("systems")
    assert "aged-fake" in registry.names("systems")


def test_a_family_has_literal_names_whatever_its_annotation(folder):
    file = folder / "systems" / "kin.py"
    file.write_text(FAMILY.replace("FAMILY =", "FAMILY: dict[str, object] ="))
    assert "old-fake" in registry.names("systems")
    for wrong in ("FAMILY = dict(old=1)", "FAMILY = {**others}", "FAMILY = {1: 2}"):
        file.write_text(wrong)
        os.utime(file, ns=(0, len(wrong)))
        with pytest.raises(DesignError, match=r"kin.py: FAMILY must be a dictionary with literal names"):
            registry.names("systems")
    file.write_text("FAMILY = {")  # names are listed; whoever takes it sees the error in the file
    with pytest.raises(SyntaxError):
        registry.system("kin")


def test_a_study_file_is_checked(folder):
    (folder / "studies" / "mine.py").write_text("STUDY = 3")
    with pytest.raises(DesignError, match="must define STUDY"):
        registry.study("mine")


def test_a_package_is_a_plugin_and_a_private_file_is_not(folder):
    (folder / "workloads" / "big").mkdir()
    (folder / "workloads" / "big" / "__init__.py").write_text(WORKLOAD + "\nfrom . import part\n")
    (folder / "workloads" / "big" / "part.py").write_text("")
    (folder / "workloads" / "_shared.py").write_text("")
    (folder / "workloads" / "folder_without_code").mkdir()
    assert set(registry.names("workloads")) >= {"big", "fake"}
    assert not {"-shared", "folder-without-code"} & set(registry.names("workloads"))
    assert registry.workload("big").version(None) == "1"


def test_a_plugin_folder_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv(registry.VARIABLE, "/no/such/folder")
    with pytest.raises(DesignError, match="/no/such/folder does not exist"):
        registry.names("workloads")


def test_facade_figures_commands_and_report_need_neither_ssh_nor_platforms():
    code = (
        "import sys, infrabench\n"
        "for package in ('kubernetes', 'fabric', 'paramiko'): sys.modules[package] = None\n"
        "for package in ('infrabench_platforms', 'infrabench_selfcheck'): sys.modules[package] = None\n"
        "infrabench.open_session; infrabench.Session\n"
        "import infrabench.analysis.figures, infrabench.analysis.tables, infrabench.cli\n"
        "infrabench.request('containers', profile='quick')\n"
        "import infrabench.publish.report"
    )
    # It imports most of the suite, which takes an emulated machine more than a minute: the gate's own limit is enough.
    subprocess.run([sys.executable, "-c", code], check=True)
