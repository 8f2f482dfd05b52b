"""Sessions are compared only where their provenance allows it; contents are kept once, and named if they differ."""

from __future__ import annotations

import hashlib
import json
import logging
import runpy
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import infrabench
from infrabench import cli, registry
from infrabench.core import Deployment, Host, LedgerError, Limits, Result, SchemaError, Target
from infrabench.experiment.provenance import collect, comparability
from infrabench.experiment.provenance.collect import Lists, PlaceQuestion, add_list, ask, collect_contents
from infrabench.experiment.provenance.comparability import (
    NotComparable,
    changes,
    differences,
    differing_packages,
    measures_alike,
    stamp,
)
from infrabench.ledger import records
from infrabench.machines.hosts.host import LocalHost
from tests.support.fakes import FakeSite, MemoryHost, interrupt_session, run_session


@pytest.fixture
def make(tmp_path, study):
    return lambda name, other=study, **more: run_session(other, tmp_path / name, runs=1, **more)


def change(folder, name, *path, value):
    """Change one value in a provenance file, as another machine would have said it."""
    file = folder / "provenance" / f"{name}.json"
    data = json.loads(file.read_text())
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    file.write_text(json.dumps(data))


def test_two_sessions_of_one_machine_are_comparable(make):
    one, two = make("one"), make("two", seed=5)
    found = differences(one, two)
    assert [d.key for d in found if d.checked] == []
    assert ("asked", "seed") in {(d.where, d.key) for d in found}
    assert stamp([one, two]) == ""


@pytest.mark.parametrize(
    ("name", "path", "value", "said"),
    [
        ("here", ("kernel", "release"), "9.9", "here kernel.release"),
        ("here", ("cpu", "model_name"), "Other CPU", "here cpu.model_name"),
        ("here", ("memory", "total_bytes"), 1, "here memory.total_bytes"),
        ("deployments", ("fake-base", "facts", "version"), "2", "system fake-base version"),
        ("deployments", ("fake-base", "facts", "client"), {"link": "1gbit"}, "system fake-base client.link"),
        ("deployments", ("fake-base", "tools", "fake"), "fake 2.0", "system fake-base tools.fake"),
    ],
)
def test_a_checked_key_that_differs_is_refused_by_name_or_stamped(make, name, path, value, said):
    one, two = make("one"), make("two")
    change(two, name, *path, value=value)
    with pytest.raises(NotComparable, match=f"comparable: {said}: ".replace(".", r"\.")):
        stamp([one, two])
    assert [each.checked for each in differences(one, two)].count(True) == 1
    assert said in stamp([one, two], allow=True)


@pytest.mark.parametrize(
    ("name", "path", "values"),
    [
        ("deployments", ("fake-other",), (None, {"version": "1"}, {"version": "2"})),  # a system that one has not run
        ("here", ("machine", "smt"), (None, "on", "off")),  # a setting that one does not tell
    ],
)
def test_every_two_of_several_sessions_have_to_agree(make, name, path, values):
    folders = [make(each) for each in ("one", "two", "three")]
    for folder, value in zip(folders, values, strict=True):
        file = folder / f"provenance/{name}.json"
        data = json.loads(file.read_text())
        if name == "deployments" and value is None:
            del data[path[0]]
        elif name == "deployments":
            data[path[0]]["facts"] |= value
        else:
            data[path[0]][path[1]] = value
        file.write_text(json.dumps(data))
    first, *others = folders
    assert [stamp([first, other]) for other in others] == ["", ""]
    said = {"deployments": "system fake-other version", "here": "here machine.smt"}[name]
    for order in permutations(folders):
        with pytest.raises(NotComparable, match=rf"(two and three|three and two) are not comparable: {said}: "):
            stamp(order)
        assert stamp(order, allow=True) == f"Not comparable in the strict sense: the sessions differ in {said}."


