"""The pages beside the notebooks: the answer first, what a session lacks beside it, and every number's raw output."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

import nbformat
import pytest

from infrabench.notebook import session_tables
from infrabench.publish.report import answers, pages
from infrabench.publish.report.executed import Executed
from infrabench.publish.report.files import BlockTable, Data, TrialValue
from tests.support.report_fixtures import session, told

ROW = {
    "workload": "web", "scenario": "users=1000", "metric": "requests (1/s)", "system": "docker", "n": "30 blocks",
    "ratio": "0.985", "ratio 95 % CI": "[0.949, 1.012]", "ratio low": "0.9491", "ratio high": "1.0119",
    "verdict": "inconclusive (n = 2800 decides)", "ruled out": "costs at most 5.1 %, gains at most 1.2 % (95 %)",
    "margin %": "2", "p adjusted": "0.3", "p equivalence adjusted": "0.4", "verdict without flagged": "", "reason": "",
    "ratio 90 % CI": "[0.95, 1.01]", "better": "higher",
}  # fmt: skip
DIFFERENT = {"scenario": "users=2000", "verdict": "different", "ratio low": "0.9012", "ratio high": "0.9499",
             "ruled out": "costs 5.0 to 9.9 % (95 %)", "reason": "3 of 30 timed out"}  # fmt: skip
NONE = {"scenario": "users=3000", "verdict": "not comparable", "ratio low": "nan", "ratio high": "nan", "ruled out": "",
        "ratio": "n/a", "ratio 95 % CI": "n/a", "n": "0 blocks", "reason": "no ok trial of docker"}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return told(session(tmp_path_factory.mktemp("pages") / "s"))


def of(abstract: dict[str, Any], *rows: dict[str, str], **changes: Any) -> dict[str, Any]:
    """Return an abstract with these contrasts, each a change of `ROW`."""
    made = [ROW | row for row in rows]
    verdicts = {"columns": list(ROW), "rows": [[row[name] for name in ROW] for row in made]}
    return abstract | {"verdicts": verdicts, "not_run": {}} | changes


def shown(abstract: dict[str, Any], name: str = "containers", data: tuple[Data, ...] = ()) -> pages.ShownNotebook:
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Containers")])
    return pages.ShownNotebook(Executed(name, node, "", True, (abstract,), None, None), "p", data=data)


def overview(one: pages.ShownNotebook) -> str:
    return pages.render("overview", [one])


def study(one: pages.ShownNotebook) -> str:
    return pages.render("study", [one], one)


def words(page: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", page.partition("<h1")[2])))


def test_the_first_page_answers_in_a_sentence_for_each_system(whole: dict[str, Any]) -> None:
    text = words(overview(shown(of(whole, {}, DIFFERENT, {"system": "lxc", "verdict": "equivalent"}))))
    assert "Against native, with 95 % confidence for each interval:" in text
    assert (
        "docker : web requests costs 5.0 to 9.9 % (users=2000); "
        "costs at most 5.1 %, gains at most 1.2 % (users=1000) † ."
    ) in text
    assert "lxc : web requests is the same within 2 % (costs at most 5.1 %, gains at most 1.2 %) ." in text
    assert "measurement n = 30 blocks · lab, the embedded lab of one machine · profile quick" in text


def test_an_open_verdict_says_what_is_ruled_out_and_its_n_is_folded(whole: dict[str, Any]) -> None:
    one = shown(of(whole, {}))
    first, page = overview(one), study(one)
    assert "2800" not in first + page.partition("<h2")[0]
    assert "inconclusive" not in words(first).partition("How to read it")[0]
    assert "costs ≤ 5.1 %, gains ≤ 1.2 %" in first
    folded = page.partition("<summary>Every primary contrast")[2].partition("</details>")[0]
    assert "<td>2800</td>" in folded


@pytest.mark.parametrize(
    ("changes", "row", "grade", "text"),
    [
        ({"profile": "smoke"}, {}, "smoke", "smoke run: shows that it works, decides nothing"),
        (
            {},
            {"n": "3 deployments"},
            "few",
            "measurement with few deployments: at n = 3 intervals rest on a normal distribution",
        ),
        ({}, {"n": "6 blocks"}, "measurement", "measurement"),
        ({}, NONE, "measurement", "measurement"),
    ],
)
def test_a_badge_tells_a_smoke_run_from_a_measurement(
    whole: dict[str, Any], changes: dict[str, Any], row: dict[str, str], grade: str, text: str
) -> None:
    page = overview(shown(of(whole, row, **changes)))
    assert f'<span class="badge {grade}">{text}</span>' in page
    sentences = page.partition('class="sentences"')[0]
    assert ("<details><summary>What its intervals would say" in sentences) == (grade == "smoke")


def test_what_has_no_answer_is_folded_with_its_count(whole: dict[str, Any]) -> None:
    page = overview(shown(of(whole, {}, DIFFERENT, NONE, not_run={"lxd": "no daemon", "kata": "no KVM"})))
    text = words(page)
    assert "Not comparable: 1 web requests, users=3000, docker : no ok trial of docker" in text
    assert "† With a remark: 1 web requests, users=2000, docker : 3 of 30 timed out" in text
    assert "Not run: 2 lxd : no daemon kata : no KVM" in text
    assert page.count('<details class="gap">') == 3


def test_the_forest_has_cost_to_the_right_whatever_is_better(whole: dict[str, Any]) -> None:
    contrasts = answers.read_contrasts(of(whole, DIFFERENT, DIFFERENT | {"better": "lower"}, NONE))
    (worse, better, none), ticks, zero = answers.draw_forest(contrasts)
    assert worse.ends[0] > zero > better.ends[1]
    assert none.ends is None
    assert (zero, "0") in ticks
    assert [place for place, _ in ticks] == sorted(place for place, _ in ticks)
    assert answers.draw_forest(answers.read_contrasts(of(whole, NONE)))[0] == []
    (endless,), *_ = answers.draw_forest(answers.read_contrasts(of(whole, {"better": "lower", "ratio high": "inf"})))
    assert endless.ends[1] == 100


def test_a_number_leads_to_its_values_and_they_to_what_was_printed(whole: dict[str, Any]) -> None:
    anchor = "case-s-web-users-1000"
    value = TrialValue("7800", "0a1b", "files/raw/s/0a1b.txt")
    table = BlockTable(anchor, "web, users=1000: requests (1/s)", ("docker",), ((4, ((value,),)),))
    one = shown(of(whole, {}), data=(Data("s", (), "", (table,), "data/runs/containers/s"),))
    for page in (overview(one), study(one)):
        assert page.count(f'href="p-trials.html#{anchor}"') >= 2
    trials = pages.render("trials", [one], one)
    assert f'id="{anchor}"' in trials
    assert '<a href="files/raw/s/0a1b.txt">7800</a>' in trials
    assert "data/runs/containers/s/trials/" in trials
    assert "p-trials.html" not in overview(shown(of(whole, {})))


def test_a_session_that_is_not_here_leads_to_no_values_of_another(whole: dict[str, Any]) -> None:
    here = Data("s", (), "", (BlockTable("case-s-web-users-1000", "web", ("docker",), ()),), "data/runs/containers/s")
    for page in (overview, study):
        assert "p-trials.html#case-s-web" in page(shown(of(whole, {}), data=(here,)))
        assert "p-trials.html#" not in page(shown(of(whole, {}, sessions=["gone"]), data=(here,)))


def test_the_abstract_of_an_older_notebook_still_makes_a_page(whole: dict[str, Any]) -> None:
    gone = (*session_tables.ENDS, session_tables.RULED_OUT)
    rows = [{key: value for key, value in zip(ROW, row, strict=True) if key not in gone} for row in [ROW.values()]]
    old = whole | {"verdicts": {"columns": list(rows[0]), "rows": [list(rows[0].values())]}}
    page = study(shown(old))
    assert "[0.949, 1.012]" in page
    assert 'class="forest"' not in page


def test_a_session_that_is_not_whole_says_so_beside_its_answer(whole: dict[str, Any]) -> None:
    warning = "5 planned trials had no record when this was computed"
    for page in (overview, study):
        assert warning in page(shown(whole | {"recorded": whole["planned"] - 5}))
        assert "had no record" not in page(shown(whole))


def test_a_title_that_repeats_the_question_is_left_out(whole: dict[str, Any]) -> None:
    assert "<b>Containers</b>" not in study(shown(whole))
    assert "<b>Another</b>" in study(shown(whole | {"title": "Another"}))


def test_a_session_whose_answer_is_known_has_no_answer_in_the_overview(whole: dict[str, Any]) -> None:
    for known in ({"aa": "docker"}, {"known": True}):
        page = shown(whole | known)
        assert 'class="forest"' not in overview(page)
        assert 'class="forest"' in study(page)


def test_where_nothing_can_be_compared_it_says_what_the_notebook_said(whole: dict[str, Any]) -> None:
    said = "No scenario with a primary metric was tried on native and on another system."
    bare = whole | {"verdicts": {"columns": whole["verdicts"]["columns"], "rows": []}, "none": said}
    assert overview(shown(bare)).count(said) == 1
    assert study(shown(bare)).count(said) == 2


def test_a_session_of_another_profile_is_folded_below_the_notebooks_own(whole: dict[str, Any]) -> None:
    own, other = of(whole, {}), of(whole, DIFFERENT, profile="load", sessions=["recorded"])
    one, second = shown(own), of(whole, DIFFERENT, sessions=["of another site"])
    both = replace(one, executed=replace(one.executed, abstracts=(own, other, second)))
    for page in (overview, study):
        text = page(both)
        assert text.count("Shown beside it: ") == 1
        folded = text[text.index("Shown beside it: recorded, profile load") :].partition("</details>")[0]
        assert "costs 5.0 to 9.9 %" in folded
        assert "Shown beside it" not in page(one)


@pytest.mark.parametrize(
    ("name", "title"), [("cnis", "CNIs"), ("a_b-c", "A b c"), ("*x* [y](z)", "X y z"), ("...", "Notebook")]
)
def test_a_files_name_becomes_plain_words(whole: dict[str, Any], name: str, title: str) -> None:
    assert f"<h1>{title}</h1>" in study(shown(whole, name))
