"""The pages beside the notebooks: what a session lacks is said before its verdicts, and once."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from infrabench.publish.report import pages
from infrabench.publish.report.executed import Executed
from tests.support.report_fixtures import session, told


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return told(session(tmp_path_factory.mktemp("pages") / "s"))


def shown(abstract: dict[str, Any], name: str = "containers") -> pages.ShownNotebook:
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Containers")])
    return pages.ShownNotebook(Executed(name, node, "", True, (abstract,), None, None), "p")


def overview(one: pages.ShownNotebook) -> str:
    return pages.render("overview", "T", [one])


def study(one: pages.ShownNotebook) -> str:
    return pages.render("study", "T", [one], one)


def test_a_session_that_is_not_whole_says_so_beside_its_verdicts(whole: dict[str, Any]) -> None:
    warning = "5 planned trials had no record when this was computed"
    for page in (overview, study):
        assert warning in page(shown(whole | {"recorded": whole["planned"] - 5}))
        assert "had no record" not in page(shown(whole))


def test_a_title_that_repeats_the_question_is_left_out(whole: dict[str, Any]) -> None:
    assert "<b>Containers</b>" not in study(shown(whole))
    assert "<b>Another</b>" in study(shown(whole | {"title": "Another"}))


def test_a_session_whose_answer_is_known_has_no_verdicts_in_the_overview(whole: dict[str, Any]) -> None:
    for known in ({"aa": "docker"}, {"known": True}):
        page = shown(whole | known)
        assert 'class="verdicts"' not in overview(page)
        assert 'class="verdicts"' in study(page)


def test_where_nothing_can_be_compared_it_says_so(whole: dict[str, Any]) -> None:
    alone = whole | {"verdicts": {"columns": whole["verdicts"]["columns"], "rows": []}}
    assert "There is nothing to compare native with." in study(shown(alone))


@pytest.mark.parametrize(
    ("name", "title"), [("cnis", "CNIs"), ("a_b-c", "A b c"), ("*x* [y](z)", "X y z"), ("...", "Notebook")]
)
def test_a_files_name_becomes_plain_words(whole: dict[str, Any], name: str, title: str) -> None:
    assert f"<h1>{title}</h1>" in study(shown(whole, name))
