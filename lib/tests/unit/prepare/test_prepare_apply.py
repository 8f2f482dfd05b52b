"""Plans carried out on hosts that play along, change their mind, or are lost in the middle."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from infrabench.core import Result, SiteError
from infrabench.machines.hosts import interrupts
from infrabench.machines.sites.prepare import apply
from infrabench.machines.sites.prepare.plan import HostPlan
from infrabench.machines.sites.prepare.requirements import GuestFiles, Needs

NEEDS = Needs(
    programs={"fio": "fio", "ab": "apache2-utils"}, folders=("/var/cache/infrabench",),
    wanted={"fio": ("fio",), "ab": ("web",)},
)  # fmt: skip
FACTS = "login root|root yes|system debian|title Debian|machine x86_64|architecture amd64|nofile 9|nr_open 9"


class Machine:
    """A host that installs what it offers; `lost_at`: it is gone when a command has this word."""

    def __init__(self, offers: Sequence[str], *, later: Sequence[str] = (), lost_at: str = "") -> None:
        self.name, self.address = "host", "192.0.2.1"
        self.offers, self.later, self.lost_at = list(offers), list(later), lost_at
        self.interrupted: Event | None = None  # set while it installs
        self.has, self.lists, self.changing = list[str](), not later, list[str]()

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        assert 0 < timeout_s <= 900
        if self.lost_at and self.lost_at in argv:
            raise SiteError("host: the connection was lost")
        if "install" in argv and "--simulate" not in argv and self.interrupted:
            self.interrupted.set()
        return Result(tuple(argv), 0, self._answer(list(argv)).encode(), b"", 0.0, 0.0)

    def _answer(self, argv: list[str]) -> str:
        match argv[0]:
            case "sh":
                named = [word.partition("=")[2] for word in argv[2:]]
                told = [f"absent {name}" for name in named if name not in self.has]
                told += ["lists yes"] if self.lists else []
                packages = {"fio": "fio", "ab": "apache2-utils"}
                told += [f"package {packages[name]} amd64 1 installed" for name in self.has if name in packages]
                told += [f"offer {name} 1" for name in self.offers]
                return "".join(f"fact: {line}\n" for line in (*FACTS.split("|"), *told, "end"))
            case "dpkg":
                return ""
        if "--simulate" in argv:
            return "".join(f"Inst {name} (1 x)\n" for name in argv if name in ("fio", "apache2-utils"))
        self.changing.append(shlex.join(argv))
        if argv[-1] == "update":
            self.lists, self.offers = True, self.later
        self.has += [{"fio": "fio", "apache2-utils": "ab"}[name] for name in argv if name in self.offers]
        self.has += [word for word in argv if word == "/var/cache/infrabench"]
        return ""


def _hosts(*machines: Machine, update: bool = False) -> list[HostPlan]:
    return [HostPlan(f"h{number}", each, NEEDS, GuestFiles(), update=update) for number, each in enumerate(machines)]


def _prepare(*machines: Machine) -> list[HostPlan]:
    return apply.apply_plans(apply.make_plans(_hosts(*machines)), lambda line: None)


def _last_words(machine: Machine) -> list[str]:
    return [shlex.split(line)[-1] for line in machine.changing]


def test_a_host_that_is_lost_is_named_and_the_others_go_on() -> None:
    lost, good = Machine(["fio", "apache2-utils"], lost_at="--directory"), Machine(["fio", "apache2-utils"])
    done = _prepare(lost, good, Machine([], lost_at="sh"))
    assert [each.error for each in done] == ["host: the connection was lost", "", "host: the connection was lost"]
    assert [change.package for change in done[0].changed] == ["apache2-utils", "fio"]  # so far it came
    assert done[1].ok
    assert done[2].survey is None
    assert good.has == ["ab", "fio", "/var/cache/infrabench"]
    told = list(apply.render_results(done))
    assert told[0] == "h0: failed: host: the connection was lost"
    assert "h1: 2 packages and 0 files changed" in told


def test_an_interrupt_lets_the_command_end_and_starts_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Machine(["fio", "apache2-utils"])

    @contextmanager
    def set_event(event: Event, say: object) -> Iterator[None]:
        host.interrupted = event
        yield

    monkeypatch.setattr(interrupts, "set_event", set_event)
    (done,) = _prepare(host)
    assert done.error == "interrupted; 1 of its commands have not run"
    assert [change.package for change in done.changed] == ["apache2-utils", "fio"]
    assert _last_words(host) == ["fio"]


def test_after_an_update_what_was_shown_is_done_and_what_is_not_offered_is_told() -> None:
    host = Machine([], later=["fio"])
    (done,) = _prepare(host)
    assert _last_words(host) == ["update", "fio", "/var/cache/infrabench"]
    assert not done.ok
    (left,) = done.left
    assert "apt knows no such package" in left


def test_what_was_never_shown_is_not_done() -> None:
    host = Machine(["fio"], later=["fio", "apache2-utils"])
    host.lists = True
    (planned,) = apply.make_plans(_hosts(host))
    assert [each.package for each in planned.packages] == ["fio"]
    (planned,) = apply.make_plans(_hosts(host, update=True))
    (done,) = apply.apply_plans([replace(planned, packages=planned.packages[1:])], lambda line: None)
    assert "apt now offers more than was shown: apache2-utils. Run it again" in done.error
    assert _last_words(host) == ["update"]


def test_a_program_that_the_release_has_in_a_package_of_its_own_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(apply.APART, "fio", "apache2-utils")
    host = Machine([], later=["fio", "apache2-utils"])
    needs = Needs(programs={"fio": "fio"}, wanted={"fio": ("fio",)})
    planned = apply.make_plans([HostPlan("h0", host, needs, GuestFiles())])
    assert any(", with apache2-utils where apt has it" in line for line in apply.render_plans(planned, []))
    (done,) = apply.apply_plans(planned, lambda line: None)
    assert (done.error, done.left) == ("", ())
    assert {each.package for each in done.changed} == {"fio", "apache2-utils"}


def test_the_second_time_there_is_nothing_to_do() -> None:
    host = Machine(["fio", "apache2-utils"])
    assert _prepare(host)[0].ok
    changing = list(host.changing)
    again = _prepare(host)
    assert again[0].ok
    assert host.changing == changing
    assert list(apply.render_results(again)) == ["h0: nothing to do"]


def test_a_record_holds_versions_before_and_after_and_is_never_over_another(tmp_path: Path) -> None:
    done = _prepare(Machine(["fio", "apache2-utils"]))
    paths = {apply.write_record(tmp_path / "hosts.yml", done, {"studies": ["containers"]}) for _ in range(3)}
    assert len(paths) == 3
    assert all(path.parent == tmp_path and path.name.startswith("hosts.prepared-") for path in paths)
    host = json.loads(paths.pop().read_text())["hosts"]["h0"]
    assert host["packages"] == {name: {"before": None, "after": "1"} for name in ("apache2-utils", "fio")}
    assert [each["argv"][-1] for each in host["commands"]] == ["fio", "/var/cache/infrabench"]
