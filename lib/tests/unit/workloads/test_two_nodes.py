"""A store's client on a node of its own: where its steps run, and the proof that its bytes crossed the network."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from infrabench.core import Capture, NotAsClaimed, NotRunnable, ParseError, Result, Step, Target
from infrabench.machines.hosts.host import LocalHost
from infrabench.workloads import _volume
from tests.support import workloads
from tests.support.captures import with_stdout
from tests.support.workloads import CLIENT, LISTENS, STORE, captured

NAMES = ("fio-4k", "file-copy", "oltp")
MB = 10**6
UPLINKS = {"server": "eth7", "client": "eth0"}
ROLES = {
    role: Target(role, LocalHost("here"), lifecycle=life, devices={"uplink": UPLINKS[role]})
    for role, life in (("server", LISTENS), ("client", CLIENT))
}


def planned(name: str, roles: dict[str, Target] = ROLES, **params: Any) -> list[Step]:
    return workloads.planned(name, roles, placement="two-nodes", **params)


@pytest.mark.parametrize("name", NAMES)
def test_the_client_works_on_its_node_and_the_store_on_its_own(name: str) -> None:
    steps = planned(name)
    assert len({step.name for step in steps}) == len(steps)
    for step in steps:
        is_stores = step.argv[:3] in (LISTENS["store"], LISTENS["store-listens"])
        assert step.role == ("server" if is_stores or step.name.startswith("link-server") else "client"), step
    tool = next(step for step in steps if step.name in ("fio", "write", "sysbench"))
    assert tool.argv[: len(CLIENT["watch"])] == CLIENT["watch"]
    rescue = [(step.role, step.argv[-1]) for step in steps if step.phase == "rescue" and step.argv[0] == "python3"]
    assert rescue == [("client", "evidence"), ("client", "remake"), ("server", "evidence"), ("server", "remake")]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_node_has_the_steps_that_it_always_had(name: str) -> None:
    """A client that is there as well changes nothing of a trial that does not ask for it."""
    assert workloads.planned(name, ROLES) == workloads.planned(name, {"server": ROLES["server"]})
    assert {step.role for step in workloads.planned(name, ROLES)} == {"server"}


@pytest.mark.parametrize("name", NAMES)
def test_without_a_client_on_another_node_the_scenario_is_left_out(name: str) -> None:
    alone = {**ROLES, "server": replace(ROLES["server"], lifecycle=STORE)}
    with pytest.raises(NotRunnable, match="its client has no node of its own here"):
        planned(name, alone)


def test_paths_are_those_of_the_client() -> None:
    fio = next(step for step in planned("fio-4k") if step.name == "fio")
    assert "--uri=nbd://192.0.2.1:10809" in fio.argv
    for path, said in (("rbd", "it has no RBD image"), ("kernel", "no block device of the kernel")):
        with pytest.raises(NotRunnable, match=said):
            planned("fio-4k", path=path)


@pytest.mark.parametrize(("name", "step"), [("fio-4k", "fio"), ("file-copy", "read"), ("oltp", "start-cold")])
def test_what_is_measured_begins_cold_on_both_nodes(name: str, step: str) -> None:
    names = [each.name for each in planned(name)]
    drops = [each.name for each in planned(name)[: names.index(step)] if each.argv[-1] == "drop"][-2:]
    between = names[names.index(drops[-1]) + 1 : names.index(step)]
    assert [each.removesuffix("-before-read") for each in drops] == ["client-drop", "drop"]
    assert all(each.startswith(("link-", "client-usage-", "usage-")) for each in between)


def dev(device: str, received: int, sent: int) -> bytes:
    head = "Inter-|   Receive                                                |  Transmit\n face |bytes packets\n"
    row = f"{device}: {received} 9 0 0 0 0 0 0 {sent} 9 0 0 0 0 0 0\n"
    return f"{head}    lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n  {row}".encode()


def run(name: str, client: tuple[int, int], server: tuple[int, int], boots: tuple[str, str] = ("a", "a")) -> Capture:
    """Return a captured run as on two nodes, whose devices have received and sent so many bytes in it."""
    base = captured(name, placement="two-nodes")
    steps = dict(base.steps)
    for step in planned(name, **{"pattern": base.params["pattern"]} if name == "fio-4k" else {}):
        parts = step.name.split("-")
        if parts[0] == "link":
            passed = {"client": client, "server": server}[parts[1]] if parts[2] == "after" else (0, 0)
            steps[step.name] = result(step, dev(UPLINKS[parts[1]], 500 + passed[0], 700 + passed[1]))
        elif step.name.startswith("client-usage"):
            late = {"before": 1.0, "after": 4.0}.get(parts[2], 0.0)
            steps[step.name] = result(step, usage(boots[1], late))
    for step in ("usage-before", "usage-after"):
        if step in steps:
            told = json.loads(steps[step].stdout)
            steps[step] = replace(steps[step], stdout=json.dumps({**told, "boot_id": boots[0]}).encode())
    return Capture(steps, base.params)


def result(step: Step, stdout: bytes) -> Result:
    return Result(step.argv, 0, stdout, b"", 0.0, 0.1)


def usage(boot: str, late_s: float) -> bytes:
    area = {"read_B": int(late_s) * 10 * MB, "written_B": int(late_s) * 20 * MB}
    told = {"verb": "usage", "begun_s": 1 + late_s, "done_s": 2 + late_s, "boot_id": boot, "client": {}, "area": area}
    return json.dumps({**told, "machine": {"busy_s": 10 + late_s, "total_s": 100 + late_s}}).encode()


def test_a_run_whose_bytes_both_ends_have_counted_is_one() -> None:
    many = 10**12
    alone, apart = workloads.measured("fio-4k", captured("fio-4k")), run("fio-4k", (many, many), (many, many))
    assert workloads.measured("fio-4k", apart) == alone


@pytest.mark.parametrize(
    ("client", "server", "said"),
    [
        ((0, 0), (0, 0), "said two nodes, but eth0 of the client carried 0 of"),
        ((10**12, 10**12), (0, 0), "said two nodes, but eth7 of the store carried 0 of"),
        ((0, 0), (10**12, 10**12), "eth0 of the client carried 0 of"),
    ],
)
def test_bytes_that_took_another_way_are_no_result(client: tuple[int, int], server: tuple[int, int], said: str) -> None:
    assert said in workloads.refused("fio-4k", run("fio-4k", client, server), NotAsClaimed)


def test_each_direction_has_to_have_carried_its_own() -> None:
    found = run("oltp", (50 * MB, 90 * MB), (90 * MB, 50 * MB))
    _volume.check_link(found, "before", "after", received_bytes=50 * MB, sent_bytes=90 * MB)
    for way in ({"received_bytes": 60.0 * MB}, {"sent_bytes": 110.0 * MB}, {"received_bytes": 2e6, "sent_bytes": 2e8}):
        with pytest.raises(NotAsClaimed, match="said two nodes, but eth0 of the client"):
            _volume.check_link(found, "before", "after", **way)
    with pytest.raises(NotAsClaimed, match="too few to tell"):
        _volume.check_link(found, "before", "after", received_bytes=1000)
    _volume.check_link(captured("oltp"), "before", "after", received_bytes=1000)  # one node: nothing is asked


def test_a_database_has_to_have_sent_half_of_what_its_files_moved() -> None:
    assert workloads.measured("oltp", run("oltp", (20 * MB, 40 * MB), (40 * MB, 20 * MB)))
    assert "eth0 of the client" in workloads.refused(
        "oltp", run("oltp", (17 * MB, 40 * MB), (40 * MB, 17 * MB)), NotAsClaimed
    )


def test_readings_of_a_device_that_is_not_there_or_was_made_anew_are_refused() -> None:
    found = run("fio-4k", (10**12, 10**12), (10**12, 10**12))
    for stdout, said in ((dev("eth1", 1, 1), "there is no device eth0"), (dev("eth0", 1, 1), "went backwards")):
        assert said in workloads.refused("fio-4k", with_stdout(found, "link-client-after", stdout))


def test_the_clients_own_machine_is_counted_where_it_is_another() -> None:
    one, two = (
        _volume.used(run("fio-4k", (1, 1), (1, 1), boots), "before", "after") for boots in (("a", "a"), ("a", "b"))
    )
    assert (one.apart_s, two.apart_s) == (0.0, 3.0)
    assert two.client_s == one.client_s + 3.0
    assert two.percent == one.percent
    backwards = with_stdout(run("fio-4k", (1, 1), (1, 1), ("a", "b")), "client-usage-before", usage("b", 9.0))
    with pytest.raises(ParseError, match="client's machine went backwards"):
        _volume.used(backwards, "before", "after")
