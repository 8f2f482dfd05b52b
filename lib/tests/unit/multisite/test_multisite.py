"""From campaigns and lists of sessions to tables, figures and sentences over sites."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from infrabench import cli
from infrabench.core import DesignError, LedgerError, SchemaError
from infrabench.experiment.provenance.comparability import NotComparable, between_sites, differences
from infrabench.ledger import catalogue
from infrabench.notebook import multisite
from infrabench.stats.sites import STANDS_OUT
from tests.support.analysis_fixtures import EFFECT, write_session

HOST: dict[str, Any] = {
    "hostname": "server", "cpu": {"model_name": "Made-up 9", "usable_cpus": 4}, "kernel": {"release": "6.1"},
    "memory": {"total_bytes": 1 << 34}, "virtualisation": {"container": None, "vm": None},
}  # fmt: skip
DOCKER: dict[str, Any] = {"facts": {"version": "28.1"}, "tools": {"web": "ab 2.3"}}


def session(
    folder: Path, seed: int, host: Mapping[str, Any] = HOST, docker: Mapping[str, Any] = DOCKER,
    other: str = "docker", not_run: Mapping[str, str] | None = None, **change: Any,
) -> Path:  # fmt: skip
    """Write a session of native and `other` with the provenance of one host; `change`: of session.json."""
    write_session(folder, seed=seed, systems=("native", other), not_run=not_run or {}, faults=False)
    (folder / "provenance").mkdir()
    (folder / "provenance/server.json").write_text(json.dumps(host))
    (folder / "provenance/deployments.json").write_text(json.dumps({"docker": docker}))
    if change:
        path = folder / "session.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with four sessions: a, b and c of hosts of their own, d on a slowed one."""
    root = tmp_path_factory.mktemp("home")
    for i, name in enumerate("abcd"):
        with pytest.MonkeyPatch.context() as patch:
            if name == "d":
                patch.setitem(EFFECT, "docker", 0.70)
            session(root / f"data/runs/containers/{name}", i, HOST | {"hostname": f"host-{name}"})
    return root


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRABENCH_HOME", str(home))


def entry(site: str, state: str = "complete", **more: Any) -> dict[str, Any]:
    return {"site": site, "study": "containers", "session": f"data/runs/containers/{site}", "state": state,
            "reason": None, **more}  # fmt: skip


def campaign(path: Path, *entries: Mapping[str, Any], name: str = "three-racks") -> Path:
    path.write_text(json.dumps({"name": name, "sessions": list(entries)}))
    return path


def test_a_campaign_is_analysed_with_every_planned_site(tmp_path: Path) -> None:
    file = campaign(
        tmp_path / "campaign.json", *map(entry, "abc"), entry("d", "partial", reason="interrupted"),
        entry("e", "failed", reason="no route to it"), entry("f", "missing", session=None),
    )  # fmt: skip
    (one,) = multisite.opened(file, out=str(tmp_path))
    assert one.name == "three-racks-containers"
    assert one.sites == list("abcdef")
    assert set(one.folders) == set("abcd")
    web = one.over[(one.over["workload"] == "web") & (one.over["metric"] == "requests_per_s")]
    assert (web["sites"] == 4).all()
    assert set(web["missing"]) == {"e: failed: no route to it; f: missing"}
    assert (web["named"] == f"d {STANDS_OUT}").mean() > 0.8
    told = multisite.members([one]).text
    assert "| d | d | partial |" in told
    assert "no route to it" in told
    assert "| 4 of 6 |" in multisite.table([one], "heterogeneity").text
    assert "native at 4 sites" in multisite.forest([one], "web", "requests_per_s", "users=1000").text
    said = multisite.findings([one]).text
    assert "d is partial: interrupted." in said
    assert "over 4 sites" in said
    assert "Missing: e: failed: no route to it; f: missing." in said


