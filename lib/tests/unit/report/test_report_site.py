"""The report as a whole: what was computed is in it, what is missing is named, and nothing else is."""

from __future__ import annotations

import csv
import html
import os
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from infrabench import cli
from infrabench.analysis import session_data
from infrabench.analysis.tidy import tidy
from infrabench.core import InfrabenchError, LedgerError
from infrabench.ledger.archive import unpack
from infrabench.ledger.session_folder import SessionFolder
from infrabench.publish.report import files, report
from tests.support.analysis_fixtures import read_table
from tests.support.report_fixtures import NAMED, PNG, TOKEN, figure, figure_file, home, notebook, session, shown, told

EXPECTED = ("cnis", "containers", "runtimes", "storage")
TEXT = (".html", ".js", ".css", ".csv", ".json", ".ipynb", ".svg", ".md", ".tex")


LOADS = ("href", "src", "srcset", "data", "poster", "xlink:href", "http-equiv", "style")


class Page(HTMLParser):
    """What a page links to, what a browser fetches when it opens it, and its pictures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.pictures: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.links += [value for name in ("href", "src") if (value := named.get(name))]
        self.loads += [value for name, value in attrs if name in LOADS and (tag, name) != ("a", "href")]
        self.pictures += [named] * (tag == "img")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def site(checkout: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFRABENCH_HOME", str(checkout))
        out = checkout / "out"
        index = report(
            sorted(out.glob("*.ipynb")), out, figures=[out / "figures"], tables=[out / "tables"], expected=EXPECTED
        )
    assert index == out / "report" / "index.html"
    return index.parent


def read(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text()


def words(site: Path, page: str) -> str:
    """Return a page's text without its tags."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", read(site, page))))


def test_the_verdicts_are_those_of_the_notebook(site: Path, checkout: Path) -> None:
    found = told(checkout / "data/runs/containers" / NAMED)
    assert len(found["verdicts"]["rows"]) == 2 * 13
    text = words(site, "containers")
    for row in found["verdicts"]["rows"]:
        cell = dict(zip(found["verdicts"]["columns"], row, strict=True))
        assert f"{cell['ratio']} {cell['ratio 95 % CI']} {cell['ruled out']}".rstrip() in text
        assert cell["verdict"].partition(" (")[0] in text
        for page in ("index", "containers"):
            assert f"{cell['workload']} {cell['metric'].partition(' (')[0]}" in words(site, page)


def test_every_value_leads_to_its_trial_and_that_to_what_was_printed(site: Path, checkout: Path) -> None:
    links = [unquote(link) for link in Page(read(site, "containers-trials")).links if link.startswith("files/raw/")]
    folder = checkout / "data/runs/containers" / NAMED
    assert {Path(link).stem for link in links} == {trial.id for trial in SessionFolder(folder).awaited}
    values = session_data.open_session(folder).table.dropna(subset=["value"])
    first = values[values["metric"] == "events_per_s"].iloc[0]
    text = (site / f"files/raw/{NAMED}/{first['trial']}.txt").read_text()
    assert text.startswith(f"Trial {first['trial']} of session")
    assert f"events_per_s = {float(first['value'])!r} 1/s" in text
    anchors = set(re.findall(r'id="(case-[\w-]+)"', read(site, "containers-trials")))
    for page in ("index", "containers"):
        wanted = {link.partition("#")[2] for link in Page(read(site, page)).links if "-trials.html#" in link}
        assert wanted
        assert wanted <= anchors


def test_each_session_of_a_notebook_leads_to_values_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRABENCH_HOME", str(tmp_path))
    (tmp_path / "data/runs/containers").mkdir(parents=True)
    made = [session(tmp_path / f"data/runs/containers/{name}") for name in ("first", "second")]
    site = build(tmp_path, notebook(tmp_path / "containers.ipynb", *(shown(told=told(each)) for each in made)))
    trials = read(site, "containers-trials")
    ids = re.findall(r'\bid="([^"]+)"', trials)
    assert len(ids) == len(set(ids))
    first, second = trials.split('<h2 id="session-2">')
    links = Page(read(site, "containers")).links
    for name, own, other in (("first", first, second), ("second", second, first)):
        wanted = {link.partition("#")[2] for link in links if f"-trials.html#case-{name}-" in link}
        assert len(wanted) == 13
        assert all(f'id="{each}"' in own and f'id="{each}"' not in other for each in wanted)


def test_what_is_missing_or_not_whole_is_named_with_the_reason(site: Path) -> None:
    text = words(site, "index")
    assert "storage No executed notebook of it here" in text
    assert "runtimes Never executed" in text
    assert "torn Cannot be read as a notebook" in text
    for page in ("index", "cnis"):
        assert "Interrupted: 1 of its 2 code cells were executed" in words(site, page)
    assert not (site / "runtimes.html").exists()


