"""Every study that is shipped: can each of its trials be planned, and is it declared by the rules of the method?"""

from __future__ import annotations

import re

import pytest

from infrabench import registry
from infrabench.core import Target
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import session
from infrabench.machines.hosts.host import LocalHost
from tests.support.checks import check_each
from tests.support.places import ROOT
from tests.support.workloads import CLIENT, LISTENS

STUDIES = registry.names("studies")
VERBS = ("create", "exec", "remove", "address", "create-plain", "metrics", "version", "population", "memory")
LIFECYCLE = {**dict.fromkeys((*VERBS, "pods_reason", "agents"), ("true",)), **LISTENS}
ADDRESSES = dict.fromkeys(("primary", "second", "service"), "192.0.2.1")
PODS = (
    "near", "far", "server-plain", "near-plain", "far-plain", "server-guarded", "worker1", "worker2", "control",
    "conductor",
)  # fmt: skip
# Profiles beyond the three that every study has.
FURTHER = {
    "cnis": {"factors", "services", "migrated"}, "containers": {"brief", "load"}, "runtimes": {"forty"},
    "storage": {"crosscheck", "long", "network"},
}  # fmt: skip
POOLS = {"storage": 3}  # deployments of `quick` where six are too long: wide intervals, and the notebook says so


def profiles() -> list[tuple[str, str]]:
    return [(name, profile) for name in STUDIES for profile in registry.study(name).profiles]


def test_every_case_gives_steps() -> None:
    host = LocalHost("here")
    uplink = {"uplink": "eth0"}
    roles = {
        name: Target(name, host, lifecycle=LIFECYCLE, addresses=ADDRESSES, devices=uplink, pods=99)
        for name in ("server", *PODS)
    }
    roles |= {"client": Target("client", host, lifecycle={**CLIENT, "uri-rbd": LISTENS["uri-rbd"]}, devices=uplink)}

    def check(of: tuple[str, str]) -> None:
        name, profile = of
        cases = session.request(registry.study(name), profile=profile).cases
        assert cases
        for case in cases:
            steps = registry.workload(case.workload).plan(case.params, roles)
            assert any(step.phase == "measure" for step in steps), case
            assert len({step.name for step in steps}) == len(steps), case

    check_each(check, profiles(), " ".join)


def test_a_study_has_three_profiles_at_most_three_primary_metrics_and_margins() -> None:
    def check(name: str) -> None:
        study = registry.study(name)
        assert set(study.profiles) == {"smoke", "quick", "paper"} | FURTHER.get(name, set())
        assert 2 <= study.profiles["smoke"].blocks <= 5
        assert study.profiles["paper"].blocks == 30
        assert study.profiles["quick"].blocks == 30 or study.profiles["quick"].deployments >= POOLS.get(name, 6)
        assert 1 <= len(study.primary) <= 3
        assert "" in study.margins
        assert all(0 < margin < 0.5 for margin in study.margins.values())
        known = {case.workload for profile in study.profiles.values() for case in profile.cases}
        assert {workload for workload, _ in study.primary} <= known
        assert study.baseline in study.systems

    check_each(check, STUDIES)


def test_where_the_client_is_shares_the_data_that_requests_go_to() -> None:
    """Filled minutes before, they are on the disk; filled just now, in a cache below it that nobody can empty."""
    cases = [case for case in registry.study("storage").profiles["network"].cases if case.workload == "fio-4k"]
    assert {case.params["placement"] for case in cases if "placement" in case.params} == {"two-nodes"}
    assert {case.group for case in cases} == {"single requests"}


def test_the_containers_study_has_the_sizes_of_the_papers():
    wanted = session.request(registry.study("containers"), profile="paper", runs=30)
    levels = {(case.workload, case.level) for case in wanted.cases if case.level}
    assert {level for workload, level in levels if workload == "sysbench-cpu"} == {1, 2, 4, 6, 8}
    assert {level for workload, level in levels if workload == "web"} == set(range(1000, 9000, 1000))
    params = {case.workload: case.params for case in wanted.cases}
    assert params["iozone"]["size_bytes"] == params["fio"]["size_bytes"] == 4 * 2**30
    assert params["iozone"]["record_bytes"] == 4096
    assert params["ftp"]["size_bytes"] == 500 * 10**6
    assert (params["mail"]["threads"], params["mail"]["min_kib"], params["mail"]["max_kib"]) == (10, 24414, 24414)
    assert len(designs.trials(wanted)) == 30 * 4 * len(wanted.cases)
    assert "startup" in params


