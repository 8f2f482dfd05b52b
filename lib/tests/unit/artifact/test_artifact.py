"""The archive: the same commit gives the same bytes, and unpacked elsewhere it makes its own tables again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tomllib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from infrabench.core import DesignError, InfrabenchError, LedgerError
from infrabench.ledger import catalogue
from infrabench.publish import artifact
from infrabench.publish.artifact import crate, licences, writing
from tests.support.crate_context import issues
from tests.support.places import ROOT

SESSION = "lab-quick-2026-11-known"
LEFT_OUT = ("figures/", "lib/tests/", "lib/infrabench_platforms/lab/", "data/recorded/")  # only to make the test quick
GIT = ("git", "-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
WHEN = {"GIT_AUTHOR_DATE": "2026-11-22T12:00:00+0000", "GIT_COMMITTER_DATE": "2026-11-22T12:00:00+0000"}


@dataclass(frozen=True)
class Made:
    root: Path  # a checkout
    archive: Path
    told: artifact.PackedArtifact
    unpacked: Path


def git(root: Path, *words: str) -> str:
    argv = [*GIT, "-C", str(root), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, env={**os.environ, **WHEN}).stdout


def checkout(root: Path) -> Path:
    """Return a repository with this tree's files, as they are now, and one recorded session."""
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    wanted = [name for name in listed if not name.startswith(LEFT_OUT) or f"/{SESSION}." in name]
    for name in wanted:
        if (ROOT / name).is_file():  # not one that was removed and is still in the index
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    git(root.parent, "init", "-q", str(root))
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "All of it")
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    base = tmp_path_factory.mktemp("archive")
    (base / "checkout").mkdir()
    root = checkout(base / "checkout")
    book = {
        "nbformat": 4, "nbformat_minor": 5,
        "metadata": {"papermill": {"input_path": str(base)}, "kernelspec": {"name": "python3"}},
        "cells": [
            {"cell_type": "code", "id": "f00", "execution_count": 1, "source": "1", "metadata": {"papermill": {"t": 1}},
             "outputs": [{"output_type": "stream", "name": "stderr", "text": "12 s left"},
                         {"output_type": "execute_result", "data": {"text/plain": "1"}, "metadata": {}}]},
            {"cell_type": "markdown", "id": "f01", "source": "words", "metadata": {}},
        ],
    }  # fmt: skip
    (base / "out").mkdir()
    (base / "out/containers-recorded.ipynb").write_text(json.dumps(book))
    (base / "out/containers.ipynb").write_text("of a session that is not in the archive")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(catalogue.VARIABLE, str(root))
        told = artifact.write(base / "a.tar.xz", root=root, executed=base / "out")
    with tarfile.open(told.path) as tar:
        tar.extractall(base / "elsewhere")
    (unpacked,) = (base / "elsewhere").iterdir()
    return Made(root, told.path, told, unpacked)


def test_a_single_changed_digit_is_found_and_named(made: Made, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(made.unpacked / "results", results)
    path = results / SESSION / "tables/known-effects/estimates.csv"
    lines = path.read_text().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if i and "9" in line)
    lines[number] = lines[number].replace("9", "8", 1)
    path.write_text("".join(lines))
    (results / SESSION / "tables/known-effects/tiers.md").unlink()
    with pytest.raises(InfrabenchError) as error:
        list(writing.compare_tables(results, made.unpacked / "results"))
    assert f"estimates.csv: line {number + 1}: recorded" in str(error.value)
    assert "tiers.md: is only there now" in str(error.value)
    with pytest.raises(InfrabenchError, match=r"tiers\.md: is not made any more"):
        list(writing.compare_tables(made.unpacked / "results", results))
    shutil.rmtree(results / SESSION)
    (results / "another" / "tables").mkdir(parents=True)
    with pytest.raises(InfrabenchError, match=f"{SESSION}: has no recorded tables"):
        list(writing.compare_tables(results, made.unpacked / "results"))


