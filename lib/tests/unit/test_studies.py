"""Every study that is shipped: can each of its trials be planned, and is it declared by the rules of the method?"""

from __future__ import annotations

import re
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Target
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import session
from infrabench.ledger import catalogue, records
from infrabench.machines.hosts.host import LocalHost
from infrabench.workloads import startup
from tests.support.checks import check_each
from tests.support.places import ROOT
from tests.support.workloads import CLIENT, LISTENS

STUDIES = registry.names("studies")
VERBS = ("create", "exec", "remove", "address", "create-plain", "metrics", "version", "population", "memory")
LIFECYCLE = {**dict.fromkeys((*VERBS, "pods_reason", "agents", *startup.IMPORT), ("true",)), **LISTENS}
ADDRESSES = dict.fromkeys(("primary", "second", "service"), "192.0.2.1")
PODS = (
    "near", "far", "server-plain", "near-plain", "far-plain", "server-guarded", "worker1", "worker2", "control",
    "conductor",
)  # fmt: skip
# Profiles beyond the three that every study has.
FURTHER = {
    "cnis": {"factors", "services", "migrated", "load", "long"}, "containers": {"brief", "load"}, "runtimes": {"forty"},
    "storage": {"load", "long", "network"},
}  # fmt: skip
POOLS = {"storage": 3}  # deployments of `quick` where six are too long: wide intervals, and the notebook says so
PLACES, MODES = ("same-node", "two-nodes"), ("default", "strict")
VOLUME = {"path": "nbd", "area_bytes": 100_000_000 * 512, "depth": 32, "block_bytes": 4096, "seconds": 60}
# What the papers had and what they lacked, as parameters of cases of the profile `paper`.
PAPERS: dict[str, dict[tuple[str, str], dict[str, Any]]] = {
    "containers": {
        **{("sysbench-cpu", f"threads={n}"): {"threads": n, "events": 10_000} for n in (1, 2, 4, 6, 8)},
        **{("web", f"users={n}"): {"users": n} for n in range(1000, 9000, 1000)},
        ("iozone", "size=4GiB"): {"size_bytes": 4 * 2**30, "record_bytes": 4096},
        ("fio", "size=4GiB"): {"size_bytes": 4 * 2**30},
        ("ftp", "size=500MB"): {"size_bytes": 500 * 10**6},
        ("mail", "size=25MB"): {"threads": 10, "min_kib": 24414, "max_kib": 24414},
        ("startup", "default"): {},
        ("startup", "image=imported"): {"image": "imported"},
    },
    "cnis": {
        **{("iperf3", f"tcp {place}"): {"placement": place, "seconds": 30} for place in PLACES},
        **{("iperf3", f"tcp-4 {place}"): {"streams": 4} for place in PLACES},
        **{("iperf3", f"udp-{name} {place}"): {"protocol": "udp", "rate_bit_per_s": rate}
           for name, rate in (("100M", 10**8), ("1G", 10**9), ("max", 0)) for place in PLACES},
        **{("netperf", f"{name}_rr {place}"): {"test": f"{name.upper()}_RR"}
           for name in ("tcp", "udp") for place in PLACES},
        ("iperf3", "tcp second two-nodes"): {"interface": "second"},
        ("iperf3", "tcp service two-nodes"): {"interface": "service"},
        ("iperf3", "tcp plain two-nodes"): {"multus": False},
        ("iperf3", "tcp policy two-nodes"): {"policy": True},
        ("pod-network", "plain"): {"multus": False},
    },
    "runtimes": {
        **{(f"pods-{name}", f"{n} pods"): {"pods": n}
           for name in ("startup", "stream", "sysbench-cpu", "sysbench-fileio", "pi") for n in (10, 20, 40, 80)},
        **{("pods-netperf", f"tcp_{name} {n} pods"): {"pods": n, "test": f"TCP_{name.upper()}"}
           for name in ("stream", "rr") for n in (10, 20, 40, 80)},
        ("pods-pi", "1 pod"): {"pods": 1, "digits": 1_000_000},
    },
    "storage": {
        **{("fio-4k", f"{order} {way} {mode}"): {"pattern": f"{short}{way}", "mode": mode, **VOLUME}
           for order, short in (("sequential", ""), ("random", "rand")) for way in ("read", "write") for mode in MODES},
        **{("file-copy", f"44 files {mode}"): {"files": 44, "total_bytes": 25_350_000_000} for mode in MODES},
        **{("oltp", f"{test} {mode}"): {"rows": 1_000_000, "seconds": 60, "mode": mode}
           for test in ("read-write", "read-only") for mode in MODES},
        **{("rebuild", f"{size} GB {throttle}"): {"used_bytes": size * 10**9, "throttle": throttle}
           for size in (20, 40) for throttle in ("default", "open")},
        ("integrity", "a disk lost"): {"damage": "none"},
        ("integrity", "one copy damaged"): {"damage": "one"},
        ("integrity", "both copies damaged"): {"damage": "both"},
    },
}  # fmt: skip


