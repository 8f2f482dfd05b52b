"""What each workload plans to run: argv lists, phases, limits in time, refusal of bad parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Deployment, DesignError, Step, Target, default_params, plan_steps
from infrabench.machines.hosts.host import LocalHost
from infrabench.workloads import ftp, mail, startup, stream, sysbench_cpu, web
from tests.support.checks import check_each

PACKAGE = Path(startup.__file__).parent
NAMES = tuple(path.stem.replace("_", "-") for path in sorted(PACKAGE.glob("[!_]*.py")))
LIFECYCLE = {
    "create": ("make", "it"), "exec": ("enter",), "remove": ("unmake",), "address": ("198.18.64.9",),
    "store": ("python3", "main.py", "config.json"), "mount": ("/mount",), "uri": ("nbd+unix:///?socket=/sock",),
    "uri-rbd": ("/ceph.conf", "rbd", "volume"), "device": ("/dev/zvol",),
}  # fmt: skip
# More is measured than one command: a population goes and is made again; files are written, dropped and read.
OF_SEVERAL_STEPS = {"pods-startup", "fio-4k", "file-copy", "oltp", "integrity"}


def roles() -> dict[str, Target]:
    host = LocalHost("here")
    population = {"population": ("pods",), "pods_reason": ("memory of the node",)}
    made = {"create": ("make", "pod"), "remove": ("unmake", "pod"), "metrics": ("tell", "metrics")}
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
    workload = registry.workload(name)
    return list(plan_steps(workload, {**default_params(workload), **params}, roles()))


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

    assert len(NAMES) >= 20
    check_each(check, NAMES)


def test_plan_is_the_same_each_time() -> None:
    def check(name: str) -> None:
        assert planned(name) == planned(name)

    check_each(check, NAMES)


@pytest.mark.parametrize(("name", "option"), [("iperf3", "-A"), ("netperf", "-T")])
def test_both_ends_are_put_on_the_processors_that_are_asked_for(name: str, option: str) -> None:
    for cpus, pair in (("apart", "1,0"), ("one", "0,0")):
        argv = next(step.argv for step in planned(name, cpus=cpus) if step.phase == "measure")
        own = argv[: argv.index("--")] if "--" in argv else argv  # netperf reads what follows -- as its test's options
        assert own[own.index(option) + 1] == pair
    argv = next(step.argv for step in planned(name) if step.phase == "measure")
    assert option not in argv


SERVICES = [name for name in NAMES if any((step.name, step.role) == ("ready", "client") for step in planned(name))]


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_ready_when_they_answer_and_are_stopped(name: str) -> None:
    steps = planned(name)
    ready = next(step for step in steps if step.name == "ready")
    assert ready.role == "client"
    assert ready.until_ok_s is not None
    assert any("198.18.64.5" in part for part in ready.argv)
    assert (steps[-1].name, steps[-1].role, steps[-1].phase) == ("stop", "server", "cleanup")
    if steps[-1].argv[0] == "ib-service":
        assert steps[-1].argv == ("ib-service", "stop", name)


def test_there_are_services() -> None:
    assert {*SERVICES} >= {"ftp", "mail", "redis", "web"}


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("sysbench-cpu", {"threads": 0}),
        ("sysbench-cpu", {"seconds": 0}),
        ("stream", {"repetitions": 1}),
        ("stream", {"array_bytes": 8}),
        ("iozone", {"size_bytes": 4097}),
        ("iozone", {"record_bytes": 100}),
        ("fio", {"size_bytes": 5000}),
        ("web", {"users": 0}),
        ("web", {"users": 20, "requests": 10}),
        ("web", {"users": 30000, "requests": 30000}),
        ("ftp", {"size_bytes": 0}),
        ("mail", {"threads": 0}),
        ("mail", {"min_kib": 5, "max_kib": 4}),
        ("mail", {"min_kib": 0}),
        ("startup", {"limit_s": 0}),
        ("redis", {"test": "set"}),
        ("redis", {"clients": 0}),
        ("redis", {"clients": 20000, "requests": 20000}),
        ("redis", {"clients": 50, "requests": 49}),
        ("redis", {"requests": 1001, "pipeline": 2}),
        ("iperf3", {"placement": "three-nodes"}),
        ("iperf3", {"interface": "third"}),
        ("iperf3", {"cpus": "two"}),
        ("iperf3", {"protocol": "sctp"}),
        ("iperf3", {"seconds": 0}),
        ("iperf3", {"seconds": 1.5}),
        ("iperf3", {"omit_s": -1}),
        ("iperf3", {"streams": 0}),
        ("iperf3", {"streams": 129}),
        ("iperf3", {"rate_bit_per_s": 1000}),
        ("iperf3", {"protocol": "udp", "rate_bit_per_s": -1}),
        ("netperf", {"test": "TCP_CRR"}),
        ("netperf", {"seconds": 0}),
        ("netperf", {"seconds": 0.5}),
        ("netperf", {"request_bytes": 0}),
        ("netperf", {"data_port": 12865}),
        ("pods-startup", {"pods": 0}),
        ("pods-startup", {"pods": True}),
        ("pods-startup", {"settle_s": -1}),
        ("pods-netperf", {"test": "UDP_RR"}),
        ("pods-netperf", {"load": "all"}),
        ("pods-netperf", {"seconds": 0.5}),
        ("pods-stream", {"array_bytes": 8}),
        ("pods-stream", {"seconds": 0}),
        ("pods-stream", {"threads": 0}),
        ("pods-sysbench-cpu", {"seconds": 0}),
        ("pods-pi", {"digits": 10}),
        ("pods-pi", {"digits": 1e5}),
        ("pods-pi", {"program": "superpi"}),
    ],
)
def test_bad_parameters_are_refused(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(DesignError):
        planned(name, **params)


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
    assert "-c 198.18.64.5 -p 5201 -t 5 -O 1 -P 4 " in iperf3
    assert iperf3.endswith("-u -b 250000000 -l 1400")
    assert " -u" not in tool("iperf3")
    assert "-t UDP_RR -l 5 -- -P ,12866 -r 1,1 -k PROTOCOL," in tool("netperf", test="UDP_RR")
    assert "LATENCY" not in tool("netperf", test="TCP_STREAM")
    postal = next(step for step in planned("mail", max_kib=64) if step.name == "postal").argv
    assert postal[postal.index("-m") + 1] == "64"


def test_workload_says_what_is_missing() -> None:
    host = LocalHost("here")
    deployment = Deployment("native", {"server": Target("server", host)}, {})
    assert registry.workload("null").supported(deployment) is None
    reason = startup.supported(deployment)
    assert reason is not None
    assert "life cycle" in reason
    bare = Deployment("x", {"server": Target("server", host, ("env", "PATH=/nowhere"))}, {})
    for workload in (sysbench_cpu, stream, web, ftp, mail):
        reason = workload.supported(bare)
        assert reason is not None
        assert "not found" in reason


def test_startup_without_life_cycle_is_a_design_error() -> None:
    here = Target("server", LocalHost("here"))
    with pytest.raises(DesignError, match="create"):
        startup.plan(default_params(startup), {"server": here})