@pytest.mark.parametrize(
    "path",
    [("kernel_settings", "tcp_congestion_control"), ("kernel_settings", "numa_balancing"), ("machine", "smt")],
    ids=" ".join,
)
def test_a_setting_that_changes_results_must_agree_where_both_tell_it(make, path):
    key = ".".join(path)
    one, two = make("one"), make("two")
    for folder, value in ((one, "0"), (two, "1")):
        change(folder, "here", *path, value=value)
    with pytest.raises(NotComparable, match=f"comparable: here {key}: 0 / 1"):
        stamp([one, two])
    assert comparability.between_sites({"a": one, "b": two}).differs == {f"hosts {key}": {"a": "['0']", "b": "['1']"}}
    change(one, "here", *path, value=None)
    assert (stamp([one, two]), comparability.between_sites({"a": one, "b": two}).differs) == ("", {})
    assert [(each.key, each.checked) for each in differences(one, two)] == [(key, False)]
    shutil.copy(two / "provenance/here.json", one / "provenance/there.json")  # of two hosts one tells it
    assert comparability.between_sites({"a": one, "b": two}).differs == {}
    (one / "provenance/there.json").unlink()
    facts = json.loads((one / "provenance/here.json").read_text())
    del facts[path[0]][path[1]]  # as of a session from before hosts were asked for it
    (one / "provenance/here.json").write_text(json.dumps(facts))
    assert stamp([one, two]) == ""
    then, now, before = ({path[0]: {path[1]: value}} for value in ("0", "1", None))
    with pytest.raises(LedgerError, match=f"{' '.join(path)}: '0' then, '1' now"):
        collect.check_unchanged("here", then, now)
    for unknown in (before, {}):
        collect.check_unchanged("here", unknown, now)


def test_what_is_only_reported_does_not_make_sessions_incomparable(make):
    one, two = make("one"), make("two")
    change(two, "suite", "commit", value="0" * 40)
    found = differences(one, two)
    assert [(d.where, d.key, d.checked) for d in found] == [("suite", "commit", False)]
    assert stamp([one, two]) == ""


def test_the_same_case_with_other_parameters_is_not_the_same(make, study):
    tiny = study.profiles["tiny"]
    other = replace(tiny, cases=(replace(tiny.cases[0], params={"value": 3.0}), tiny.cases[1]))
    one, two = make("one"), make("two", replace(study, profiles={"tiny": other}))
    found = [d for d in differences(one, two) if d.checked]
    assert [d.key for d in found] == ["case fake value=1"]
    fewer = replace(study, profiles={"tiny": replace(tiny, cases=tiny.cases[:1])})
    three = make("three", fewer)
    assert [(d.key, d.checked) for d in differences(one, three)] == [("case fake value=2", False)]


def test_the_same_case_in_other_rounds_is_not_the_same():
    def differing(then, now):
        cases = [{"workload": "web", "scenario": "s", "params": {}, **more} for more in (then, now)]
        return [(each.key, each.checked) for each in comparability._cases(cases[:1], cases[1:])]

    assert differing({}, {"rounds": 5}) == [("case web s", True)]
    assert differing({"rounds": 1}, {}) == []


def test_other_limits_are_named(make, study):
    one, two = make("one"), make("two", replace(study, limits=Limits(memory_bytes=2**30)))
    assert [d.key for d in differences(one, two) if d.checked] == ["limits"]


def test_another_host_is_named(make):
    one, two = make("one"), make("two")
    (two / "provenance/here.json").rename(two / "provenance/there.json")
    assert {d.where for d in differences(one, two) if d.checked} == {"here", "there"}


def test_sessions_of_two_studies_cannot_be_put_together_at_all(make, study):
    one, two = make("one"), make("two", replace(study, name="other"))
    with pytest.raises(SchemaError, match="different study cannot be put together: fakes, other"):
        measures_alike([one, two])


def test_long_values_are_cut():
    assert comparability.shown("x" * 100) == "x" * 57 + "..."
    assert comparability.shown(None) == "nothing"