def test_what_is_shown_is_written(tmp_path: Path) -> None:
    found = multisite.opened(sessions=["a", "b", "c"], labels=["one", "two", "three"], out=str(tmp_path))
    shown = multisite.forests(found)
    assert shown.html.count("data:image/png;base64") == 2  # the primary metrics
    assert multisite.forest(found, "stream", "copy_B_per_s").text.startswith("Ratio of geometric means to native at 3")
    assert "not measured at these sites" in multisite.forest(found, "stream", "no_such").text
    table = multisite.table(found, "ratios").text
    assert "| one | two | three | mean of sites | mean of sites 95 % CI | Hartung-Knapp 95 % CI | a new site |" in table
    assert "SD between sites %" in multisite.table(found, "heterogeneity", ["web"]).text
    assert "no such workload" in multisite.table(found, "ratios", ["nothing"]).text
    with pytest.raises(DesignError, match="unknown table 'ratio'"):
        multisite.table(found, "ratio")
    written = {path.suffix for path in (tmp_path / "figures/sites-containers").iterdir()}
    assert written == {".pdf", ".svg", ".png", ".json"}
    car = json.loads(next((tmp_path / "figures/sites-containers").glob("sites-web-*.json")).read_text())
    assert car["parameters"]["sites"] == ["one", "two", "three"]
    csv = (tmp_path / "tables/sites-containers/sites-heterogeneity.csv").read_text()
    assert "hartung_knapp_low" in csv.splitlines()[0]


def test_several_studies_of_a_campaign_are_parts_of_their_own(tmp_path: Path) -> None:
    file = campaign(
        tmp_path / "c.json", entry("a", label="first"), entry("b", label="first"),
        entry("a", label="again", session="data/runs/containers/c"),
    )  # fmt: skip
    found = multisite.opened(file, out=str(tmp_path))
    assert [each.name for each in found] == ["three-racks-first", "three-racks-again"]
    told = multisite.findings(found).text
    assert "three-racks-first\n\n- " in told
    assert "two sites: no mean over sites" in told
    assert "a single site: nothing is known of others" in told
    assert "mean of sites" not in multisite.table(found, "ratios").text


def test_a_campaign_without_any_session_says_so_and_draws_nothing(tmp_path: Path) -> None:
    found = multisite.opened(campaign(tmp_path / "c.json", entry("a", "failed", reason="gone")), out=str(tmp_path))
    for show in (multisite.findings, multisite.forests, multisite.differences):
        assert show(found).text.startswith("There is no session to analyse")
    assert "gone" in multisite.members(found).text
    assert list(tmp_path.glob("figures/*")) == []


def test_a_site_whose_session_is_not_there_cannot_be_read_or_has_no_trial_says_nothing(tmp_path: Path) -> None:
    broken, new = session(tmp_path / "broken", 8), tmp_path / "new"
    next(broken.glob("trials/*/trial.json")).write_text("{")
    write_session(new, skip_last=10_000, systems=("native", "docker"), not_run={}, faults=False)
    file = campaign(
        tmp_path / "c.json", *map(entry, "abx"), entry("y", session=str(broken)),
        entry("new", "partial", session=str(new)),
    )  # fmt: skip
    (one,) = multisite.opened(file, out=str(tmp_path))
    assert [each.state for each in one.members[2:]] == ["missing", "missing", "partial"]
    assert set(one.folders) == {"a", "b", "new"}
    assert (one.over["sites"] <= 2).all()
    for why in ("x: missing: unknown session", "y: missing: .*is not JSON", "new: not measured there"):
        assert one.over["missing"].str.contains(why).all()
    assert "0 of" in multisite.members([one]).text
    with pytest.raises(LedgerError, match="is not JSON"):  # of a list it is an error
        multisite.opened(sessions=["a", str(broken)])


def lose(folder: Path, *workloads: str) -> Path:
    """Let the trials of these workloads, or of all, end as timeouts."""
    for path in folder.glob("trials/*/trial.json"):
        data = json.loads(path.read_text())
        if not workloads or data["trial"]["workload"] in workloads:
            path.write_text(json.dumps(data | {"state": "timeout", "reason": "too long", "measurements": []}))
    return folder


def test_a_site_that_lost_all_trials_of_a_case_or_has_not_run_a_system_is_missing_there_for_that(
    tmp_path: Path,
) -> None:
    lost = lose(session(tmp_path / "lost", 8), "web")
    bare = session(tmp_path / "bare", 9, other="lxc", not_run={"docker": "no guest image"})
    (one,) = multisite.opened(sessions=["a", "b", "c", str(lost), str(bare)], out=str(tmp_path))
    docker = one.over[one.over["system"] == "docker"]
    web, other = docker[docker["metric"] == "requests_per_s"], docker[docker["workload"] != "web"]
    assert set(web["missing"]) == {"lost: no ok trial of docker and native; bare: not run: no guest image"}
    assert set(other["missing"]) == {"bare: not run: no guest image"}
    assert web["ratio"].isna().all()
    assert web["reason"].str.contains("lost trials at lost: no verdict on the rest").all()
    assert other["ratio"].notna().all()
    assert "no ok trial of docker and native" in multisite.findings([one]).text


