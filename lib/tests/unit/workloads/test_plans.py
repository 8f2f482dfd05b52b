"""What each workload plans to run: argv lists, phases, limits in time, refusal of bad parameters."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Deployment, DesignError, NotRunnable, Param, Step, Target, default_params
from infrabench.machines.hosts.host import LocalHost
from infrabench.workloads import startup
from tests.support import workloads
from tests.support.captures import WORKLOADS
from tests.support.checks import check_each
from tests.support.workloads import STORE

LIFECYCLE = {
    "create": ("make", "it"), "exec": ("enter",), "remove": ("unmake",), "address": ("198.18.64.9",), **STORE,
}  # fmt: skip
# More is measured than one command: a population goes and is made again; files are written, dropped and read.
OF_SEVERAL_STEPS = {"startup", "cni-agents", "pods-startup", "fio-4k", "file-copy", "oltp", "integrity"}


def roles() -> dict[str, Target]:
    host = LocalHost("here")
    population = {"population": ("pods",), "pods_reason": ("memory of the node",)}
    made = {"create": ("make", "pod"), "remove": ("unmake", "pod"), "metrics": ("tell", "metrics"),
            "agents": ("agent.service",)}  # fmt: skip
    return {
        "server": Target("server", host, ("enter", "guest"), "198.18.64.5", LIFECYCLE),
        "client": Target("client", host, (), "198.18.0.3"),
        "near": Target("near", host, ("enter", "near"), "198.18.64.6"),
        "far": Target("far", host, ("enter", "far"), "198.18.65.6"),
        "conductor": Target("conductor", host, ("enter", "conductor")),
        "control": Target("control", host, lifecycle={**made, **population}, pods=61),
        **{role: Target(role, host, lifecycle=made) for role in ("worker1", "worker2")},
    }


def planned(name: str, **params: Any) -> list[Step]:
    return workloads.planned(name, roles(), **params)


def tool(name: str, **params: Any) -> str:
    return " ".join(next(step for step in planned(name, **params) if step.name == name).argv)


def test_plan_with_defaults() -> None:
    def check(name: str) -> None:
        steps = planned(name)
        assert [step.phase for step in steps].count("measure") == 1 or name in OF_SEVERAL_STEPS
        assert "measure" in [step.phase for step in steps]
        assert len({step.name for step in steps}) == len(steps)
        for step in steps:
            assert all(isinstance(part, str) and "\0" not in part for part in step.argv)
            assert 0 < step.timeout_s < 36000
            assert step.role in roles()
        assert planned(name) == steps

    assert len(WORKLOADS) >= 20
    check_each(check, WORKLOADS)


@pytest.mark.parametrize(("name", "option"), [("iperf3", "-A"), ("netperf", "-T")])
def test_both_ends_are_put_on_the_processors_that_are_asked_for(name: str, option: str) -> None:
    for cpus, pair in (("apart", "1,0"), ("one", "0,0")):
        argv = next(step.argv for step in planned(name, cpus=cpus) if step.phase == "measure")
        own = argv[: argv.index("--")] if "--" in argv else argv  # netperf reads what follows -- as its test's options
        assert own[own.index(option) + 1] == pair
    argv = next(step.argv for step in planned(name) if step.phase == "measure")
    assert option not in argv


def test_services_are_ready_when_they_answer_and_are_stopped() -> None:
    def check(name: str) -> None:
        steps = planned(name)
        ready = next(step for step in steps if step.name == "ready")
        assert ready.role == "client"
        assert ready.until_ok_s is not None
        assert any("198.18.64.5" in part for part in ready.argv)
        assert (steps[-1].name, steps[-1].role, steps[-1].phase) == ("stop", "server", "cleanup")
        if steps[-1].argv[0] == "ib-service":
            assert steps[-1].argv == ("ib-service", "stop", name.partition("-")[0])  # web-rate loads the server of web

    services = [name for name in WORKLOADS if any((s.name, s.role) == ("ready", "client") for s in planned(name))]
    assert {*services} >= {"ftp", "mail", "redis", "web"}
    check_each(check, services)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        # limits of the tools, which PARAMS declare
        ("web", {"users": 20_001, "requests": 30_000}),
        ("redis", {"clients": 10_001}),
        ("iperf3", {"streams": 129}),
        ("iperf3", {"seconds": 1.5}),
        ("stream", {"repetitions": 1}),
        ("mail", {"min_kib": 0}),
        ("fio-4k", {"seconds": 86400}),
        ("rebuild", {"lead_s": 1}),
        ("integrity", {"files": 257, "total_bytes": 10**9}),
        # each in its own range, and not together
        ("stream", {"array_bytes": 8}),
        ("iozone", {"size_bytes": 4097}),
        ("iozone", {"record_bytes": 1536}),
        ("fio", {"size_bytes": 5000}),
        ("web", {"users": 20, "requests": 10}),
        ("mail", {"min_kib": 5, "max_kib": 4}),
        ("redis", {"clients": 50, "requests": 49}),
        ("redis", {"requests": 1001, "pipeline": 2}),
        ("iperf3", {"rate_bit_per_s": 1000}),
        ("netperf", {"data_port": 12865}),
        ("netperf", {"test": "TCP_CRR", "outstanding": 2}),
        ("fio-4k", {"area_bytes": 4097}),
        ("fio-4k", {"block_bytes": 1000, "area_bytes": 10**6}),
        ("file-copy", {"files": 44, "total_bytes": 43 * 2**20}),
        ("oltp", {"buffer_pool_bytes": 2**23 + 1}),
        ("rebuild", {"foreground_iops": 101}),
        ("integrity", {"files": 16, "total_bytes": 2**16}),
        ("pods-sysbench-fileio", {"file_bytes": 5000}),
    ],
)
def test_parameters_that_a_tool_does_not_take_are_refused(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(DesignError):
        planned(name, **params)


def test_a_time_that_sysbench_would_round_is_refused() -> None:
    with pytest.raises(DesignError, match=r"seconds must be whole, sysbench would round 2\.5"):
        planned("sysbench-cpu", seconds=2.5)


TEXTS = ("", "default; rm -rf /", "$(reboot)", "../..", "a\nb")
HOSTILE = (*TEXTS, None, True, -1, 1.5, math.nan, math.inf, 10**30, [], {})


def test_a_value_that_a_parameter_does_not_declare_never_reaches_a_command() -> None:
    """Another type, outside its range, none of its choices; a text without choices may be any line."""

    def may_be(param: Param, value: Any) -> bool:
        if isinstance(param.default, str) and not param.choices:
            return isinstance(value, str) and "\n" not in value
        if isinstance(param.default, bool):
            return value is True
        whole = isinstance(value, float) and math.isfinite(value) and isinstance(param.default, float)
        negative = value == -1 and value is not True and param.least is None and not param.choices
        return (whole and (param.least or 0) <= value <= (param.most or value)) or negative

    def check(of: tuple[str, str]) -> list[str]:
        name, key = of
        param = registry.workload(name).PARAMS[key]
        beyond = [param.least - 1] if param.least is not None else []
        beyond += [param.most + 1] if param.most is not None else []
        wrong = []
        for value in (*HOSTILE, *beyond):
            if not may_be(param, value):
                try:
                    planned(name, **{key: value})
                    wrong.append(f"{value!r} is taken")
                except DesignError:
                    continue
        return wrong

    check_each(check, [(name, key) for name in WORKLOADS for key in registry.workload(name).PARAMS], " ".join)


def test_parameters_reach_the_tools() -> None:
    sysbench = planned("sysbench-cpu", threads=4, seconds=2)[0].argv
    assert "--threads=4" in sysbench
    assert "--time=2" in sysbench
    fixed = planned("sysbench-cpu", events=500)[0].argv
    assert "--time=0" in fixed
    assert "--events=500" in fixed
    assert planned("stream", array_bytes=8192)[0].argv[-2:] == ("--array-bytes", "8192")
    assert "--llc-multiple" in planned("stream")[0].argv
    assert "-I" in planned("iozone", direct=True)[0].argv
    assert "-I" not in planned("iozone")[0].argv
    assert planned("fio", direct=True)[0].argv.count("--direct=1") == 2
    ab = next(step for step in planned("web", users=8000) if step.name == "ab").argv
    assert "-n 10000 -c 8000 -e" in " ".join(ab)
    redis = tool("redis", test="GET", pipeline=4, threads=2)
    assert redis.endswith("-h 198.18.64.5 -p 16379 -t get -n 100000 -c 50 -d 64 -P 4 --threads 2")
    assert "--threads" not in tool("redis")
    assert "--nofile=9024:" in ab
    iperf3 = tool("iperf3", protocol="udp", rate_bit_per_s=10**9, streams=4)
    assert "-c 198.18.64.5 -p 5201 -t 5 -P 4 " in iperf3
    assert iperf3.endswith("-u -b 250000000 -l 1400")
    assert " -u" not in tool("iperf3")
    assert "-t UDP_RR -l 5 -- -P ,12866 -r 1,1 -k PROTOCOL," in tool("netperf", test="UDP_RR")
    assert "LATENCY" not in tool("netperf", test="TCP_STREAM")
    assert "-r 1,1 -b 7 -D -k " in tool("netperf", outstanding=8)  # the first, and those that follow it
    postal = next(step for step in planned("mail", max_kib=64) if step.name == "postal").argv
    assert postal[postal.index("-m") + 1] == "64"


def test_startup_measures_a_removal_makes_sure_of_it_and_waits_for_what_was_written() -> None:
    steps = [(step.name, step.phase, step.argv) for step in planned("startup")][1:]
    assert steps == [
        ("remove", "measure", LIFECYCLE["remove"]), ("gone", "rescue", LIFECYCLE["remove"]),
        ("settle", "cleanup", ("sync",)),
    ]  # fmt: skip
    assert all(step.host for step in planned("startup"))


def test_startup_imports_a_copy_that_no_engine_knows_and_forgets_it() -> None:
    life = {**LIFECYCLE, **{key: (key,) for key in startup.IMPORT}}
    roles = {"server": Target("server", LocalHost("here"), lifecycle=life)}
    steps = workloads.planned("startup", roles, image="imported")
    assert [(step.name, step.phase) for step in steps] == [
        ("no-image", "prepare"), ("copy", "prepare"), ("copied", "prepare"), ("probe", "measure"),
        ("remove", "measure"), ("gone", "rescue"), ("forget", "cleanup"), ("settle", "cleanup"),
    ]  # fmt: skip
    order = json.loads(next(step.argv[-1] for step in steps if step.name == "probe"))
    assert (order["import"], order["create"]) == (["import-image"], ["create-imported"])
    assert "import" not in json.loads(planned("startup")[0].argv[-1])
    with pytest.raises(NotRunnable, match="no image to import: its life cycle gives no copy-image, import-image"):
        planned("startup", image="imported")


def test_startup_says_that_there_is_no_life_cycle() -> None:
    here = Target("server", LocalHost("here"))
    assert "life cycle" in (startup.supported(Deployment("native", {"server": here}, {})) or "")
    with pytest.raises(DesignError, match="create"):
        startup.plan(default_params(startup), {"server": here})
