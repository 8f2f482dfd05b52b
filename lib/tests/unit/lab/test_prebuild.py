"""What the lab is made from can be made ahead of time: Go tools once, and what stands in the way is said before.

Faults are a `go` that misbehaves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infrabench import cli
from infrabench.core import NotRunnable, ProvisionError
from infrabench_platforms import lab
from infrabench_platforms.lab import go_parts, go_tools, images, pod_images, prebuild, shell
from infrabench_platforms.lab.go_parts import GoPart, Program
from tests.support.scripts import write_program

Make = Callable[..., GoPart]
Fake = Callable[..., Path]


@pytest.fixture(autouse=True)
def ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of images, pause alone is made here: it needs no root, and no compiler where the program is given."""
    monkeypatch.setattr(prebuild, "require", lambda: None)
    monkeypatch.setattr(pod_images, "missing", lambda: None)
    monkeypatch.setattr(pod_images, "_compiled", lambda *_: pod_images.LayerEntry(0o755, b"program"))
    monkeypatch.setattr(lab, "_leftovers", tuple)
    monkeypatch.setattr(shell, "contained", list)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make a Go module without dependencies and register it as a part; the state folder is empty, on a large disk."""
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(go_parts, "GO_DIR", tmp_path / "parts")
    monkeypatch.setattr(go_tools, "PARTS", {})
    monkeypatch.setattr(shell, "free_bytes", lambda folder: 10**12)

    def make(name: str = "tiny", programs: tuple[str, ...] = ("hello",), **more: object) -> GoPart:
        part = GoPart(name, f"example/{name}", tuple(Program(each, each, 10) for each in programs), **more)
        part.folder.mkdir(parents=True)
        (part.folder / "go.mod").write_text(f"module example/{name}\n\ngo 1.21\n")
        (part.folder / "go.sum").write_text("")
        go_tools.PARTS[name] = part
        return part

    return make


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Put a `go` first on the search path: it answers `env`, notes each build and then runs a script."""

    def make(script: str = "echo x >$out\n", version: str = "go1.26.8") -> Path:
        program = write_program(
            tmp_path / "bin/go",
            f'[ "$1" = env ] && {{ echo {version}; exit; }}\n'
            f'echo "$@" >>{tmp_path}/calls\n'
            'while [ "$1" != -o ]; do shift; done\nout=$2\n' + script,
        )
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        monkeypatch.setattr(go_tools, "PLACES", ())
        return tmp_path / "calls"

    return make


def build(name: str = "tiny") -> Path:
    return go_tools.make([name], lambda text: None)[name]


def said(capsys: pytest.CaptureFixture, *argv: str) -> str:
    status = cli.main(["lab", *argv])
    out, err = capsys.readouterr()
    assert status == 0, err
    return out


def test_images_and_tools_are_made_shown_trimmed(module: Make, fake_go: Fake, capsys: pytest.CaptureFixture) -> None:
    module()
    fake_go()
    assert "Go tools tiny" in said(capsys, "status")
    assert "(not made yet)" in prebuild.describe("tiny")
    assert prebuild.seconds(["pause"]) == prebuild.IMAGE_S["pause"]
    out = said(capsys, "build", "--only", "tiny", "pause").splitlines()
    assert out[0] == "about 11 s on two cores, besides downloads"
    assert [line.split(": ")[0] for line in out[1:]] == ["pause", "tiny"]
    assert f"Go tools tiny: {go_tools.content_hash('tiny')} (made)" in said(capsys, "status")
    assert prebuild.seconds(["pause"]) == 0
    assert said(capsys, "build", "--only", "tiny", "pause").startswith("everything is made already\n")
    for folder, mode in (("mod/m", 0o555), ("build", 0o755)):  # Go keeps modules read-only
        kept = go_tools.cache_root() / folder
        kept.mkdir(parents=True)
        (kept / "x").write_bytes(bytes(10**8))
        kept.chmod(mode)
    assert said(capsys, "trim") == "0.2 GB removed\n"
    assert go_tools.caches_bytes() == 0
    assert list(go_tools.cache_root().iterdir()) == [go_tools.cached("tiny")]
    go_tools.purge()
    assert not go_tools.cache_root().exists()


