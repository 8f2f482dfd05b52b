"""What the notebook on the published numbers shows, and what of the recorded sessions stands beside each of them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from infrabench.notebook import headless, published_audit
from tests.support import sidecars
from tests.support.places import ROOT

pytestmark = pytest.mark.timeout(600)  # the notebook takes half a minute, and minutes beside the work of others

NOTEBOOK = ROOT / "notebooks" / "published.ipynb"


def test_papers_count_what_they_print() -> None:
    text = str(published_audit.papers())
    assert text.count("\n") == 7
    assert re.search(r"\| 002 \|.*\| 76 \| 31 \| 1, 3, not for all \|", text)
    assert re.search(r"\| 001 \|.*\| several \|", text)


@pytest.mark.parametrize(
    ("study", "findings", "printed"),
    [
        ("A", 44, [r"\| iozone-read \| percent of native \|", r"Mbps \(MB/s\) \|  \| 83.088 \| 92.32 \| 97.93 \|"]),
        ("B", 12, []),
        ("C", 14, ["cle725…b70282"]),
        ("D", 15, []),
    ],
)
def test_numbers_and_findings_are_shown_and_are_whole_in_the_files(
    study: str, findings: int, printed: list[str], tmp_path: Path
) -> None:
    def whole(kind: str) -> pd.DataFrame:
        path = tmp_path / f"tables/published/{kind}-{study}.csv"
        return pd.read_csv(path, dtype="str", keep_default_na=False)

    shown = str(published_audit.numbers(study, str(tmp_path)))
    assert whole("numbers")["id"].str.startswith(f"{study}.").all()
    assert not re.search(r"\b(nan|<NA>)\b", shown)
    assert all(re.search(each, shown) for each in printed)
    audit = published_audit.audit(study, str(tmp_path))
    rows = whole("audit")
    assert len(rows) == findings
    assert (rows["inputs"] + rows["evidence"] != "").all()
    assert str(audit).count("Text: ") == (rows["basis"] == "text").sum()
    assert "<script" not in audit.html


def test_composite_is_written_and_says_which_orders_are_open(tmp_path: Path) -> None:
    shown = str(published_audit.composite(str(tmp_path)))
    assert "| 81.75 [81.25, 82.25] | 86.50 [86.00, 87.00] | 90.50 [90.00, 91.00] | LXD > LXC > Docker |" in shown
    assert shown.count("LXC ? Docker") == 3
    assert str(published_audit.leads(str(tmp_path))).count("| open |") == 3
    drawn = published_audit.figure(str(tmp_path))
    assert "data:image/png;base64" in drawn.html
    assert {path.suffix for path in (tmp_path / "figures/published").iterdir()} == {".pdf", ".svg", ".png", ".json"}
    assert (tmp_path / "tables/published/composite.tex").exists()


def test_sentences_come_from_the_values() -> None:
    text = str(published_audit.meaning())
    assert "LXD is first in 8 of 8 versions; its smallest lead is 2.3 points, and 1.7 when" in text
    assert "ahead of Docker in 6 of 8 versions and behind in 2; in 3 of them" in text
    assert "4.75 points, becomes -1.2 to 1.6" in text
    assert "Cannot be decided" in str(published_audit.outcome("D"))


def test_targets_and_tally_are_written(tmp_path: Path) -> None:
    text = str(published_audit.targets(str(tmp_path)))
    assert "| A.web.rps.range | lxd / native | 0.89200 to 0.99995 | 0.89150 to 0.99996 |" in text
    assert "| stream average_B_per_s |" in text
    assert "| A | changes a conclusion | 12 | 3 | 0 |" in str(published_audit.tally(str(tmp_path)))
    assert {path.name for path in (tmp_path / "tables/published").glob("*.md")} == {"targets.md", "tally.md"}


def test_the_notebook_has_no_number_of_its_own_and_half_of_it_is_prose() -> None:
    cells = nbformat.read(NOTEBOOK, 4).cells
    prose = [cell.source for cell in cells if cell.cell_type == "markdown"]
    assert 2 * len(prose) >= len(cells)
    for text in prose:
        assert not re.search(r"\d", re.sub(r"\b00[0-4]\b|iperf3", "", text)), text


def test_the_notebook_runs_and_every_printed_result_has_ours_or_a_reason(tmp_path: Path) -> None:
    made = headless.execute(NOTEBOOK, tmp_path / "published.ipynb", {"out": str(tmp_path)})
    outputs = [output for cell in nbformat.read(made, 4).cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    assert sum("data:image/png;base64" in str(output.get("data", {})) for output in outputs) == 4
    assert len(list((tmp_path / "tables/published").glob("*.csv"))) == 13
    sidecars.compare(tmp_path / "figures", "published", "containers-papers", "cnis-papers", "runtimes-papers")
    rows = pd.read_csv(tmp_path / "tables/published/coverage.csv", dtype="str", keep_default_na=False)
    assert len(rows) == 227
    assert not rows[(rows["ours"] == "") == (rows["why not"] == "")]["number"].tolist()
    beside = rows[rows["ours"] != ""]
    assert len(beside) >= 180
    assert beside["session"].str.startswith("lab-").all()
    printed = beside.set_index("number")
    share = printed.loc["A.iozone.read.percent.docker.000", "ours"]
    assert re.search(r"iozone size=64MiB, docker / native, read: [\d.]+ \[[\d., ]+\]", share)
    assert printed.loc["A.overall.iozone-read.score.docker.003", "ours"] == share  # printed again