def test_failures_gaps_plan_and_provenance_are_told(site: Path) -> None:
    text = words(site, "containers")
    assert "measure exited with 1: array too large" in text
    assert "steal 0.041 > 0.02" in text
    assert "lxc, fio default : no such disk" in text
    assert "306 trials in 6 blocks, in random order inside a block, seed 7; every system made ready once." in text
    assert "a processor" in text


def test_hostile_words_are_text_everywhere(site: Path) -> None:
    for path in site.glob("*.html"):
        text = path.read_text()
        assert "<script>alert" not in text, path
        assert "<img src=x" not in text, path
        assert "root:x:0" not in text, path
    for page in ("containers", "containers-notebook"):
        assert '<script>alert("x")</script>' in words(site, page)
    assert NAMED in words(site, "index")


def test_nothing_of_the_machine_is_told(site: Path, checkout: Path) -> None:
    for path in site.rglob("*"):
        if path.is_file() and path.suffix in TEXT:
            text = path.read_text(errors="replace")
            assert str(checkout) not in text, path
            assert TOKEN not in text, path
    assert "data/runs/x is complete" in words(site, "containers-notebook")


def test_it_loads_nothing_and_every_link_in_it_leads_somewhere(site: Path) -> None:
    loads = {load for path in site.glob("*.html") for load in Page(path.read_text()).loads}
    assert {re.sub(r"^files/.*", "files/", load) for load in loads} == {
        "_static/report.css",
        "_static/zoom.js",
        "_static/tables.js",
        "files/",
    }
    assert not re.search(r"@import|url\(|https?:|//", "".join(path.read_text() for path in site.glob("_static/*.css")))
    links = {(path, link) for path in site.glob("*.html") for link in Page(path.read_text()).links}
    local = {(path, link) for path, link in links if not re.match(r"https?:|data:|#|mailto:", link)}
    assert len(local) > 40
    for path, link in local:
        assert (path.parent / unquote(re.split(r"[?#]", link)[0] or path.name)).exists(), (path.name, link)


def test_figures_have_words_and_they_and_tables_come_with_their_files(site: Path) -> None:
    pictures = [each for path in site.glob("*.html") for each in Page(path.read_text()).pictures]
    assert len(pictures) == 2
    assert {each["alt"] for each in pictures} == {"A picture of nothing."}
    page = Page(read(site, "containers"))
    assert {f"files/figures/containers/forest.{kind}" for kind in ("pdf", "svg", "png", "json")} <= set(page.links)
    assert {f"files/tables/containers/contrasts.{kind}" for kind in ("csv", "md", "tex")} <= set(page.links)
    notebook_page = read(site, "containers-notebook")
    assert '<a class="zoom" href="files/figures/containers/forest.svg"><img' in notebook_page