def test_sites_that_lost_every_trial_are_not_sites_without_a_session(tmp_path: Path) -> None:
    pair = [str(lose(session(tmp_path / name, i))) for i, name in enumerate(("one", "two"))]
    found = multisite.opened(sessions=pair, out=str(tmp_path))
    for show in (multisite.findings, multisite.forests):
        assert show(found).text == multisite.NO_CASE
    assert multisite.table(found, "ratios").text == multisite.NO_CASE
    assert "| one | one | complete |" in multisite.members(found).text


def test_a_name_that_is_no_name_of_a_folder_leads_nowhere(tmp_path: Path) -> None:
    file = campaign(tmp_path / "c.json", entry("a"), entry("b"), name="../../<b>away</b>")
    (one,) = multisite.opened(file, out=str(tmp_path / "in"))
    multisite.table([one], "ratios")
    assert [path.name for path in (tmp_path / "in/tables").iterdir()] == ["b-away-b--containers"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not a campaign.json"),
        ('{"name": "n"}', "KeyError: 'sessions'"),
        ('{"name": "n", "sessions": []}', "names no session"),
        ('{"name": "n", "sessions": [{"site": "a", "study": "s", "state": "done"}]}', "state 'done' of a: known are"),
    ],
)
def test_a_file_that_is_no_campaign_is_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(DesignError, match=said):
        multisite.opened(tmp_path / "c.json")
    with pytest.raises(DesignError, match="not a campaign"):
        multisite.opened(tmp_path / "none.json")


def test_a_site_or_session_given_twice_is_refused(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DesignError, match="site a is there twice"):
        multisite.opened(campaign(tmp_path / "c.json", entry("a"), entry("a", session="data/runs/containers/b")))
    monkeypatch.chdir(home)
    (tmp_path / "link").symlink_to(home / "data/runs/containers/a")
    for again in ("a", "data/runs/containers/a", str(tmp_path / "link")):
        with pytest.raises(DesignError, match=r"session .*/a is there twice"):
            multisite.opened(sessions=["a", again], labels=["one", "two"])
    with pytest.raises(DesignError, match="2 sessions and 1 labels"):
        multisite.opened(sessions="a,b", labels="one")
    with pytest.raises(DesignError, match="name sessions"):
        multisite.opened()
    with pytest.raises(DesignError, match="unknown session 'zz'"):
        multisite.opened(sessions=["a", "zz"])


# may they stand side by side


def case(**params: int) -> dict[str, Any]:
    return {"parameters": {"cases": [{"workload": "web", "scenario": "u", "params": params}]}}


@pytest.mark.parametrize(
    ("one", "other", "error", "said"),
    [
        ({}, {"study": "cnis"}, SchemaError, "sessions of different study"),
        ({}, {"baseline": "docker"}, SchemaError, "sessions of different baseline"),
        ({}, {"parameters": {"margins": {"": 0.5}}}, NotComparable, "asked margins"),
        (case(n=1), case(n=2), NotComparable, "asked case web u"),
        ({}, case(n=1), None, ""),  # a case that one site does not have is missing there
    ],
)
def test_sites_that_were_asked_for_other_things_are_refused(
    one: dict[str, Any], other: dict[str, Any], error: type[Exception] | None, said: str, tmp_path: Path
) -> None:
    pair = [str(session(tmp_path / f"s{n}", n, **change)) for n, change in enumerate((one, other))]
    with pytest.raises(error, match=said) if error else nullcontext():
        assert multisite.opened(sessions=pair)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_every_two_sites_are_held_against_each_other_in_any_order(order: tuple[int, ...], tmp_path: Path) -> None:
    cases = [{"parameters": {"cases": []}}, case(n=1), case(n=2)]
    three = [session(tmp_path / f"s{n}", n, **change) for n, change in enumerate(cases)]
    with pytest.raises(NotComparable, match="asked case web u"):
        multisite.opened(sessions=[str(three[n]) for n in order])


