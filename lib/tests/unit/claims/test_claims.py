"""Claims: recorded numbers come out again, a changed digit is told, and a session measured here is asked."""

from __future__ import annotations

import builtins
import csv
import json
import math
import shutil
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from infrabench import cli
from infrabench.core import DesignError, LedgerError, NotRunnable
from infrabench.ledger import catalogue
from infrabench.ledger.archive import pack
from infrabench.ledger.files import SUMS
from infrabench.ledger.records import read_session
from infrabench_selfcheck.claims import collect_claims, reanalysis, record, remeasurement, sources
from infrabench_selfcheck.claims.claim import FAIL, NOT_RUN, PASS, REANALYSIS, REMEASUREMENT
from tests.support.places import ROOT

SMALL = "known-effects/lab-quick-2026-11-known"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one recorded session, which is analysed anew."""
    for path in (ROOT / "data/recorded").glob(f"{SMALL}.*"):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("source", sorted(sources()))
def test_every_recorded_session_says_what_was_written_down(source: str) -> None:
    """Whoever records a session writes down what it says: `infrabench selfcheck claims --record SESSION`."""
    found = list(collect_claims([source], [REANALYSIS]))
    assert [f"{each.what}: {each.judged.found}" for each in found if each.judged.outcome != PASS] == []
    assert {"files", "raw output", "trials", "verdicts"} <= {each.what for each in found}
    assert len({each.what for each in found}) == len(found)
    assert all(each.statement and each.command and each.seconds > 0 and each.disk_bytes for each in found)


@pytest.mark.parametrize("source", ["storage/lab-quick-debian13-storage", "versions/lab-brief-2026-11-versions"])
def test_a_session_is_read_to_the_same_digits_where_sum_adds_in_another_way(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since Python 3.12 `sum` adds floats more exactly: here it does so in every Python."""
    usual = sum

    def add_exactly(values: Iterable[Any], /, start: Any = 0) -> Any:
        every = [start, *values]
        exact = any(isinstance(each, float) for each in every) and all(isinstance(each, float | int) for each in every)
        return math.fsum(every) if exact else usual(every[1:], start)

    monkeypatch.setattr(builtins, "sum", add_exactly)
    [raw] = (each for each in collect_claims([source], [REANALYSIS]) if each.what == "raw output")
    assert raw.judged.outcome == PASS, raw.judged.found


def test_every_study_makes_claims_and_so_does_the_audit() -> None:
    assert {source.partition("/")[0] for source in sources()} >= {
        "containers", "cnis", "runtimes", "aa", "known-effects", "versions",
    }  # fmt: skip
    found = list(collect_claims(["published"]))
    assert len(found) > 60
    assert {each.judged.outcome for each in found} == {PASS}


def test_a_changed_finding_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = reanalysis.current_findings()
    changed = {**now, "A1": {**now["A1"], "recomputed": "nothing"}, "Z9": now["A1"]}
    del changed["A2"]
    (tmp_path / "findings.json").write_text(json.dumps(changed))
    monkeypatch.setattr(reanalysis, "findings_path", lambda: tmp_path / "findings.json")
    bad = {each.what: each.judged.found for each in reanalysis.published_claims() if each.judged.outcome == FAIL}
    assert set(bad) == {"A1", "A2", "Z9"}
    assert bad["Z9"] == "no such finding any more"


@pytest.mark.parametrize(
    ("then", "now", "count"),
    [
        ({"a": 1.0}, {"a": 1.0 + 1e-15}, 0),
        ({"a": 1.0}, {"a": 1.0 + 1e-9}, 1),
        ({"a": 0.0}, {"a": 1e-300}, 1),
        ({"a": 1}, {"a": 1.0}, 1),
        ({"a": True}, {"a": 1}, 1),
        ({"a": None}, {"a": 0.0}, 1),
        ({"a": "x"}, {}, 1),
        ({}, {"a": "x"}, 1),
        ({"a": {"b": 2, "c": 3}}, {"a": {"b": 2, "c": 4}}, 1),
    ],
)
def test_differences(then: Any, now: Any, count: int) -> None:
    assert len(list(reanalysis.differences(then, now))) == count


def test_a_changed_number_fails_and_says_both(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / f"data/recorded/{SMALL}.json"
    then = json.loads(path.read_text())
    changed = then["contrasts"][0]
    old = changed["ratio"]
    changed["ratio"] = old * (1 + 1e-9)
    gone = then["contrasts"].pop()
    then["trials"]["ok"] += 1
    path.write_text(json.dumps(then))
    assert cli.main(["selfcheck", "claims", "known-effects", "--level", REANALYSIS, "--out", "t"]) == 1
    said = capsys.readouterr()
    assert "3 fail" in said.out
    assert "3 of" in said.err
    rows = {row["claim"]: row for row in csv.DictReader((home / "t/claims.csv").open())}
    bad = {what: row["found"] for what, row in rows.items() if row["outcome"] == FAIL}
    assert set(bad) == {" ".join(reanalysis.key(changed)), "trials", "more contrasts"}
    assert f"recorded {changed['ratio']!r}, now {old!r}" in bad[" ".join(reanalysis.key(changed))]
    assert " ".join(reanalysis.key(gone)) in bad["more contrasts"]
    assert all(value for row in rows.values() for value in row.values())


def test_a_damaged_session_fails_as_its_first_claim(home: Path) -> None:
    archive = home / f"data/recorded/{SMALL}.tar.xz"
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)
    assert [(each.what, each.judged.outcome) for each in collect_claims([SMALL], [REANALYSIS])] == [("files", FAIL)]


