"""The clock rate of a host is held while a session measures, and is what it was before, however the session ends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from infrabench.core import Host, SiteError
from infrabench.machines.hosts import claims
from infrabench.machines.hosts.child_process import LineStream
from infrabench.machines.hosts.clock_rate import hold_clock_rate
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.hosts.remote_shell import probe
from infrabench.machines.sites import inventory as inventories

FREE = {
    "cpu0/cpufreq/scaling_governor": "schedutil",
    "cpu1/cpufreq/scaling_governor": "powersave",
    "cpu10/cpufreq/scaling_governor": "performance",
    "cpu11/cpufreq/scaling_governor": "userspace",  # at a rate that an administrator has fixed: it is left alone
    "intel_pstate/no_turbo": "0",
    "cpufreq/boost": "1",
}
HELD = {
    **dict.fromkeys([name for name in FREE if name.startswith("cpu") and "governor" in name], "performance"),
    "cpu11/cpufreq/scaling_governor": "userspace",
    "intel_pstate/no_turbo": "1",
    "cpufreq/boost": "0",
}


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A folder like the kernel's."""
    for name, value in FREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{value}\n")
    return tmp_path


def read(settings: Path) -> Mapping[str, str]:
    return {name: (settings / name).read_text().strip() for name in FREE}


def test_settings_are_held_inside_and_as_before_after_it_and_after_an_error(settings: Path) -> None:
    said: list[str] = []
    with hold_clock_rate(LocalHost("server"), said.append, str(settings)):
        assert read(settings) == HELD
    assert read(settings) == FREE
    with pytest.raises(KeyError), hold_clock_rate(LocalHost(), print, str(settings)):
        raise KeyError
    assert read(settings) == FREE
    assert said == [
        "server: while this session runs: governor performance (before: powersave, schedutil), turbo off (before: on), "
        "turbo off (before: on)"
    ]


@pytest.mark.parametrize("ending", ["the connection", "a signal"])
def test_a_host_that_loses_its_controller_sets_back_by_itself(settings: Path, ending: str) -> None:
    command = (*probe("machines/hosts/probes/clock_rate.py"), str(settings))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert json.loads(child.stdout.readline())["failed"] is None
        assert read(settings) == HELD
        if ending == "a signal":
            child.terminate()
        else:
            child.stdin.close()
        child.wait()
    assert read(settings) == FREE


def test_what_somebody_else_sets_meanwhile_stays_and_is_told(settings: Path, caplog: pytest.LogCaptureFixture) -> None:
    with hold_clock_rate(LocalHost("server"), print, str(settings)) as check:
        check()
        for cpu in (0, 10):  # one that was set, and one that was as wanted
            (settings / f"cpu{cpu}/cpufreq/scaling_governor").write_text("ondemand\n")
        with pytest.raises(SiteError, match=r"server: its clock rate is held no longer: .*cpu0/cpufreq.*cpu10/cpufreq"):
            check()
    assert read(settings) == {**FREE, **{f"cpu{cpu}/cpufreq/scaling_governor": "ondemand" for cpu in (0, 10)}}
    (told,) = caplog.messages
    assert told.startswith("server: somebody else has changed these meanwhile, trials differ in clock rate: ")
    assert told.count("scaling_governor") == 2


def test_a_setting_that_cannot_be_set_is_named_and_nothing_is_changed(settings: Path) -> None:
    (settings / "intel_pstate/no_turbo").unlink()
    (settings / "intel_pstate/no_turbo").symlink_to("/proc/version")  # read by all, written by nobody
    before = read(settings)
    with (
        pytest.raises(SiteError, match=r"server: .*intel_pstate/no_turbo cannot be set. That takes root"),
        hold_clock_rate(LocalHost("server"), pytest.fail, str(settings)),
    ):
        pass
    assert read(settings) == before


class Answering(LocalHost):
    """A host whose program gives these answers, and then ends."""

    def __init__(self, *answers: object) -> None:
        super().__init__("server")
        self._script = "".join(f"echo '{json.dumps(answer)}'; read -r line; " for answer in answers)

    @contextmanager
    def stream(self, argv: Sequence[str]) -> Iterator[LineStream]:
        with super().stream(("sh", "-c", self._script)) as found:
            yield found


@pytest.mark.parametrize(
    ("last", "warning"),
    [
        ([{"left": ["/sys/boost"], "lost": []}], "server: these could not be set back: /sys/boost"),
        (
            [{"left": [], "lost": ["/sys/boost"]}],
            "server: somebody else has changed these meanwhile, trials differ in clock rate: /sys/boost",
        ),
        (
            [],
            "server: what held its clock rate is gone, and since when nobody knows (the process ended): it sets back "
            "by itself, and trials may have been measured after that",
        ),
        ([{"left": [], "lost": []}], ""),
    ],
)
def test_what_was_not_set_back_is_told(last: Sequence[object], warning: str, caplog: pytest.LogCaptureFixture) -> None:
    with hold_clock_rate(Answering({"before": {"boost": ["1"]}, "failed": None}, *last), print) as check:
        assert caplog.messages == []
        if not last:
            with pytest.raises(SiteError, match=r"held no longer: what held it is gone \(the process ended\)"):
                check()
    assert caplog.messages == ([warning] if warning else [])


def test_a_host_that_gives_no_answer_is_named() -> None:
    held = hold_clock_rate(Answering(), pytest.fail)
    with pytest.raises(SiteError, match="server: its clock rate cannot be held"), held:
        pass


def test_a_machine_without_such_settings_is_left_as_it_is(tmp_path: Path) -> None:
    said: list[str] = []
    with hold_clock_rate(LocalHost("server"), said.append, str(tmp_path)):
        pass
    assert said == [
        "server: nothing of its clock rate is to be held: all of it is, or the machine has no such settings"
    ]


@pytest.mark.parametrize(("wanted", "of_a_session"), [(True, True), (True, False), (False, True)])
def test_hosts_are_held_where_the_inventory_asks_for_it_and_a_session_claims_them(
    wanted: bool, of_a_session: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    @contextmanager
    def claim(hosts: object, holder: object) -> Iterator[None]:
        order.append("claimed")
        yield
        order.append("free")

    @contextmanager
    def hold(host: Host, say: object) -> Iterator[object]:
        order.append(f"{host.name} held")
        yield lambda: order.append(f"{host.name} checked")
        order.append(f"{host.name} set back")

    monkeypatch.setattr(claims, "claim_hosts", claim)
    monkeypatch.setattr(inventories, "hold_clock_rate", hold)
    described = {"name": "own", "hosts": {"server": {"address": "192.0.2.10"}}, "hold_clock_rate": wanted}
    own = inventories.parse_inventory(Path("hosts.yml"), described)
    opened: Mapping[str, Host] = {"server": LocalHost("server"), "client": LocalHost("client")}
    checks: list[Callable[[], None]] = []
    with inventories.hold_hosts(own, opened, print, {"session": "one"} if of_a_session else None, checks):
        for check in checks:
            check()
    assert checks == []
    held = ["server held", "client held", "server checked", "client checked"] if wanted else []
    back = ["client set back", "server set back"] if wanted else []
    assert order == (["claimed", *held, *back, "free"] if of_a_session else [])