def test_data_are_the_session(site: Path, checkout: Path, tmp_path: Path) -> None:
    folder = checkout / "data/runs/containers" / NAMED
    table = session_data.open_session(folder).table
    for suffix in (".csv", ".parquet"):
        assert read_table(site / f"files/data/{NAMED}{suffix}").equals(table)
    with (site / f"files/data/{NAMED}-plan.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [trial.id for trial in SessionFolder(folder).awaited]


def build(folder: Path, *notebooks: Path, **how: object) -> Path:
    return report(notebooks, folder / "out", **how).parent


def test_a_new_report_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    build(tmp_path, notebook(tmp_path / "old.ipynb", shown(html=figure())))
    site = build(tmp_path, notebook(tmp_path / "new one!.ipynb", shown(text="1")), notebook(tmp_path / "index.ipynb"))
    assert {path.name for path in site.glob("*.html")} == {
        "index.html", "index-2.html", "index-2-notebook.html", "new-one.html", "new-one-notebook.html",
    }  # fmt: skip
    assert not (site / "files/pictures").exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report"]


@pytest.mark.parametrize(
    ("drawn", "kept"),
    [
        ('<metadata><a href="https://example.org/a"/></metadata><use xlink:href="#a"/>', True),
        ('<image href="https://example.org/a.png"/>', False),
        ("<image href='//example.org/a.png'/>", False),
        ('<image href="&#104;ttps:x"/>', False),
        ("<script>fetch(a)</script>", False),
    ],
)
def test_lines_that_would_load_something_are_left_out(tmp_path: Path, drawn: str, kept: bool) -> None:
    path = notebook(tmp_path / "n.ipynb", shown(html=figure(data=PNG)))
    figure_file(tmp_path / "figures/n", "drawn", PNG)
    (tmp_path / "figures/n/drawn.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg">{drawn}</svg>')
    site = build(tmp_path, path, figures=[tmp_path / "figures"])
    assert (site / "files/figures/n/drawn.png").is_file()
    assert (site / "files/figures/n/drawn.svg").is_file() == kept


def test_a_folder_that_is_no_report_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "out/report/mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("x")
    with pytest.raises(InfrabenchError, match="is not a report made here"):
        build(tmp_path, notebook(tmp_path / "n.ipynb"))
    assert mine.read_text() == "x"


def test_files_of_another_run_are_left_out(tmp_path: Path) -> None:
    ran = {"papermill": {"start_time": "2020-01-01T00:00:00+00:00", "end_time": "2020-01-01T00:01:00+00:00"}}
    path = notebook(tmp_path / "n.ipynb", shown(html=figure(data=PNG)), metadata=ran)
    figure_file(tmp_path / "figures/n", "redrawn", PNG + b"\0")
    (tmp_path / "tables/n").mkdir(parents=True)
    (tmp_path / "tables/n/later.md").write_text("later")
    site = build(tmp_path, path, figures=[tmp_path / "figures"], tables=[tmp_path / "tables"])
    links = Page(read(site, "n")).links
    assert not [link for link in links if "redrawn" in link or "later" in link]
    assert [path.read_bytes() for path in (site / "files/pictures").iterdir()] == [PNG]


def test_data_are_packed_where_they_are_small_or_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one session, and of all of a report together: there CSV is left out first, and raw output then."""
    monkeypatch.setenv("INFRABENCH_HOME", str(tmp_path))
    (tmp_path / "data/runs/containers").mkdir(parents=True)
    made = [session(tmp_path / f"data/runs/containers/s{number}") for number in range(4)]
    rows, size = len(tidy(made[0])), sum(path.stat().st_size for path in made[0].rglob("*") if path.is_file())
    for check in ("verify", "_unproved"):  # of a session without sums
        monkeypatch.setattr(f"infrabench.ledger.archive.{check}", lambda folder: [])
    for each in made:
        (each / "SHA256SUMS").write_text("")
    monkeypatch.setattr(files, "CSV_ROWS", 2 * rows)
    monkeypatch.setattr(files, "PACKED_ALL", 3.5 * size)
    shelf, plain = files.Shelf(tmp_path / "site"), ["Parquet", "columns (JSON)", "plan (CSV)"]
    found = [shelf.data(each.name) for each in made]
    assert [[link.title for link in each.links] for each in found] == [
        ["CSV", *plain, "archive"], ["CSV", *plain, "archive"], [*plain, "archive"], plain,
    ]  # fmt: skip
    assert ["is not here" in each.note for each in found] == [False, False, False, True]
    assert (unpack(tmp_path / "site/files/data/s0.tar.xz", tmp_path / "again") / "plan.jsonl").is_file()
    assert shelf.data("another").note == "not on this machine, so its data are not here"
    monkeypatch.setattr(files, "PACKED", 0)
    assert [link.title for link in files.Shelf(tmp_path / "small").data("s0").links] == ["CSV", *plain]
    assert "archive" in [link.title for link in files.Shelf(tmp_path / "raw", raw=True).data("s3").links]


@pytest.mark.parametrize(
    "plant", [lambda place, secret: place.symlink_to(secret), lambda place, _: os.mkfifo(place)], ids=["link", "pipe"]
)
def test_what_a_session_has_behind_a_link_or_pipe_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[Path, Path], object]
) -> None:
    monkeypatch.setenv("INFRABENCH_HOME", str(tmp_path))
    folder, secret = session(tmp_path / "data/runs/containers/s"), tmp_path / "secret"
    secret.write_text(TOKEN)
    half, place = folder / "trials/.tmp-1/x.stdout", min((folder / "trials").iterdir()) / "x.stdout"
    half.parent.mkdir()
    (half.parent / "trial.json").write_bytes((place.parent / "trial.json").read_bytes())
    plant(half, secret)
    assert files.Shelf(tmp_path / "site").data("s").blocks
    plant(place, secret)
    found = files.Shelf(tmp_path / "site").data("s")
    assert found.links == found.blocks == ()
    assert found.note.startswith(f"cannot be read: {place} is no plain file")
    with pytest.raises(LedgerError, match="it is no plain file"):
        files.render_trial("s", place.parent)
    published = [path for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert published
    assert not any(TOKEN.encode() in path.read_bytes() for path in published)


def test_the_command_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("INFRABENCH_HOME", str(tmp_path))
    (tmp_path / "out").mkdir()
    notebook(tmp_path / "out/n.ipynb", shown(text="1"))
    assert cli.main(["report", "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/out/report/index.html\n"
    assert cli.main(["report", "--out", str(tmp_path / "out"), "absent.ipynb"]) == 2
    assert "there is no notebook absent.ipynb" in capsys.readouterr().err