@pytest.mark.parametrize(
    ("name", "minutes"),
    [
        ("containers", {"smoke": 5, "quick": 25, "brief": 7}),
        ("cnis", {"smoke": 5, "quick": 25}),
        ("runtimes", {"smoke": 5, "quick": 30}),
        ("storage", {"smoke": 6, "quick": 40, "network": 45, "long": 60}),
    ],
)
def test_profiles_are_as_long_as_they_may_be(name: str, minutes: dict[str, float]) -> None:
    study = registry.study(name)
    # without Kata, which is not installed everywhere
    systems = ["containerd-runc", "crio-runc", "containerd-runsc"] if name == "runtimes" else None
    for profile, most in minutes.items():
        wanted = session.request(study, profile=profile, systems=systems)
        assert designs.expected_study_cost(study, wanted).seconds < 60 * most, profile


def test_the_cnis_study_has_what_the_paper_has_and_what_it_lacks():
    study = registry.study("cnis")
    wanted = session.request(study, profile="paper")
    cases = {(case.workload, case.scenario): case.params for case in wanted.cases}
    for place in ("same-node", "two-nodes"):
        assert cases["iperf3", f"tcp {place}"]["seconds"] == 30
        assert cases["iperf3", f"tcp {place}"]["omit_s"] == 5
        assert cases["iperf3", f"tcp-4 {place}"]["streams"] == 4
        rates = {name: cases["iperf3", f"udp-{name} {place}"]["rate_bit_per_s"] for name in ("100M", "1G", "max")}
        assert rates == {"100M": 10**8, "1G": 10**9, "max": 0}
        assert {cases["netperf", f"{name}_rr {place}"]["test"] for name in ("tcp", "udp")} == {"TCP_RR", "UDP_RR"}
    assert cases["iperf3", "tcp second two-nodes"]["interface"] == "second"
    assert cases["iperf3", "tcp service two-nodes"]["interface"] == "service"
    assert cases["iperf3", "tcp plain two-nodes"]["multus"] is False
    assert cases["iperf3", "tcp policy two-nodes"]["policy"] is True
    assert cases["pod-network", "plain"]["multus"] is False
    assert wanted.deployments >= 6
    for case in wanted.cases:  # the name says the placement
        assert case.workload in ("pod-network", "cni-agents") or case.scenario.endswith(case.params["placement"])


def test_the_profiles_of_the_cnis_study_have_the_same_ways():
    study = registry.study("cnis")
    smoke, quick, paper = (session.request(study, profile=name) for name in ("smoke", "quick", "paper"))
    assert smoke.systems == paper.systems == study.systems[:4]
    assert quick.systems == ("flannel", "cilium", "host")
    assert {case.workload for case in smoke.cases} == {case.workload for case in paper.cases}
    ways = [{" ".join(case.scenario.split()[1:-1]) for case in each.cases} for each in (smoke, paper)]
    assert ways[0] == ways[1] - {"free"}
    assert study.limits.cpus == ""


def test_the_runtimes_study_has_the_counts_of_the_paper_and_those_beyond():
    study = registry.study("runtimes")
    wanted = session.request(study, profile="paper")
    counts = {case.level for case in wanted.cases}
    assert counts == {1, 10, 20, 40, 80}
    assert {case.level for case in wanted.cases if case.workload == "pods-netperf"} == counts - {1}
    assert wanted.systems == study.systems
    quick, forty = (session.request(study, profile=name) for name in ("quick", "forty"))
    assert quick.cases == forty.cases[: len(quick.cases)]
    assert {case.level for case in forty.cases} == {10, 20, 40}
    assert quick.deployments == quick.blocks == 6
    for case in wanted.cases:  # the name ends in the count, and what shares pods stands together
        assert case.scenario.endswith(case.group)
        assert case.group == f"{case.level} pod{'s' * (case.level != 1)}"
        assert case.params["pods"] == case.level
    pi = next(case.params["digits"] for case in wanted.cases if case.workload == "pods-pi")
    assert pi > next(case.params["digits"] for case in quick.cases if case.workload == "pods-pi")


@pytest.mark.parametrize("profile", ["smoke", "quick", "forty", "paper"])
def test_no_two_cases_of_a_metric_share_a_place_over_the_number_of_pods(profile):
    cases = registry.study("runtimes").profiles[profile].cases
    assert len({(case.workload, case.factor, case.level) for case in cases}) == len(cases)