def profiles() -> list[tuple[str, str]]:
    return [(name, profile) for name in STUDIES for profile in registry.study(name).profiles]


def wanted(name: str, profile: str) -> designs.Design:
    return session.request(registry.study(name), profile=profile)


def test_every_case_gives_steps_and_has_a_place_of_its_own_over_its_factor() -> None:
    host = LocalHost("here")
    uplink = {"uplink": "eth0"}
    roles = {
        name: Target(name, host, lifecycle=LIFECYCLE, addresses=ADDRESSES, devices=uplink, pods=99)
        for name in ("server", *PODS)
    }
    roles |= {"client": Target("client", host, lifecycle={**CLIENT, "uri-rbd": LISTENS["uri-rbd"]}, devices=uplink)}

    def check(of: tuple[str, str]) -> None:
        cases = wanted(*of).cases
        assert cases
        for case in cases:
            steps = registry.workload(case.workload).plan(case.params, roles)
            assert any(step.phase == "measure" for step in steps), case
            assert len({step.name for step in steps}) == len(steps), case
        over = [(case.workload, case.factor, case.level) for case in cases if case.factor]
        assert len(set(over)) == len(over)

    check_each(check, profiles(), " ".join)


def test_a_study_has_three_profiles_at_most_three_primary_metrics_and_margins() -> None:
    def check(name: str) -> None:
        study = registry.study(name)
        assert set(study.profiles) == {"smoke", "quick", "paper"} | FURTHER.get(name, set())
        assert 2 <= study.profiles["smoke"].blocks <= 5
        assert study.profiles["paper"].blocks == 30
        assert study.profiles["quick"].blocks == 30 or study.profiles["quick"].deployments >= POOLS.get(name, 6)
        smoke, paper = ({case.workload for case in study.profiles[each].cases} for each in ("smoke", "paper"))
        assert smoke == paper
        assert 1 <= len(study.primary) <= 3
        assert {workload for workload, _ in study.primary} <= paper
        assert "" in study.margins
        assert all(0 < margin < 0.5 for margin in study.margins.values())
        assert study.baseline in study.systems

    check_each(check, STUDIES)


def test_the_profile_paper_has_what_the_papers_have_and_what_they_lack() -> None:
    def check(name: str) -> list[str]:
        cases = {(case.workload, case.scenario): case.params for case in wanted(name, "paper").cases}
        return [f"{key}: {cases.get(key)}" for key, params in PAPERS[name].items()
                if key not in cases or not params.items() <= cases[key].items()]  # fmt: skip

    check_each(check, PAPERS)
    assert {name: wanted(name, "paper").deployments for name in PAPERS if name != "containers"} == dict.fromkeys(
        ("cnis", "runtimes", "storage"), 6
    )


@pytest.mark.parametrize(
    ("name", "minutes"),
    [
        ("containers", {"smoke": 5, "quick": 25, "brief": 7}),
        ("cnis", {"smoke": 5, "quick": 25}),
        ("runtimes", {"smoke": 5, "quick": 30}),
        ("storage", {"smoke": 6, "quick": 50, "network": 55, "long": 60, "load": 25}),
    ],
)
def test_profiles_are_as_long_as_they_may_be(name: str, minutes: dict[str, float]) -> None:
    study = registry.study(name)
    # without Kata, which is not installed everywhere
    systems = ["containerd-runc", "crio-runc", "containerd-runsc"] if name == "runtimes" else None
    for profile, most in minutes.items():
        design = session.request(study, profile=profile, systems=systems)
        assert designs.expected_study_cost(study, design).seconds < 60 * most, profile