def test_what_cannot_be_made_is_told_before_anything_is(
    module: Make, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module()
    assert cli.main(["lab", "build", "--only", "tine"]) == 2
    assert "did you mean tiny" in capsys.readouterr().err
    monkeypatch.setattr(go_tools, "find_toolchain", lambda: None)
    assert "not made yet: the Kubernetes tools are built from source" in prebuild.describe("tiny")
    with pytest.raises(NotRunnable, match=r"need Go 1\.21 or newer: `make build` .*there is none"):
        list(prebuild.build(["pause", "tiny"]))
    assert not (tmp_path / "state/images").exists()
    assert go_tools.cached("tiny") is None
    go_tools.require([])


def test_everything_has_a_name_and_a_time() -> None:
    assert len(prebuild.names()) == len(set(prebuild.names()))
    assert set(prebuild.IMAGE_S) == {*images.KINDS, *pod_images.KINDS}


def test_what_is_made_on_demand_is_made_for_who_names_it_alone() -> None:
    assert set(prebuild.names()) - set(prebuild.select_names(())) == {*images.ON_DEMAND, *go_parts.ON_DEMAND}
    assert prebuild.select_names(("slurm",)) == ["slurm"]


def test_a_failing_build_says_why_takes_nothing_half_written_and_goes_on_with_the_programs_that_are_left(
    module: Make, fake_go: Fake, tmp_path: Path
) -> None:
    module(programs=("one", "two", "three"))
    lines = ("go: downloading m v1.0.0", "fmt", "# example/tiny/two", "two/main.go:3:15: undefined: thing")
    fails = "; ".join(("echo half >$out", *(f"echo '{line}' >&2" for line in lines), "exit 3"))
    calls = fake_go(f"case $out in *two.new) [ -e {tmp_path}/mended ] || {{ {fails}; }};; esac; echo x >$out\n")
    why = "\n".join(("tiny: building two failed (status 3):", *lines[2:], "What was built is kept, and the same"))
    with pytest.raises(ProvisionError, match=rf"^{re.escape(why)} command goes on.*GOPROXY"):
        build()
    assert len(calls.read_text().splitlines()) == 2
    assert go_tools.cached("tiny") is None
    assert go_tools.estimate(["tiny"]) == 20  # what is half written does not count
    (tmp_path / "mended").touch()
    told: list[str] = []
    folder = go_tools.make(["tiny"], told.append)["tiny"]
    assert {path.name for path in folder.iterdir()} == {"one", "two", "three"}
    assert len(calls.read_text().splitlines()) == 4  # one was not built again
    assert any("Building 1 of 2: two" in line for line in told)
    assert not list(folder.parent.glob("*.part"))


def test_what_another_built_meanwhile_is_taken(module: Make, fake_go: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    module()
    calls = fake_go()

    @contextmanager
    def locked(name: str, **_: object) -> Iterator[None]:
        assert name == go_tools.LOCK
        go_tools._folder("tiny").mkdir(parents=True)
        yield

    monkeypatch.setattr(shell, "locked", locked)
    told: list[str] = []
    assert go_tools.make(["tiny"], told.append) == {"tiny": go_tools.cached("tiny")}
    assert not told
    assert not calls.exists()


def test_old_folders_of_this_part_alone_are_removed(module: Make, fake_go: Fake) -> None:
    part = module()
    module("tiny-other")
    fake_go()
    other = build("tiny-other")
    folders = []
    stale = go_tools.cache_root() / "tiny-0123456789abcdef.part"
    stale.mkdir()
    for number in range(3):
        (part.folder / "go.sum").write_text(f"{number}")
        folders.append(build())
        os.utime(folders[-1], (number, number))
    assert [path.exists() for path in folders] == [False, True, True]
    assert other.exists()
    assert not stale.exists()


def test_an_old_toolchain_is_told_and_that_of_the_environment_taken_instead(
    module: Make, fake_go: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module()
    fake_go(version="go1.19.8")
    with pytest.raises(NotRunnable, match=r"need Go 1\.21 or newer: .*bin/go is go1\.19\.8"):
        build()
    ours, here = tmp_path / "ours", tmp_path / "bin/go"
    fake_go(version="go1.27.3")
    here.rename(ours)
    for version, found in (("go1.19.8", (str(ours), "go1.27.3")), ("go1.21.0", (str(here), "go1.21.0"))):
        fake_go(version=version)
        monkeypatch.setattr(go_tools, "PLACES", (str(tmp_path / "nothing"), str(ours)))
        assert go_tools.find_toolchain() == found
        go_tools.require(["tiny"])


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (("gcc", "pkg-config"), "nosuchlibrary-dev"),
        (("gcc",), "pkg-config nosuchlibrary-dev"),
        ((), "gcc libc6-dev pkg-config nosuchlibrary-dev"),
    ],
)
def test_missing_compilers_and_headers_are_told(
    module: Make, fake_go: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: tuple, wanted: str
) -> None:
    module(cgo=True, headers=("nosuchlibrary",))
    fake_go()
    for program in there:
        write_program(tmp_path / "bin" / program, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(NotRunnable, match=rf": apt-get install {wanted}$"):
        build()


def test_a_full_disk_is_told_before_the_build(module: Make, fake_go: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    module()
    calls = fake_go()
    monkeypatch.setattr(shell, "free_bytes", lambda folder: 2**30)
    with pytest.raises(NotRunnable, match=r"1\.0 GiB free, building the Go tools needs about 16.*INFRABENCH_STATE"):
        build()
    assert not calls.exists()
    monkeypatch.setattr(go_tools, "caches_bytes", lambda: 15 * 2**30)  # most of it was done before
    go_tools.require(["tiny"])