def test_a_byte_that_is_no_text_is_found_and_shown(tmp_path: Path) -> None:
    for name, byte in (("then", b"\xfe"), ("now", b"\xff")):
        (tmp_path / name / "s/tables").mkdir(parents=True)
        (tmp_path / name / "s/tables/a.csv").write_bytes(b"n\n1" + byte + b"\n")
    with pytest.raises(InfrabenchError, match=r"a\.csv: line 2: recorded '1\\\\xfe', now '1\\\\xff'"):
        list(writing.compare_tables(tmp_path / "then", tmp_path / "now"))


def test_the_same_commit_gives_the_same_bytes(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(made.root))
    os.utime(made.root / "README.md", (1, 1))
    executed = made.root.parent / "out"
    book = json.loads((executed / "containers-recorded.ipynb").read_text())
    book["metadata"]["papermill"]["input_path"] = "/another"
    (tmp_path / "containers-recorded.ipynb").write_text(json.dumps(book))
    again = artifact.write(tmp_path / "b.tar.xz", root=made.root, executed=tmp_path)
    assert again.sha256 == made.told.sha256
    assert again.path.read_bytes() == made.archive.read_bytes()
    with tarfile.open(again.path) as tar:
        members = tar.getmembers()
    assert {member.mtime for member in members} == {1795348800}
    assert {(member.uid, member.uname, member.gname) for member in members} == {(0, "", "")}
    assert next(member for member in members if member.name.endswith("scripts/reproduce")).mode == 0o755


def test_everything_is_summed_and_every_sum_holds(made: Made) -> None:
    argv = ["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"]
    done = subprocess.run(argv, cwd=made.unpacked, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
    summed = {line[66:] for line in (made.unpacked / "SHA256SUMS").read_text().splitlines()}
    there = {path.relative_to(made.unpacked).as_posix() for path in made.unpacked.rglob("*") if path.is_file()}
    written = {name for name in there if "__pycache__" not in name and not name.startswith(("data/runs/", "out/"))}
    assert written - summed == {"SHA256SUMS"}
    assert len(summed) == made.told.files - 1


def test_nothing_of_this_machine_is_in_what_was_made(made: Made) -> None:
    made_here = [made.unpacked / name for name in ("REPRODUCE.md", "LICENCES.md", "ro-crate-metadata.json")]
    made_here += [path for path in (made.unpacked / "results").rglob("*") if path.is_file()]
    words = [str(ROOT), str(made.root.parent), os.uname().nodename, str(Path.home())]
    assert len(made_here) > 20
    for path in made_here:
        assert not [word for word in words if len(word) > 3 and word.encode() in path.read_bytes()], path


def test_executed_notebooks_keep_what_they_show(made: Made) -> None:
    (path,) = (made.unpacked / "results/notebooks").iterdir()
    book = json.loads(path.read_text())
    assert path.name == "containers-recorded.ipynb"
    assert book["metadata"] == {"kernelspec": {"name": "python3"}}
    assert [each["output_type"] for each in book["cells"][0]["outputs"]] == ["execute_result"]
    broken = path.parent.parent / "broken"
    broken.mkdir()
    (broken / "x-recorded.ipynb").write_text("{}")
    with pytest.raises(InfrabenchError, match="make it again with make figures"):
        list(writing.executed_notebooks(broken, ""))
    shutil.rmtree(broken)


def test_the_metadata_names_what_is_there_with_size_and_sum(made: Made) -> None:
    graph = json.loads((made.unpacked / crate.NAME).read_text())["@graph"]
    entities = {each["@id"]: each for each in graph}
    assert len(entities) == len(graph)
    root = entities["./"]
    assert root["name"].startswith("infrabench: reproducible studies")
    assert root["datePublished"] == "2026-11-22"
    assert root["license"] == {"@id": "https://spdx.org/licenses/Apache-2.0"}
    files = [each for each in graph if each["@type"] == "File"]
    assert {f"data/recorded/known-effects/{SESSION}.tar.xz", "REPRODUCE.md", "lib/requirements.lock"} <= set(entities)
    for each in files:
        data = (made.unpacked / each["@id"]).read_bytes()
        assert each["contentSize"] == str(len(data))
        assert each["sha256"] == sha256(data).hexdigest()
    for each in graph:
        if each["@type"] == "Dataset" and each["@id"] != "./":
            assert (made.unpacked / each["@id"]).is_dir()
    action = entities[f"#analysis-{SESSION}"]
    assert action["object"] == {"@id": f"data/recorded/known-effects/{SESSION}.tar.xz"}
    assert {"@id": action["result"]["@id"]} in root["hasPart"]


def test_the_metadata_is_a_valid_crate(made: Made, tmp_path: Path) -> None:
    """The project has no page of its own to name; all else that is recommended is there."""
    assert issues(made.unpacked, tmp_path / "cache") == [("RECOMMENDED", "The organization SHOULD have a URL.")]
    bad = json.loads((made.unpacked / crate.NAME).read_text())
    for each in bad["@graph"]:
        if each["@id"] == "./":
            del each["license"], each["datePublished"]
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / crate.NAME).write_text(json.dumps(bad))
    found = [told for severity, told in issues(tmp_path / "bad", tmp_path / "cache") if severity == "REQUIRED"]
    assert any("license" in told for told in found)
    assert any("datePublished" in told for told in found)


