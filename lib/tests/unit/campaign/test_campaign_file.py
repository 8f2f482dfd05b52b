"""Campaign files: every fault is named with its line, all of them at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infrabench.core import DesignError
from infrabench.experiment.campaign import file, plan
from infrabench.experiment.campaign.file import Site
from infrabench.experiment.provenance import comparability
from infrabench.machines.sites.inventory import parse_inventory
from tests.support.places import ROOT

GOOD = """name: three
studies:
  containers: {profile: smoke, runs: 5}
  again: {study: containers, sites: [a]}
sites:
  a: a.yml
  b: {target: local, slurm: {nodes: "n[1-2]", partition: bench}}
shares: [[a, b]]
parity: [kernel]
"""


def read(folder: Path, text: str) -> file.Campaign:
    (folder / "c.yml").write_text(text)
    return file.read(folder / "c.yml")


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(file.Refused) as error:
        read(folder, text)
    assert "nothing was started" in str(error.value)
    return list(error.value.problems)


def test_a_campaign_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    assert found.name == "three"
    assert found.studies["containers"].parameters() == {"profile": "smoke", "runs": 5}
    assert found.studies["again"].parameters() == {}
    assert found.sites["a"].target == "a.yml"
    assert found.sites["b"].slurm.nodes == "n[1-2]"
    assert found.shares == (frozenset("ab"),)
    assert found.where("studies", "again") == "line 4, studies.again"
    assert found.where("elsewhere") == "elsewhere"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("parity", "parityy", ["line 9, parityy: Extra inputs are not permitted"]),
        ("runs: 5", "runs: '5'", ["line 3, studies.containers.runs: Input should be a valid integer"]),
        ("runs: 5", "runs: true", ["line 3, studies.containers.runs: Input should be a valid integer"]),
        ("runs: 5", "mixture: 1", ["line 3, studies.containers.mixture: Input should be a valid boolean"]),
        ("runs: 5", "rums: 5", ["line 3, studies.containers.rums: Extra inputs are not permitted"]),
        ("  b:", "  a:", ["line 7, sites.a: the site is listed twice (first in line 6)"]),
        (
            "  again:",
            "  containers:",
            ["line 4, studies.containers: the label stands there twice: its jobs would have one name (first in line "],
        ),
        ("nodes:", "requeue: yes, nodes:", ["line 7, sites.b.slurm.requeue: Extra inputs are not permitted"]),
        ("bench", '"bench --requeue"', ["line 7, sites.b.slurm.partition: String should match pattern"]),
        ('"n[1-2]"', '"n1\'; touch x"', ["line 7, sites.b.slurm.nodes: String should match pattern"]),
        ("name: three", "name: ../three", ["line 1, name: String should match pattern"]),
        ("name: three\n", "", ["line 1, name: Field required"]),
        ("[[a, b]]", "[[a]]", ["line 8, shares.0: List should have at least 2 items"]),
        ("a: a.yml", "a.b: a.yml", ["line 6, sites.a.b.[key]: String should match pattern"]),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path: Path, old: str, new: str, said: list[str]) -> None:
    assert old in GOOD
    found = faults(tmp_path, GOOD.replace(old, new, 1))
    assert len(found) == len(said)
    for one, words in zip(found, said, strict=True):
        assert one.startswith(words)


def test_all_faults_come_in_one_message(tmp_path: Path) -> None:
    text = GOOD.replace("runs: 5", "runs: x").replace("  b:", "  a:").replace("parity", "parityy")
    assert len(faults(tmp_path, text)) == 3


def test_more_than_anyone_reads_are_counted(tmp_path: Path) -> None:
    many = "".join(f"  s{number}: {{}}\n" for number in range(60))
    assert faults(tmp_path, GOOD.replace("sites:\n", f"sites:\n{many}"))[-1] == "and 40 more"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n- b\n", "a campaign is a mapping"),
        ("", "a campaign is a mapping"),
        ("name: [", "not YAML"),
        ("a: " + "[" * 1200, "is not nested like this"),
    ],
)
def test_what_is_no_campaign_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DesignError, match=said):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DesignError, match=r"there is no campaign file .*none.yml"):
        file.read(tmp_path / "none.yml")


def test_a_mixture_reaches_the_notebook_and_is_the_same_session(tmp_path: Path) -> None:
    known = {"b": Site("b", "local", "local", "local")}
    specs = []
    for more in ("", ", mixture: true"):
        (job,), wrong = plan.list_jobs(read(tmp_path, GOOD.replace("runs: 5", f"runs: 5{more}")), known)
        assert wrong == []
        specs.append(plan.job_spec(job, "out"))
        assert plan.rebuild_job(specs[-1]).session_parameters == job.session_parameters
    first, second = (dict(each["notebook_parameters"]) for each in specs)
    assert second.pop("mixture") is True
    assert first == second


def test_one_private_address_behind_two_gateways_is_two_machines() -> None:
    def site(name: str, gateway: str) -> Site:
        through = {"address": "10.0.0.1", "gateway": "g"}
        hosts = {"server": through, "client": {"address": "192.0.2.9"}}
        team = {"control": through, "worker1": through | {"address": "10.0.0.2", "port": 2222}}
        data = {"name": name, "hosts": hosts, "gateways": {"g": {"address": gateway}}, "clusters": {"flannel": team}}
        return Site(name, f"/{name}.yml", name, "inventory", read=parse_inventory(Path(f"/{name}.yml"), data))

    known = {name: site(name, f"192.0.2.{number}") for name, number in (("a", 1), ("b", 2), ("c", 2))}
    assert file.find_duplicates(known) == ["sites b and c are one: they have the same server; a site is listed once"]
    assert file.machines(known["a"], ["flannel"]) == {
        "server": "192.0.2.1:22>10.0.0.1:22", "client": "192.0.2.9:22",
        "flannel-control": "192.0.2.1:22>10.0.0.1:22", "flannel-worker1": "192.0.2.1:22>10.0.0.2:2222",
    }  # fmt: skip


def test_the_campaign_of_the_guide_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs/campaigns.md").read_text()
    whole, sites = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    found = read(tmp_path, whole)
    assert set(found.parity) <= set(comparability.PARITY)
    for label, entry in found.studies.items():
        plan.request(label, entry.parameters())
    assert read(tmp_path, GOOD.split("sites:\n")[0] + sites).sites["big"].slurm.partition == "bench"
    named = page.split("`parity` can name ")[1].split("\n\n")[0]
    assert all(f"`{name}`" in named for name in comparability.PARITY)


def test_what_an_alias_stands_for_has_the_line_where_it_is_written(tmp_path: Path) -> None:
    text = GOOD.replace("{profile: smoke, runs: 5}", "&x {profile: smoke, runs: y}").replace(
        "{study: containers, sites: [a]}", "*x"
    )
    assert any(each.startswith("line 3, studies.containers.runs") for each in faults(tmp_path, text))