@pytest.mark.parametrize(
    "name", ["lab-quick-debian13-cnis", "lab-quick-debian13-storage", "lab-network-2026-11-storage"]
)
def test_a_plan_leaves_out_what_a_recorded_session_found_its_systems_to_have_no_place_for(name: str) -> None:
    data = records.read_session(catalogue.find("", name))
    wanted = session.request(registry.study(data["study"]), profile=data["parameters"]["profile"])
    assert wanted.excluded == records.not_applicable(data).keys() != set()


def test_a_scenario_of_the_cnis_study_says_where_both_ends_are() -> None:
    for case in wanted("cnis", "paper").cases:
        assert case.workload in ("pod-network", "cni-agents") or case.scenario.endswith(case.params["placement"])


def test_pods_of_the_runtimes_study_share_their_number_fit_their_limit_and_are_of_both_layers() -> None:
    study = registry.study("runtimes")
    for name in study.profiles:
        design = wanted("runtimes", name)
        for case in design.cases:  # the name ends in the count, and what shares pods stands together
            assert case.scenario.endswith(case.group)
            assert case.group == f"{case.level} pod{'s' * (case.level != 1)}"
            assert case.params["pods"] == case.level
            assert 3 * case.params.get("array_bytes", 0) < 0.9 * study.limits.memory_bytes  # what a pod may have
        pairs = {tuple(system.split("-")) for system in design.systems}
        assert {high for high, low in pairs if low == "runc"} == {"containerd", "crio"}
        assert {low for high, low in pairs if high == "containerd"} >= {"runc", "runsc", "kata"}


def test_the_space_that_the_storage_study_asks_for_holds_what_is_written() -> None:
    study = registry.study("storage")
    for name in ("smoke", "quick", "paper"):
        for case in wanted("storage", name).cases:
            held = (case.params.get(key, 0) for key in ("area_bytes", "total_bytes", "used_bytes"))
            assert case.disk_bytes >= max(*held, 500 * case.params.get("rows", 0))
    assert designs.expected_study_cost(study, wanted("storage", "quick")).target_bytes < 6e9


def test_where_the_client_is_shares_the_data_that_requests_go_to() -> None:
    """Filled minutes before, they are on the disk; filled just now, in a cache below it that nobody can empty."""
    cases = [case for case in registry.study("storage").profiles["network"].cases if case.workload == "fio-4k"]
    assert {case.params["placement"] for case in cases if "placement" in case.params} == {"two-nodes"}
    assert {case.group for case in cases} == {"single requests"}


def test_known_effects_have_true_ratios_for_each_label_that_is_not_the_same() -> None:
    study = registry.study("known-effects")
    assert {label for label, *_ in study.known} == set(study.systems) - {"unchanged", "unchanged-again"}
    assert {(workload, metric) for _, workload, metric, _ in study.known} == set(study.primary)
    assert all(0.9 < ratio < 1 for *_, ratio in study.known)
    same = [study.variants[name] for name in ("unchanged", "unchanged-again")]
    assert same[0] == same[1]
    # every label that changes a host says how to change it back, or the next label's entering does
    assert all(
        variant.leave or {argv[:9] for _, argv in variant.enter} == {argv[:9] for _, argv in same[0].enter}
        for variant in study.variants.values()
    )


@pytest.mark.parametrize("name", ["containers", "cnis", "runtimes", "storage"])
def test_the_guide_has_the_margins_of_every_study(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}` \| (.*)$", (ROOT / "docs/verdicts.md").read_text(), re.MULTILINE)
    margins = {f"{100 * each:g} %" for each in registry.study(name).margins.values()}
    assert set(re.findall(r"\d+ %", row)) == margins


def test_no_latency_of_the_containers_study_has_the_margin_of_a_rate() -> None:
    study = registry.study("containers")
    workloads = {case.workload for profile in study.profiles.values() for case in profile.cases}
    found = {metric for name in workloads for metric in registry.metric_kinds(name) if metric.startswith("latency_")}
    assert {"latency_avg_s", "latency_mean_s"} <= found
    assert all(study.margins.get(metric, 0.0) >= 0.05 for metric in found), found - study.margins.keys()