def test_the_guide_names_the_commit_and_the_session(made: Made) -> None:
    text = (made.unpacked / "REPRODUCE.md").read_text()
    assert git(made.root, "rev-parse", "HEAD").strip() in text
    assert f"| `{SESSION}` |" in text
    assert "$" not in text


def test_what_is_not_committed_is_refused(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(made.root))
    new = made.root / "new.txt"
    new.write_text("x")
    try:
        with pytest.raises(DesignError, match=r"new\.txt is not committed"):
            artifact.write(tmp_path / "a.tar.xz", root=made.root)
    finally:
        new.unlink()
    with pytest.raises(DesignError, match=r"called NAME.tar.xz"):
        artifact.write(tmp_path / "a.zip", root=made.root)
    with pytest.raises(DesignError, match="no git checkout"):
        writing.head_commit(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_recorded_tables_nothing_is_compared(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no tables"):
        list(writing.compare_tables(tmp_path, tmp_path))


def test_every_package_states_a_licence_and_none_at_run_time_is_under_the_gpl() -> None:
    table = licences.table(ROOT / "lib")
    assert len(table) == len(licences.locked(ROOT / "lib")) > 100
    unknown = table[table["licence"].isin(["not stated", "not installed here"])]
    assert unknown.empty, unknown.to_dict("records")
    running = table[table["for"] == licences.RUN]
    assert {"numpy", "papermill", "fabric", "rocrate"} <= set(running["package"])
    assert not {"pytest", "pingouin"} & set(running["package"])
    strong = running["licence"].str.contains(r"(?<!L)\bGPL|GNU General Public|Affero|AGPL")
    assert running[strong].empty, running[strong].to_dict("records")


def test_what_binder_reads_is_the_lock_and_a_python_of_ours() -> None:
    folder = ROOT / ".binder"
    assert {path.name for path in folder.iterdir()} == {"postBuild", "requirements.txt", "runtime.txt"}
    lines = [line for line in (folder / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines == ["-r ../lib/requirements.lock"]
    assert (folder / lines[0].split()[1]).resolve() == ROOT / "lib/requirements.lock"
    python = (folder / "runtime.txt").read_text().strip().removeprefix("python-")
    assert f"Programming Language :: Python :: {python}" in (ROOT / "lib/pyproject.toml").read_text()
    assert os.access(folder / "postBuild", os.X_OK)
    assert crate.FILES.keys() - {"REPRODUCE.md", "LICENCES.md"} <= set(git(ROOT, "ls-files").splitlines()) | {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*")
    }


def test_the_citation_is_what_its_format_asks_for_with_the_packages_version_and_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    texts = {"cff-version", "message", "type", "title", "abstract", "version", "license"}
    assert {"cff-version", "message", "title", "authors"} <= citation.keys() <= texts | {"authors", "keywords"}
    assert all(isinstance(citation[name], str) and citation[name] for name in texts & citation.keys())
    assert [each.keys() for each in citation["authors"]] == [{"name"}]
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")
    assert len(set(citation["keywords"])) == len(citation["keywords"])
    project = tomllib.loads((ROOT / "lib/pyproject.toml").read_text())["project"]
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