@pytest.mark.usefixtures("sketches")
def test_what_differs_between_sites_is_told_and_goes_with_every_figure(tmp_path: Path) -> None:
    newer = session(
        tmp_path / "newer", 5, HOST | {"hostname": "n", "kernel": {"release": "6.12"}},
        DOCKER | {"facts": {"version": "29.0"}},
    )  # fmt: skip
    found = multisite.opened(sessions=["a", "b", str(newer)], out=str(tmp_path))
    assert found[0].between.stamp == "Sites differ in hosts kernel.release, docker version."
    assert found[0].between.differs["docker version"] == {"a": "28.1", "b": "28.1", "newer": "29.0"}
    told = multisite.differences(found).text
    assert "| docker version | 28.1 | 28.1 | 29.0 |" in told
    assert found[0].between.stamp in multisite.forest(found, "web", "requests_per_s", "users=1000").text
    assert found[0].between.stamp in (tmp_path / "tables/sites-containers").joinpath("sites-ratios.md").read_text() \
        if multisite.table(found, "ratios") else False  # fmt: skip


def test_sites_that_are_one_machine_are_called_so(tmp_path: Path) -> None:
    boxed = HOST | {"virtualisation": {"container": "lxc", "vm": None}}
    one, two = (session(tmp_path / n, i, boxed | {"hostname": n}) for i, n in enumerate(("one", "two")))
    again = session(tmp_path / "again", 3, HOST | {"hostname": "host-a"})
    found = multisite.opened(sessions=["a", "b", str(one), str(two), str(again)], out=str(tmp_path))
    assert found[0].between.one_machine == (("a", "again"), ("one", "two"))
    assert found[0].between.stamp.startswith("One machine measured as a and again: nothing here speaks of another one.")
    first = multisite.findings(found).text.splitlines()[0]
    assert first == f"- {found[0].between.stamp}"
    (other,) = multisite.opened(sessions=["a", "b", "c"])
    assert other.between.one_machine == ()
    assert multisite.differences([other]).text == "Nothing that is compared differs between the sites."


def measured_on(folder: Path, host: Mapping[str, Any], **change: Any) -> Path:
    """Write what a session without trials says of itself and of its host; `change`: of session.json."""
    (folder / "provenance").mkdir(parents=True)
    about = json.loads(catalogue.find(None, "a").joinpath("session.json").read_text())
    (folder / "session.json").write_text(json.dumps(about | change))
    (folder / "provenance/server.json").write_text(json.dumps(host))
    return folder


def test_one_machine_has_one_name_processor_and_size_whatever_its_kernel(tmp_path: Path) -> None:
    nights = {
        "before": {}, "after": {"kernel": {"release": "6.2"}, "memory": {"total_bytes": (1 << 34) - 5_000_000}},
        "smaller": {"memory": {"total_bytes": 1 << 33}}, "elsewhere": {"hostname": "other"},
    }  # fmt: skip
    folders = {name: measured_on(tmp_path / name, HOST | change) for name, change in nights.items()}
    assert between_sites(folders).one_machine == (("before", "after"),)
    boxed = HOST | {"virtualisation": {"container": "lxc", "vm": None}}
    boxes = {name: measured_on(tmp_path / f"box-{name}", boxed | change) for name, change in nights.items()}
    assert between_sites(boxes).one_machine == (("before", "elsewhere"),)


def test_clusters_are_not_one_machine_because_one_steers_them(tmp_path: Path) -> None:
    sites = {"one": "kubernetes-1a2b3c", "two": "kubernetes-4d5e6f", "twice": "kubernetes-1a2b3c"}
    folders = {
        name: measured_on(
            tmp_path / name, HOST | ({"kernel": {"release": "6.2"}} if name == "twice" else {}),
            site={"name": cluster, "kind": "kubeconfig"},
        )
        for name, cluster in sites.items()
    }  # fmt: skip
    found = between_sites(folders)
    assert found.one_machine == (("one", "twice"),)
    assert found.differs == {}
    one, two = (differences(folders["one"], folders[name]) for name in ("two", "twice"))
    assert {(each.where, each.key) for each in one if each.checked} == {(name, "host") for name in set(sites.values())}
    assert [(each.where, each.key, each.checked) for each in two] == [("controller server", "kernel.release", False)]


# the command


@pytest.mark.usefixtures("sketches")
def test_the_command_tells_sites_ratios_and_what_they_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = campaign(tmp_path / "campaign.json", *map(entry, "abd"))
    assert cli.main(["campaign", "compare", str(file), "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "three-racks-containers: Containers" in out
    assert "mean of sites 95 % CI" in out
    assert "p of equal sites" in out
    assert cli.main(["campaign", "compare", "a", "b", "--labels", "one", "two", "--out", str(tmp_path)]) == 0
    assert "| one | a | complete |" in capsys.readouterr().out
    assert cli.main(["campaign", "compare", "a", "zz"]) == 2
    assert "unknown session" in capsys.readouterr().err