FOLDERS = "PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DPKG = """#!/bin/sh
printf 'package\\tinstalled\\tzlib1g\\t1:1.3\\tamd64\\n'
printf 'package\\tconfig-files\\tgone\\t1\\tall\\n'
printf 'package\\tinstalled\\tadduser\\t3.152\\tall\\n'
"""


pytestmark = pytest.mark.usefixtures("fake_plugins")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that is all of the PATH of a place: a program, a link to it, and what the script calls."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sha256sum", "readlink", "timeout"):
        (folder / name).symlink_to(shutil.which(name) or "")
    write_program(folder / "tool-1.2", "#!/bin/sh\n")
    (folder / "tool").symlink_to("tool-1.2")
    return folder


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def ask_place(folder: Path, *programs: str, packages: bool = True) -> tuple[dict[str, Any], Lists]:
    assert FOLDERS in collect.SCRIPT

    def run(argv: tuple[str, ...], timeout_s: float) -> Result:
        script = argv[2].replace(FOLDERS, f"PATH={folder}")
        return LocalHost().run((*argv[:2], script, *argv[3:]), timeout_s=timeout_s)

    lists: Lists = {}
    return ask(PlaceQuestion(LocalHost(), run, programs, packages, image=True, into={}, key=""), lists), lists


def test_a_place_says_packages_that_are_installed_and_checksums_of_programs(place: Path) -> None:
    write_program(place / "dpkg-query", DPKG)
    (place / "image.tar").write_bytes(b"layers")
    names = ("tool", f"{place}/tool-*", f"pod image={place}/image.tar")
    found, lists = ask_place(place, *names)
    total = hashlib.sha256(b"#!/bin/sh\n").hexdigest()
    assert found["programs"] == {
        "tool": {"path": f"{place}/tool-1.2", "sha256": total},
        "tool-1.2": {"path": f"{place}/tool-1.2", "sha256": total},
        "pod image": {"path": f"{place}/image.tar", "sha256": hashlib.sha256(b"layers").hexdigest()},
    }
    assert (found["missing"], found["image"]) == ({}, True)
    assert lists == {found["packages"]: ["adduser 3.152 all", "zlib1g 1:1.3 amd64"]}
    assert add_list(lists, ["zlib1g 1:1.3 amd64", "adduser 3.152 all"]) == found["packages"]
    assert "packages" not in ask_place(place, "tool", packages=False)[0]


def test_what_a_place_does_not_say_has_its_reason(place: Path) -> None:
    write_program(place / "broken", "")
    (place / "snap").write_text("")
    (place / "lxc").symlink_to("snap")
    (place / "lxc").chmod(0o755)
    write_program(place / "sum", "#!/bin/sh\n")
    found, lists = ask_place(place, "no-such-tool", "true", f"{place}/*.so", "lxc")
    assert found["packages"] is None
    assert lists == {}
    assert found["programs"] == {}
    assert found["missing"] == {
        "packages": "there is no dpkg-query", "no-such-tool": "not found", f"{place}/*.so": "not found",
        "true": "not found",  # a shell has it built in, which is another program
        "lxc": "it is called through snap, which has no file of its own for it",
    }  # fmt: skip
    write_program(place / "dpkg-query", "#!/bin/sh\necho 'cannot read its database' >&2\nexit 3\n")
    (place / "sha256sum").unlink()
    write_program(place / "sha256sum", '#!/bin/sh\necho "sha256sum: $1: Permission denied" >&2\nexit 1\n')
    found, lists = ask_place(place, "tool")
    assert found["missing"] == {
        "packages": "dpkg-query exited with 3", "tool": f"sha256sum: {place}/tool-1.2: Permission denied",
    }  # fmt: skip
    assert (found["packages"], found["programs"], lists) == (None, {}, {})


@pytest.mark.parametrize(
    ("status", "printed", "said"),
    [
        (1, b"", "it could not be asked: it exited with 1: no shell"),
        (None, b"", "it could not be asked: it timed out: no shell"),
        (0, b"Welcome!\n", "it could not be asked: it says 'Welcome!'"),
        (0, b"program\ttool\t/bin/tool\n", "it could not be asked: not enough values"),
        (0, b"package\tinstalled\ta\t1\tall\nprogram\ta\t/a\t0\tmore\n", "it could not be asked: too many values"),
    ],
)
def test_a_place_that_does_not_answer_is_not_half_known(status: int | None, printed: bytes, said: str) -> None:
    def run(argv: tuple[str, ...], timeout_s: float) -> Result:
        return Result(argv, status, printed, b"no shell", time.time(), 0.1, timed_out=status is None)

    lists: Lists = {}
    found = ask(PlaceQuestion(LocalHost(), run, ("tool",), True, image=False, into={}, key=""), lists)
    assert found["missing"]["all"].startswith(said)
    assert (found["packages"], found["programs"], lists) == (None, {}, {})


class TalkingHost(MemoryHost):
    """A host whose programs and packages are as a test has them; all else is as of `MemoryHost`."""

    def __init__(self, name: str, totals: Mapping[str, str], packages: tuple[str, ...] = ("libc6 2.41 amd64",)) -> None:
        super().__init__(name)
        self.totals, self.packages, self.asked = dict(totals), packages, list[tuple[str, ...]]()

    def run(self, argv: Any, *, timeout_s: float, stdin: bytes = b"") -> Result:
        if collect.SCRIPT not in argv:
            return super().run(argv, timeout_s=timeout_s, stdin=stdin)
        wanted, *names = argv[argv.index(collect.SCRIPT) + 2 :]
        self.asked.append(tuple(names))
        rows = [f"package\tinstalled\t{line}".replace(" ", "\t") for line in self.packages if wanted == "yes"]
        rows += [
            f"program\t{name}\t/usr/bin/{name}\t{self.totals[name]}"
            if name in self.totals
            else f"missing\t{name}\tgone"
            for name in names
        ]
        return Result(tuple(argv), 0, "".join(f"{row}\n" for row in rows).encode(), b"", time.time(), 0.1)


def test_every_place_of_a_session_is_asked_once() -> None:
    server, client = TalkingHost("server", {"fio": "f" * 64, "runc": "a" * 64}), TalkingHost("client", {"ab": "b" * 64})
    site = FakeSite({"server": server, "client": client}, {}, kind="lab")
    node = TalkingHost("worker1", {"kubelet": "c" * 64}, ("libc6 2.36 amd64",))
    inside = Target("server", server, ("docker", "exec", "x"))
    deployments = {
        "docker": Deployment("docker", {"server": inside}, {}, programs=[(server, ("runc", "containerd"))]),
        "cilium": Deployment("cilium", {"server": Target("server", node)}, {}, programs=[(node, ("kubelet",))]),
        "native": Deployment("native", {"server": Target("server", server)}, {}),
    }
    roles = {name: {"client": Target("client", client), **each.targets} for name, each in deployments.items()}
    found = collect_contents(site, deployments, roles, {"server": ("fio",), "client": ("ab",)})
    assert {name: [*each["programs"]] for name, each in found["hosts"].items()} == {"server": ["fio"], "client": ["ab"]}
    docker, cilium = found["systems"]["docker"], found["systems"]["cilium"]
    assert [*docker["targets"]["server"]["programs"]] == ["fio"]
    assert docker["hosts"]["server"] == {
        "programs": {"runc": {"path": "/usr/bin/runc", "sha256": "a" * 64}}, "missing": {"containerd": "gone"},
    }  # fmt: skip
    assert [*cilium["hosts"]["worker1"]["programs"]] == ["kubelet"]  # fio was asked for there, and is not
    assert cilium["hosts"]["worker1"]["missing"] == {"fio": "gone"}
    assert found["systems"]["native"] == {"targets": {}, "hosts": {}}  # it is the host
    assert sorted(found["packages"].values()) == [["libc6 2.36 amd64"], ["libc6 2.41 amd64"]]  # each list once
    assert (len(server.asked), len(client.asked), len(node.asked)) == (3, 1, 1)


def test_on_hosts_of_ones_own_only_the_guest_image_is_an_image() -> None:
    server = TalkingHost("server", {})
    site = FakeSite({"server": server}, {"guest_image": {"hash": "c280", "tar": "/x.tar"}})
    target = Target("server", server, ("enter",))
    images = {"docker": "c280", "native": None, "no-aslr": "none"}
    deployments = {name: Deployment(name, {"server": target}, {"image": image}) for name, image in images.items()}
    found = collect_contents(site, deployments, {name: each.targets for name, each in deployments.items()}, {})
    flags = {name: each["targets"]["server"]["image"] for name, each in found["systems"].items()}
    assert flags == {"docker": True, "native": False, "no-aslr": False}
    assert found["hosts"]["server"]["image"] is False


def test_tools_are_those_that_workloads_declare() -> None:
    workloads = {name: registry.workload(name) for name in ("web", "fio-4k", "pods-stream", "pod-network")}
    assert collect.tools_by_role(workloads) == {
        "server": ("apache2", "ib-service", "fio", "ib-stream"), "client": ("ab", "curl", "prlimit", "ss"),
    }  # fmt: skip


def contents_of(folder: Path) -> dict[str, Any]:
    return records.read_provenance(folder, records.CONTENTS)


def test_a_session_keeps_its_contents_and_goes_on_with_the_same(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(registry.workload("fake"), "PROGRAMS", {"server": {"tool": ""}}, raising=False)
    study, folder = registry.study("fakes"), tmp_path / "s"
    host = TalkingHost("here", {"tool": "a" * 64})
    interrupt_session(study, folder, 2, site=site_of(host))
    found = contents_of(folder)
    assert found["hosts"]["here"]["programs"] == {"tool": {"path": "/usr/bin/tool", "sha256": "a" * 64}}
    assert found["packages"] == {found["hosts"]["here"]["packages"]: ["libc6 2.41 amd64"]}
    host.totals["tool"] = "b" * 64
    with pytest.raises(LedgerError, match=r"host here program tool: aaaaaaaaaaaa \| bbbbbbbbbbbb.*another session"):
        run_session(study, folder, site_of(host))
    host.totals["tool"] = "a" * 64
    run_session(study, folder, site_of(host))
    assert [path.name for path in folder.glob("provenance/contents*")] == ["contents.json"]
    assert records.verify(folder) == []


def test_packages_of_a_host_may_change_those_of_images_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    study, folder = registry.study("fakes"), tmp_path / "s"
    host = TalkingHost("here", {})
    interrupt_session(study, folder, 2, site=site_of(host))
    host.packages = ("libc6 2.42 amd64", "tzdata 1 all")
    with caplog.at_level(logging.WARNING):
        interrupt_session(study, folder, 4, site=site_of(host))
    assert "host here packages: 1 and 2, 2 differ: libc6 2.41 | 2.42; tzdata nothing | 1" in caplog.text
    assert (folder / "provenance/contents.resumed-1.json").exists()
    one, two = contents_of(folder), records.read_provenance(folder, "contents.resumed-1")
    for each in (one, two):
        each["hosts"]["here"]["image"] = True
    assert [(each.where, each.key, each.checked) for each in changes(one, two)] == [("host here", "packages", True)]


def site_of(host: Host) -> FakeSite:
    return FakeSite({"server": host}, {"log": []})


def content(**systems: Any) -> dict[str, Any]:
    return {"packages": {}, "hosts": {}, "systems": systems}


def inside(missing: Mapping[str, str] | None = None, **totals: str) -> dict[str, Any]:
    programs = {name: {"path": f"/bin/{name}", "sha256": total} for name, total in totals.items()}
    return {"targets": {"server": {"programs": programs, "missing": dict(missing or {})}}, "hosts": {}}


def test_a_program_of_many_places_is_one_change() -> None:
    one = content(docker=inside(fio="1", ab="1"), lxc=inside(fio="1"), native=inside(fio="2"))
    two = content(docker=inside(fio="3", ab="1"), lxc=inside(fio="3"), native=inside(fio="2"), podman=inside(fio="4"))
    assert [(each.where, each.key, each.first, each.second) for each in changes(one, two)] == [
        ("docker, lxc", "program fio", "1", "3")
    ]
    assert changes(one, one) == []


def test_what_is_not_known_is_no_difference() -> None:
    known = content(docker=inside(fio="1"))
    assert changes({}, known) == changes(known, {}) == []
    assert changes(known, content(docker=inside())) == []  # a session of other workloads asked for nothing
    assert changes(known, content(docker=inside({"all": "it timed out"}))) == []
    gone = changes(known, content(docker=inside({"fio": "not found"})))
    assert [(each.second, each.checked) for each in gone] == [("not found", False)]


def test_packages_of_another_version_come_first() -> None:
    then = ["a 1 all", "libc6 1 amd64", "libc6 1 i386", "zlib 1 amd64"]
    now = ["b 1 all", "libc6 2 amd64", "libc6 1 i386", "zlib 2 amd64"]
    listed = list(differing_packages(then, now))
    assert listed == ["libc6:amd64 1 | 2", "zlib 1 | 2", "a 1 | nothing", "b nothing | 1"]


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[TalkingHost, TalkingHost], tuple[Path, Path]]:
    """Two sessions of these hosts, whose insides count as an image."""
    monkeypatch.setattr(registry.workload("fake"), "PROGRAMS", {"server": {"tool": ""}}, raising=False)

    def measure(one: TalkingHost, other: TalkingHost) -> tuple[Path, Path]:
        study = registry.study("fakes")
        first = run_session(study, tmp_path / "one", site_of(one), runs=1)
        return first, run_session(study, tmp_path / "two", site_of(other), runs=1)

    return measure


def diff(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, list[str], str]:
    status = cli.main(["session", "diff", *map(str, argv)])
    printed = capsys.readouterr()
    return status, printed.out.splitlines(), printed.err


def test_diff_names_a_program_and_the_first_packages(two: Any, capsys: pytest.CaptureFixture[str]) -> None:
    many = tuple(f"lib{number} 1 amd64" for number in range(9))
    newer = tuple(line.replace(" 1 ", " 2 ") for line in many[:6]) + many[6:]
    one, other = two(TalkingHost("here", {"tool": "a" * 64}, many), TalkingHost("here", {"tool": "b" * 64}, newer))
    status, lines, said = diff(capsys, one, other)
    assert status == 1
    assert lines == [
        "must agree  host here program tool: aaaaaaaaaaaa | bbbbbbbbbbbb",
        "reported    host here packages: 9 and 9, 6 differ: lib0 1 | 2; lib1 1 | 2; lib2 1 | 2; lib3 1 | 2; and 2 more "
        "(--all lists them)",
    ]
    assert "are not comparable: host here program tool: aaaaaaaaaaaa / bbbbbbbbbbbb. " in said
    every = diff(capsys, one, other, "--all")[1]
    assert [line.strip() for line in every if " lib" in line] == [f"lib{number} 1 | 2" for number in range(6)]


def test_a_session_of_before_is_compared_as_it_was(two: Any, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = two(TalkingHost("here", {"tool": "a" * 64}), TalkingHost("here", {"tool": "b" * 64}))
    (one / "provenance/contents.json").unlink()
    status, lines, _ = diff(capsys, one, other)
    assert (status, len(lines)) == (0, 1)
    assert lines[0].startswith("comparable: ")


def test_diff_names_versions_of_a_cluster_without_refusing(two: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folders = two(TalkingHost("here", {}), TalkingHost("here", {}))
    for folder, etcd in zip(folders, ("v3.6.8", "v3.6.9"), strict=True):
        versions = {"kubernetes": "v1.34.4", "etcd": etcd}
        change(folder, "deployments", "fake-base", "facts", "versions", value=versions)
    status, lines, _ = diff(capsys, *folders)
    assert status == 0
    assert lines[0] == "reported    system fake-base versions.etcd: v3.6.8 | v3.6.9"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("packages",), []), (("hosts", "here", "programs"), {"tool": "abc"}), (("hosts", "here", "packages"), 3),
        (("hosts", "here", "image"), "yes"), (("hosts", "here", "missing"), {"tool": None}), (("systems",), {"a": {}}),
        (("packages", "d"), ["one word and another"]),
    ],
)  # fmt: skip
def test_contents_that_no_session_has_are_refused(tmp_path: Path, path: tuple[str, ...], value: Any) -> None:
    folder = run_session(registry.study("fakes"), tmp_path / "s", site_of(TalkingHost("here", {})), runs=1)
    change(folder, "contents", *path, value=value)
    with pytest.raises(LedgerError, match=rf"contents\.json: {path[0]} is .*no session has"):
        comparability.differences(folder, folder)


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    """Return what the program that asks a host consists of."""
    return runpy.run_path(str(Path(infrabench.__file__).parent / "machines/hosts/probes/facts.py"), run_name="facts")


def test_a_device_that_is_made_of_others_has_no_scheduler_and_hides_no_other(
    facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("dm-0", "nvme0n1"):
        (tmp_path / name / "queue").mkdir(parents=True)
        (tmp_path / name / "queue/rotational").write_text("0")
        (tmp_path / name / "size").write_text("8")
    (tmp_path / "nvme0n1/queue/scheduler").write_text("[none] mq-deadline")
    own, blocks = facts["storage"].__globals__, "/sys/block"

    def here(path: str) -> str:
        return path.replace(blocks, str(tmp_path))

    text, queues = own["text"], [f"{blocks}/{name}/queue" for name in ("dm-0", "nvme0n1")]
    monkeypatch.setitem(own, "text", lambda path: text(here(path)))
    monkeypatch.setitem(own, "glob", SimpleNamespace(glob=lambda pattern: queues))
    path = SimpleNamespace(exists=lambda name: Path(here(name)).exists())
    monkeypatch.setitem(own, "os", SimpleNamespace(path=path))
    found = facts["storage"]()
    assert {name: each["scheduler"] for name, each in found.items()} == {"dm-0": None, "nvme0n1": "[none] mq-deadline"}
    assert found["dm-0"]["bytes"] == 4096


@pytest.mark.parametrize(
    ("printed", "by"),
    [
        (
            "C0A80001,192.0.2.1,3,1764150000.1,-0.000012345,0.00001,0.00002,1.5,0.0,0.02,0.01,0.001,64.2,Normal",
            "chronyc",
        ),
        ("506 Cannot talk to daemon", "adjtimex"),
        (OSError("chronyc exited with 1"), "adjtimex"),
    ],
)
def test_chrony_tells_the_offset_and_no_address(
    facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch, printed: Any, by: str
) -> None:
    def said(argv: list[str]) -> str:
        assert argv == ["chronyc", "-c", "tracking"]
        if isinstance(printed, str):
            return printed
        raise printed

    own = facts["clock"].__globals__
    monkeypatch.setitem(own, "said", said)
    monkeypatch.setitem(own, "shutil", type("Present", (), {"which": lambda *_: "/usr/bin/chronyc"}))
    found = facts["clock"]()
    assert isinstance(found["synchronised"], bool)
    assert found["offset_by"] == by
    assert by == "adjtimex" or found["offset_s"] == pytest.approx(12.345e-6)
    assert "192.0.2.1" not in json.dumps(found)


DIMM = """Handle 0x0011, DMI type 17, 92 bytes
Memory Device
\tArray Handle: 0x0010
\tTotal Width: 72 bits
\tSize: {size}
\tForm Factor: DIMM
\tLocator: DIMM_A1
\tType: DDR4
\tType Detail: Synchronous Registered (Buffered)
\tSpeed: 3200 MT/s
\tSerial Number: 12345678
\tConfigured Memory Speed: 2933 MT/s
"""


def test_modules_of_memory_are_counted_without_what_tells_one_from_another(facts: dict[str, Any]) -> None:
    head = "# dmidecode 3.4\nGetting SMBIOS data from sysfs.\n"
    printed = "\n".join([head, *[DIMM.format(size="32 GB")] * 2, DIMM.format(size="No Module Installed")])
    assert facts["modules"](printed) == [
        {"size": "32 GB", "type": "DDR4", "speed": "3200 MT/s", "configured_speed": "2933 MT/s", "count": 2}
    ]
    with pytest.raises(OSError, match="/dev/mem: Permission denied"):
        facts["modules"](f"{head}/sys/firmware/dmi/tables/smbios_entry_point: x\n/dev/mem: Permission denied\n")


def test_memory_and_clock_that_are_not_told_are_missing(facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    own = facts["clock"].__globals__
    refusing = type("Library", (), {"adjtimex": lambda *_: -1})
    monkeypatch.setitem(own, "shutil", type("Absent", (), {"which": lambda *_, **__: None}))
    for library, said in ((lambda *_, **__: refusing(), "adjtimex"), (lambda *_, **__: object(), "no attribute")):
        monkeypatch.setattr(own["ctypes"], "CDLL", library)
        found: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for name in ("clock", "memory_modules"):
            facts["attempt"](found, missing, name, facts["PARTS"][name])
        assert found == {"clock": None, "memory_modules": None}
        assert said in missing["clock"]
        assert missing["memory_modules"] == "there is no dmidecode"
