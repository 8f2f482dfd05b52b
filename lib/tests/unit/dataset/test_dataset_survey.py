"""The analysis of a data set gives the numbers of the whole table, to the last digit, and holds little of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from infrabench import cli
from infrabench.analysis import session_data
from infrabench.analysis.dataset import folder, survey
from infrabench.analysis.results import Results
from infrabench.core import SchemaError
from infrabench.experiment.provenance.comparability import NotComparable
from infrabench.ledger import catalogue
from infrabench.notebook import api
from infrabench.stats import contrasts, interactions, omnibus, tiers, trends
from infrabench.stats.table import blocked
from tests.support import dataset_sessions as sessions
from tests.support.analysis_fixtures import DATA_A, table_of


def the_same(found: Results, whole: session_data.Session) -> None:
    expected = api.results(whole)
    for name in survey.FRAMES:
        pd.testing.assert_frame_equal(getattr(found, name), getattr(expected, name), check_exact=True)
    assert {key: found.data[key] for key in whole.data} == whole.data


def group_of(root: Path, names: list[Path]) -> survey.Group:
    """Bring sessions of one study at one site into a data set, and return their group."""
    list(folder.update(names, root))
    (group,) = survey.groups(folder.parts(root)[0])
    return group


@pytest.mark.parametrize("study", ["containers", "cnis", "storage", "aa"])
def test_recorded_sessions_say_the_same_to_the_last_digit(study: str, tmp_path: Path) -> None:
    names = [path for _, path in sorted(catalogue.recorded(study).items())]
    whole = session_data.open_session(names[0]) if len(names) == 1 else session_data.pool(names)
    the_same(survey.analyse_group(group_of(tmp_path / "d", names)), whole)


def test_failed_missing_and_pooled_trials_say_the_same(tmp_path: Path) -> None:
    names = [sessions.ledger(tmp_path / f"s{n}", blocks=3, seed=n, skip_last=40 * n, emulated=True) for n in range(4)]
    found = survey.analyse_group(group_of(tmp_path / "d", names))
    the_same(found, session_data.pool(names))
    assert set(found.contrasts["pair_unit"]) == {"deployments"}
    assert found.estimates["failed"].sum() > 0


def test_a_workload_that_a_system_never_tried_is_seen_as_in_the_whole_table() -> None:
    some = {name: DATA_A[name] for name in ("docker", "lxc")}
    parts = [table_of(DATA_A), table_of(some, workload="web", metric="requests_per_s")]
    parts.append(table_of({"native": DATA_A["lxd"], "lxc": DATA_A["lxc"]}, workload="stream", metric="triad_B_per_s"))
    whole = pd.concat(parts, ignore_index=True).assign(trial=lambda t: t["workload"] + t["trial"])
    cubes = [blocked(part, set(whole["system"])) for part in parts]
    margins = {"": 0.02}
    for function, words in (
        (contrasts, ("native", margins, ())), (interactions, ("native", ())), (omnibus, ((),)), (trends, ((),)),
        (tiers, ()),
    ):  # fmt: skip
        each = [function(part, *words, cube=cube) for part, cube in zip(parts, cubes, strict=True)]
        apart = pd.concat(each).sort_values("workload", kind="stable", ignore_index=True)
        pd.testing.assert_frame_equal(apart, function(whole, *words), check_exact=True)
    # without its cube a part does not know of the baseline, and shows contrasts that the whole table leaves out
    assert len(contrasts(parts[1], "native", margins)) == 2
    assert contrasts(parts[1], "native", margins, cube=cubes[1]).empty


def test_groups_are_studies_at_sites(tmp_path: Path) -> None:
    root = tmp_path / "d"
    for site in ("host-b", "host-a"):
        list(folder.update([sessions.ledger(tmp_path / site / name, blocks=1) for name in ("s2", "s1")], root, site))
    found = survey.groups(folder.parts(root)[0])
    assert [(each.site, [one.session for one in each.parts]) for each in found] == [
        ("host-a", ["s1", "s2"]), ("host-b", ["s1", "s2"]),
    ]  # fmt: skip


def changed(session: Path, name: str, **changes: object) -> Path:
    path = session / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return sessions.sealed(session)


def two(tmp_path: Path, name: str, **changes: object) -> survey.Group:
    first, other = (sessions.ledger(tmp_path / each, blocks=2) for each in ("s1", "s2"))
    return group_of(tmp_path / "d", [first, changed(other, name, **changes)])


def test_sessions_that_differ_are_refused_or_stamped(tmp_path: Path) -> None:
    group = two(tmp_path, "provenance/server.json", cpu={"model_name": "another"})
    with pytest.raises(NotComparable, match=r"server cpu\.model_name"):
        survey.analyse_group(group)
    assert "server cpu.model_name" in survey.analyse_group(group, stamped=True).data["stamp"]


def test_sessions_of_different_baselines_are_no_group(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="different baseline"):
        survey.analyse_group(two(tmp_path, "session.json", baseline="docker"), stamped=True)


def test_a_metric_in_two_units_is_refused(tmp_path: Path) -> None:
    names = [sessions.ledger(tmp_path / name, blocks=1) for name in ("s1", "s2")]
    for path in names[1].glob("trials/*/trial.json"):
        path.write_text(path.read_text().replace('"unit": "B/s"', '"unit": "bit/s"'))
    with pytest.raises(SchemaError, match="more than one unit"):
        survey.analyse_group(group_of(tmp_path / "d", names))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    for site in ("host-a", "host-b"):
        sessions.ledger(tmp_path / "data/runs/containers" / f"s-{site}", blocks=2, site=site)
    return tmp_path


def call(capsys: pytest.CaptureFixture, *argv: str) -> tuple[int, str, str]:
    status = cli.main(list(argv))
    return status, *capsys.readouterr()


def test_the_commands(home: Path, capsys: pytest.CaptureFixture) -> None:
    root = str(home / "d")
    status, out, _ = call(capsys, "dataset", "build", "--out", root)
    assert (status, out.count("read   "), "2 sessions" in out) == (0, 2, True)
    status, out, _ = call(capsys, "dataset", "build", "--out", root)
    assert (status, out.count("unchanged")) == (0, 2)
    status, out, _ = call(capsys, "dataset", "analyze", root)
    assert status == 0
    assert "containers/host-a: 1 sessions" in out
    answers = pd.read_parquet(home / "out/answers/containers/host-b/contrasts.parquet")
    whole = api.contrasts(session_data.open_session(home / "data/runs/containers/s-host-b"))
    pd.testing.assert_frame_equal(answers, whole, check_exact=True)
    assert set(pd.read_csv(home / "out/tables/dataset/primary.csv")["site"]) == {"host-a", "host-b"}


def test_a_campaign_names_its_sessions_and_their_sites(home: Path, capsys: pytest.CaptureFixture) -> None:
    rows = [
        {"site": f"rack-{site}", "study": "containers", "session": f"data/runs/containers/s-{site}", "state": state,
         "reason": None} for site, state in (("host-a", "complete"), ("host-b", "partial"))
    ]  # fmt: skip
    rows.append({"site": "rack-c", "study": "containers", "session": None, "state": "missing", "reason": "power cut"})
    file = home / "campaign.json"
    file.write_text(json.dumps({"name": "c", "sessions": rows}))
    status, out, _ = call(capsys, "dataset", "build", "--campaign", str(file), "--out", str(home / "d"))
    assert status == 0
    assert "left out: containers at rack-c, missing: power cut" in out
    assert [each.site for each in folder.parts(home / "d")[0]] == ["rack-host-a", "rack-host-b"]
    assert call(capsys, "dataset", "build", "x", "--campaign", str(file), "--out", str(home / "d"))[0] == 2
    for text in ("[]", "{", '{"sessions": [{}]}', '{"sessions": [3]}', '{"sessions": 3}'):
        file.write_text(text)
        status, _, err = call(capsys, "dataset", "build", "--campaign", str(file), "--out", str(home / "d"))
        assert (status, "is not a campaign.json" in err) == (2, True)


def test_one_site_that_is_damaged_does_not_stop_the_others(home: Path, capsys: pytest.CaptureFixture) -> None:
    root = home / "d"
    call(capsys, "dataset", "build", "--out", str(root))
    path = root / "containers/host-a/s-host-a/trials.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    (root / "stray").touch()
    status, out, err = call(capsys, "dataset", "analyze", str(root))
    assert status == 1
    assert "not analysed" in out
    assert "trials.parquet is damaged" in out
    assert "stray is not of this data set" in out
    assert "1 of 2 studies at sites were not analysed" in err
    assert (home / "out/answers/containers/host-b/tiers.parquet").is_file()
    assert not (home / "out/answers/containers/host-a").exists()
    assert call(capsys, "dataset", "analyze", str(home))[0] == 2


def test_a_page_shows_few_rows_and_says_where_all_are(tmp_path: Path) -> None:
    rows = pd.DataFrame({"study": "containers", "site": [f"host-{n}" for n in range(500)], "note": ""})
    made = survey.DatasetSurvey(rows, pd.DataFrame(), (), 0, tmp_path)
    shown = survey.groups_table(made)
    assert shown.html.count("<tr>") == survey.SHOWN + 1
    assert "The first 200 of 500 rows; groups.csv and groups.parquet have all." in shown.text
    assert len(pd.read_parquet(tmp_path / "tables/dataset/groups.parquet")) == 500
    assert len((tmp_path / "tables/dataset/groups.md").read_text().splitlines()) < survey.SHOWN + 10


def test_an_empty_data_set_says_nothing(tmp_path: Path) -> None:
    folder.begin(tmp_path / "d")
    made = survey.survey(tmp_path / "d", tmp_path / "out")
    assert (len(made.groups), list(survey.lines(made))) == (0, [])
    assert np.isfinite(len(survey.primary_table(made).text))
