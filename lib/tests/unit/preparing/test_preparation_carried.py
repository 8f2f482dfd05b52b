"""Plans carried out on hosts that play along, change their mind, or are lost in the middle."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from infrabench.core import Result, SiteError
from infrabench.machines.sites.prepare import apply
from infrabench.machines.sites.prepare.plan import HostJob, make_plan, survey_host
from infrabench.machines.sites.prepare.requirements import Needs

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
        self.has, self.lists, self.changing = list[str](), not later, list[str]()

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        if self.lost_at and self.lost_at in argv:
            raise SiteError("host: the connection was lost")
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


def _job(machine: Any, number: int = 0, *, update: bool = False) -> HostJob:
    return HostJob(f"h{number}", machine, NEEDS, update=update)


def _both(*machines: Machine) -> dict[str, apply.PreparedHost]:
    jobs = [_job(machine, number) for number, machine in enumerate(machines)]
    return apply.apply_plans(jobs, apply.make_plans(jobs), lambda line: None)


def test_a_host_that_is_lost_in_the_middle_is_named_and_the_others_go_on() -> None:
    lost, good = Machine(["fio", "apache2-utils"], lost_at="--directory"), Machine(["fio", "apache2-utils"])
    done = _both(lost, good)
    assert done["h0"].error == "host: the connection was lost"
    assert [change.package for change in done["h0"].changed] == ["apache2-utils", "fio"]  # so far it came
    assert done["h1"].ok
    assert good.has == ["ab", "fio", "/var/cache/infrabench"]
    told = list(apply.render_results(list(done.values())))
    assert told[0] == "h0: failed: host: the connection was lost"
    assert "h1: 2 packages and 0 files changed" in told


def test_a_host_that_cannot_be_asked_at_all_is_named() -> None:
    done = _both(Machine([], lost_at="sh"), Machine(["fio", "apache2-utils"]))
    assert (done["h0"].error, done["h0"].plan) == ("host: the connection was lost", None)
    assert done["h1"].ok


def test_after_an_update_what_was_shown_is_done_and_what_is_not_offered_is_told() -> None:
    host = Machine([], later=["fio"])
    done = _both(host)["h0"]
    assert [shlex.split(line)[-1] for line in host.changing] == ["update", "fio", "/var/cache/infrabench"]
    assert not done.ok
    assert [each for each in done.left if "apt knows no such package" in each]
    assert len(done.left) == 1


def test_what_was_never_shown_is_not_done() -> None:
    host = Machine(["fio"], later=["fio", "apache2-utils"])
    host.lists = True
    job = _job(host, update=True)
    plan = apply.make_plans([_job(host)])["h0"].plan
    assert [each.package for each in plan.packages] == ["fio"]  # type: ignore[union-attr]
    plan = make_plan(job, survey_host(job))
    shown = apply.PreparedHost("h0", replace(plan, packages=plan.packages[1:]))
    done = apply.apply_plans([job], {"h0": shown}, lambda line: None)["h0"]
    assert "apt now offers more than was shown: apache2-utils. Run it again" in done.error
    assert [shlex.split(line)[-1] for line in host.changing] == ["update"]


def test_the_second_time_there_is_nothing_to_do() -> None:
    host = Machine(["fio", "apache2-utils"])
    assert _both(host)["h0"].ok
    changing = list(host.changing)
    again = _both(host)["h0"]
    assert again.ok
    assert host.changing == changing
    assert list(apply.render_results([again])) == ["h0: nothing to do"]


def test_a_record_holds_versions_before_and_after_and_is_never_over_another(tmp_path: Path) -> None:
    job = _job(Machine(["fio", "apache2-utils"]))
    done = apply.apply_plans([job], apply.make_plans([job]), lambda line: None)
    paths = {apply.write_record(tmp_path / "hosts.yml", [job], done, {"studies": ["containers"]}) for _ in range(3)}
    assert len(paths) == 3
    assert all(path.parent == tmp_path and path.name.startswith("hosts.prepared-") for path in paths)
    host = json.loads(paths.pop().read_text())["hosts"]["h0"]
    assert host["packages"] == {name: {"before": None, "after": "1"} for name in ("apache2-utils", "fio")}
    assert [each["argv"][-1] for each in host["commands"]] == ["fio", "/var/cache/infrabench"]