def test_both_layers_of_a_runtime_are_in_every_profile():
    study = registry.study("runtimes")
    for name in study.profiles:
        systems = session.request(study, profile=name).systems
        pairs = {tuple(system.split("-")) for system in systems}
        assert {high for high, low in pairs if low == "runc"} == {"containerd", "crio"}
        assert {low for high, low in pairs if high == "containerd"} >= {"runc", "runsc", "kata"}


def test_the_profiles_of_the_runtimes_study_fit_each_other_and_a_pod():
    study = registry.study("runtimes")
    smoke, quick = (session.request(study, profile=name) for name in ("smoke", "quick"))
    assert [case.workload for case in smoke.cases] == [case.workload for case in quick.cases[: len(smoke.cases)]]
    # three arrays of each pod fit in what a pod may have
    arrays = [case.params["array_bytes"] for case in study.profiles["paper"].cases if case.workload == "pods-stream"]
    assert 3 * max(arrays) < 0.9 * study.limits.memory_bytes


def test_the_storage_study_has_the_sizes_of_the_paper_and_what_it_lacks():
    study = registry.study("storage")
    wanted = session.request(study, profile="paper")
    cases = {(case.workload, case.scenario): case.params for case in wanted.cases}
    assert (study.baseline, wanted.blocks, wanted.deployments) == ("zfs", 30, 6)
    for pattern, name in (("read", "sequential read"), ("write", "sequential write"), ("randread", "random read"),
                          ("randwrite", "random write")):  # fmt: skip
        for mode in ("default", "strict"):
            asked = cases["fio-4k", f"{name} {mode}"]
            assert (asked["pattern"], asked["mode"], asked["path"]) == (pattern, mode, "nbd")
            assert (asked["area_bytes"], asked["depth"]) == (100_000_000 * 512, 32)
            assert (asked["block_bytes"], asked["seconds"]) == (4096, 60)
    assert {case.params["path"] for case in wanted.cases if case.workload == "fio-4k"} == {"nbd", "rbd", "kernel"}
    assert cases["file-copy", "44 files default"]["total_bytes"] == 25_350_000_000
    assert cases["file-copy", "44 files strict"]["files"] == 44
    for test in ("read-write", "read-only"):
        for mode in ("default", "strict"):
            asked = cases["oltp", f"{test} {mode}"]
            assert (asked["rows"], asked["seconds"], asked["mode"]) == (1_000_000, 60, mode)
    used = {(case.params["used_bytes"], case.params["throttle"]) for case in wanted.cases if case.workload == "rebuild"}
    assert used == {(size * 10**9, throttle) for size in (20, 40) for throttle in ("default", "open")}
    assert {case.params["damage"] for case in wanted.cases if case.workload == "integrity"} == {"none", "one", "both"}


def test_the_profiles_of_the_storage_study_are_as_large_as_they_may_be():
    study = registry.study("storage")
    smoke, quick, paper = (session.request(study, profile=name) for name in ("smoke", "quick", "paper"))
    assert (smoke.blocks, smoke.deployments, quick.blocks, quick.deployments) == (2, 2, 3, 3)
    of_smoke, of_quick, of_paper = ({case.workload for case in each.cases} for each in (smoke, quick, paper))
    assert of_smoke == of_quick == of_paper
    assert {case.scenario for case in quick.cases if case.workload == "rebuild"} == {"1 GB open", "1 GB default"}
    for case in (*smoke.cases, *quick.cases, *paper.cases):  # the space that is asked for holds what is written
        held = (case.params.get(name, 0) for name in ("area_bytes", "total_bytes", "used_bytes"))
        assert case.disk_bytes >= max(*held, 500 * case.params.get("rows", 0))
    assert designs.expected_study_cost(study, quick).target_bytes < 6e9
    assert len({(case.workload, case.factor, case.level) for case in quick.cases if case.factor}) == 2


def test_the_cross_check_asks_the_same_of_another_engine():
    study = registry.study("storage")
    quick, check = (session.request(study, profile=name) for name in ("quick", "crosscheck"))
    assert (quick.systems, quick.baseline) == (("zfs", "ceph"), "zfs")
    assert (check.systems, check.baseline) == (("zfs-vm", "ceph-vm"), "zfs-vm")
    mine = {case.scenario for case in quick.cases if case.params.get("path") == "nbd"}
    assert {case.scenario.removesuffix(" kernel") for case in check.cases} == mine
    assert {(case.workload, case.params["path"]) for case in check.cases} == {("fio-4k", "kernel")}


def test_known_effects_have_true_ratios_for_each_label_that_is_not_the_same():
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