def test_a_session_without_its_numbers_says_what_to_do(home: Path) -> None:
    path = home / f"data/recorded/{SMALL}.json"
    before = path.read_text()
    path.unlink()
    with pytest.raises(LedgerError, match="infrabench selfcheck claims --record lab-quick-2026-11-known"):
        list(collect_claims())
    assert record("lab-quick-2026-11-known") == path
    assert path.read_text() == before
    with pytest.raises(DesignError, match="unknown recorded session"):
        record("elsewhere")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(DesignError, match="unknown source of claims 'containrs': did you mean containers"):
        list(collect_claims(["containrs"]))
    with pytest.raises(DesignError, match="unknown level"):
        list(collect_claims([], ["both"]))


def test_versions_are_measured_again_with_the_same_baseline() -> None:
    wanted = remeasurement.request(read_session(catalogue.find(None, "lab-brief-2026-11-versions")))
    assert (wanted.baseline, set(wanted.systems)) == (
        "docker@20.10", {"docker@20.10", "docker@26.1", "native@debian12", "native@debian13"},
    )  # fmt: skip
    claim = next(iter(collect_claims(["versions"], [REMEASUREMENT])))
    assert "run containers --profile brief --systems docker@20.10 " in claim.command


def test_what_was_measured_here_is_asked(home: Path) -> None:
    """The recorded session under another time of creation is another session, that says the same."""
    found = list(collect_claims([SMALL], [REMEASUREMENT]))
    assert {each.judged.outcome for each in found} == {NOT_RUN}
    assert "no session of this study was measured on this machine" in found[0].judged.found
    assert "infrabench run known-effects --profile quick && " in found[0].command
    assert found[0].seconds > 60

    original = catalogue.find(None, str(home / f"data/recorded/{SMALL}.tar.xz"))
    copy = home / "data/runs/known-effects/mine"
    shutil.copytree(original, copy)
    again = list(collect_claims([SMALL], [REMEASUREMENT]))
    assert {each.judged.outcome for each in again} == {NOT_RUN}
    assert "is the recorded session itself" in again[0].judged.found

    changed(copy, created_utc="2027-01-01T00:00:00+00:00")
    passed = list(collect_claims([SMALL], [REMEASUREMENT]))
    assert {each.judged.outcome for each in passed} == {PASS}
    assert all("mine: here" in each.judged.found and "inside the prediction" in each.judged.found for each in passed)
    rows = json.loads((home / f"data/recorded/{SMALL}.json").read_text())["contrasts"]
    decided = ("different", "equivalent", "different, within the margin")
    assert {each.what for each in passed} == {
        " ".join(reanalysis.key(row)) for row in rows if row["verdict"] in decided
    }

    packed = pack(copy, copy.with_name("mine.tar.xz"))
    copy.rename(home / "mine")
    again = list(collect_claims([SMALL], [REMEASUREMENT]))
    assert [(each.what, each.judged) for each in again] == [(each.what, each.judged) for each in passed]
    packed.unlink()
    (home / "mine").rename(copy)

    asked = json.loads((copy / "session.json").read_text())["parameters"]
    changed(copy, parameters={**asked, "margins": {"": 0.5}})
    other = list(collect_claims([SMALL], [REMEASUREMENT], ["mine"]))
    assert {each.judged.outcome for each in other} == {NOT_RUN}
    assert "was asked something else: margins" in other[0].judged.found


def changed(folder: Path, **given: Any) -> None:
    path, sums = folder / "session.json", folder / SUMS
    old = sha256(path.read_bytes()).hexdigest()
    path.write_text(json.dumps(json.loads(path.read_text()) | given))
    sums.write_text(sums.read_text().replace(old, sha256(path.read_bytes()).hexdigest()))


def test_the_larger_session_is_asked_and_the_later_of_equals() -> None:
    row = {
        "workload": "w", "scenario": "s", "metric": "m", "system": "a", "baseline": "b", "better": "higher",
        "n_pairs": 30, "pair_unit": "blocks", "margin": 0.02, "ratio": 0.9, "ratio_low": 0.89, "ratio_high": 0.91,
        "verdict": "different", "reason": "",
    }  # fmt: skip
    key = reanalysis.key(row)
    sessions = [
        remeasurement.New(name, when, {key: {**row, "n_pairs": n}})
        for name, when, n in (("small", "2027", 5), ("old", "2025", 30), ("new", "2026", 30))
    ]
    assert remeasurement.judge_contrast(row, sessions, "").found.startswith("new: here")
    assert remeasurement.judge_contrast(row, [], "x: is too old").found == "x: is too old"
    assert remeasurement.judge_contrast({**row, "system": "c"}, sessions, "").outcome == NOT_RUN


def test_what_cannot_be_measured_here_says_why_and_the_rest_goes_on(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def refuse(recorded: Path, profile: str, site: str) -> Path:
        asked.append((recorded.name, profile, site))
        raise NotRunnable("there is no lab here")

    monkeypatch.setattr(remeasurement, "measure", refuse)
    words = ["known-effects", "--level", REMEASUREMENT, "--measure", "smoke", "--site", "local", "--out", "t"]
    assert cli.main(["selfcheck", "claims", *words]) == 0
    assert f"{SMALL}: not measured: there is no lab here" in capsys.readouterr().out
    assert asked == [("lab-quick-2026-11-known.tar.xz", "smoke", "local")]
