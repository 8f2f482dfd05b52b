"""What is asked of a study: one object, own values of parameters, own profiles, and back from a recorded session."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from infrabench import cli, registry
from infrabench.core import Case, DesignError, Limits, Param, Profile, Request
from infrabench.core.request import parse_settings
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.settings import SUBSET, apply_settings, draw_subset, read_settings
from infrabench.experiment.execution import session
from infrabench.ledger import catalogue
from infrabench.ledger.records import read_session
from infrabench.notebook import api


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"runs": 0}, "runs must be a whole number of at least 1, got 0"),
        ({"runs": "30"}, "runs must be a whole number of at least 1, got '30'"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"deployments": True}, "deployments must be a whole number"),
        ({"systems": []}, "systems must be a list of one or more names"),
        ({"systems": '["native"'}, r"not a list of names: .* write \[.*\] or native,docker"),
        ({"workloads": ["web", "web"]}, "workloads names 'web' more than once"),
        ({"order": 5}, "order and aa are names, got 5"),
        ({"aa": "native", "systems": ["native"]}, "name either `aa` or `systems`"),
        ({"precision": "2"}, "precision must be a number, got '2'"),
        ({"precision": 0.02, "minutes": 0}, "minutes must be more than 0"),
        ({"minutes": -5}, "minutes must be more than 0"),
        ({"minutes": "20"}, "minutes must be a number"),
        ({"minutes": float("nan")}, "minutes must be a number"),
        ({"minutes": 1e12}, "minutes must be a number"),
        ({"minutes": 20, "mixture": True}, "among trials of one code"),
        ({"rounds": 101}, "rounds must be at most 100, not 101"),
        ({"precision": 0.02, "most": 0}, "most must be a whole number of at least 1"),
        ({"most": 50}, "give the precision, or the minutes, too"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_was_given(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(DesignError, match=message):
        Request("containers", "quick", **parameters)


def test_what_is_given_makes_the_same_request_again() -> None:
    request = Request(
        "containers", "quick", runs=30, systems="native, docker", precision=0.02, minutes=120.0, site="lab", session="s"
    )
    assert request.systems == ("native", "docker")
    assert Request("containers", "quick", systems='["native", "docker"]').systems == request.systems
    assert Request(**json.loads(json.dumps(request.given()))) == request
    assert request.given().keys() == {
        "study", "profile", "runs", "systems", "precision", "minutes", "site", "session",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(catalogue.recorded()))
def test_a_recorded_session_says_what_was_asked(name: str) -> None:
    """Also one that was recorded before some parameters were there."""
    data = read_session(catalogue.find(None, name))
    request = Request.from_session(data, name)
    asked = data["parameters"]
    assert (request.study, request.profile, request.session) == (data["study"], data["profile"], name)
    assert (request.runs, request.seed) == (asked["blocks"], asked["seed"])
    assert list(request.workloads or ()) == asked["workloads"]
    assert request.aa or list(request.systems or ()) == asked["systems"]


def test_a_design_tells_the_request_that_leaves_nothing_to_the_study() -> None:
    wanted = session.resolve(Request("containers", "quick", systems=["docker", "native"]))
    whole = designs.complete(wanted)
    assert None not in (whole.runs, whole.seed, whole.deployments, whole.workloads)
    assert whole.order == "adjacent"
    assert designs.trials(session.resolve(whole)) == designs.trials(wanted)


DECLARED = {
    "load": {
        "users": Param(10, least=1, most=100),
        "requests": Param(1000, least=1, work=True),
        "size_bytes": Param(2**20, least=1, unit="B"),
        "seconds": Param(2.0, least=0.5, unit="s"),
        "kind": Param("get", choices=("get", "set")),
        "fresh": Param(False),
        "file": Param("/tmp/x"),
    }
}
SMALL = Case("load", "users=1", {"users": 1, "requests": 900}, "users", 1, 2.0, 10, rounds=3)
LARGE = Case("load", "users=50", {"users": 50, "requests": 4000}, "users", 50, 8.0, 10, rounds=4)


def made(cases: list[Case], **settings: Any) -> list[Case]:
    given = {f"load.{name}": value if isinstance(value, list) else [value] for name, value in settings.items()}
    return apply_settings(cases, read_settings(given, ["load"], DECLARED), DECLARED)


@pytest.mark.parametrize(
    "given",
    [
        {"web.users": [100, 1000], "fio.path": "a"},
        '{"web.users": [100, 1000], "fio.path": "a"}',
        {"web.users": (100, 1000), "fio.path": ["a"]},
    ],
)
def test_settings_come_as_a_mapping_or_as_json(given: Any) -> None:
    assert parse_settings(given) == {"web.users": (100, 1000), "fio.path": ("a",)}


@pytest.mark.parametrize("given", ["web.users=100,1000 fio.path=a", ["web.users=100,1000", "fio.path=a"]])
def test_settings_come_as_text_whose_values_are_read_by_the_parameter(given: Any) -> None:
    assert parse_settings(given) == {"web.users": ("100", "1000"), "fio.path": ("a",)}
    assert parse_settings("") is parse_settings(None) is parse_settings({}) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("web.users", "'web.users' is not like web.users=100,1000"),
        ("users=3", "'users' is not a workload and its parameter"),
        ({3: 4}, "3 is not a workload and its parameter"),
        ("web.users=", "web.users has no value"),
        ("web.users=1 web.users=2", "names web.users more than once"),
        ("{", "not JSON"),
        ({"web.users": [None]}, "a value of web.users is a number"),
        ({"web.users": {"a": 1}}, "a value of web.users is a number"),
    ],
)
def test_what_is_no_setting_is_refused(given: Any, said: str) -> None:
    with pytest.raises(DesignError, match=said):
        Request("containers", "quick", set=given)


@pytest.mark.parametrize(
    ("name", "given", "values"),
    [
        ("users", "7", (7,)),
        ("users", "1:4", (1, 2, 3, 4)),
        ("users", "10:30:10", (10, 20, 30)),
        ("users", 7, (7,)),
        ("seconds", "2.5", (2.5,)),
        ("seconds", "1:3", (1, 2, 3)),
        ("size_bytes", "64KiB", (65536,)),
        ("size_bytes", "5 MB", (5_000_000,)),
        ("size_bytes", "512", (512,)),
        ("kind", "set", ("set",)),
        ("fresh", "true", (True,)),
        ("file", "/tmp/a:b", ("/tmp/a:b",)),
    ],
)
def test_a_value_is_of_the_type_of_its_parameter(name: str, given: Any, values: tuple[Any, ...]) -> None:
    read = DECLARED["load"][name].read(name, given)
    assert read == values
    assert list(map(type, read)) == list(map(type, values))


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("users", "101", "a whole number from 1 to 100, not 101"),
        ("users", "99:101", "from 1 to 100, not 101"),
        ("users", "4:1", "not a range of 1 to 1000 values"),
        ("users", "1:9:0", "not a range"),
        ("users", "1:10000000000", "not a range"),
        ("users", "2.5", "a whole number from 1 to 100, not 2.5"),
        ("users", "many", "not 'many'"),
        ("users", "5MB", "not '5MB'"),
        ("users", True, "not True"),
        ("kind", "put", "one of get, set"),
        ("fresh", "yes", "true or false"),
        ("seconds", "nan", "not 'nan'"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, given: Any, said: str) -> None:
    with pytest.raises(DesignError, match=said):
        DECLARED["load"][name].read(name, given)


def test_each_value_is_a_scenario_with_its_level_made_of_the_nearest_one() -> None:
    cases = made([SMALL, LARGE], users=[1, 2, 40])
    assert [(case.scenario, case.factor, case.level) for case in cases] == [
        ("users=1", "users", 1), ("users=2", "users", 2), ("users=40", "users", 40),
    ]  # fmt: skip
    assert [(case.params["requests"], case.rounds, case.seconds) for case in cases] == [
        (900, 3, 2.0), (900, 3, 2.0), (4000, 4, 8.0),
    ]  # fmt: skip


def test_combinations_are_named_by_both_values_and_lie_on_no_single_axis() -> None:
    cases = made([SMALL, LARGE], users=[1, 50], size_bytes=["1MiB", "3MB"])
    assert [case.scenario for case in cases] == [
        "users=1 size_bytes=1MiB", "users=1 size_bytes=3000000", "users=50 size_bytes=1MiB",
        "users=50 size_bytes=3000000",
    ]  # fmt: skip
    assert {case.factor for case in cases} == {None}


def test_one_value_keeps_the_axis_of_the_profile() -> None:
    (case,) = made([SMALL], size_bytes="4MiB")
    assert (case.scenario, case.factor, case.level) == ("users=1 size_bytes=4MiB", "users", 1)
    assert (case.seconds, case.disk_bytes) == (8.0, 40)


def test_what_takes_longer_is_expected_to() -> None:
    assert made([SMALL], requests=1800)[0].seconds == 4.0
    assert made([SMALL], seconds=5)[0].seconds == 5.0
    assert made([SMALL], requests=1000)[0].rounds == 2  # 1000 has no thirds


def test_cases_that_differ_in_something_else_keep_their_places() -> None:
    other = Case("load", "kind=set", {"kind": "set", "users": 1})
    cases = made([SMALL, other], users=[3, 4])
    assert [case.scenario for case in cases] == ["users=3", "users=4", "kind=set users=3", "kind=set users=4"]
    assert made([Case("load", "default")], users=[3])[0].scenario == "users=3"
    pods = Case("load", "small 10 users", {"users": 10})
    assert made([pods], users=[3])[0].scenario == "small 3 users"
    fewer = Case("load", "small 5 users", {"users": 5})
    assert {case.scenario for case in made([pods, fewer], users=[3, 20])} == {"small 3 users", "small 20 users"}


@pytest.mark.parametrize(
    ("study", "profile", "settings", "names"),
    [
        # a case of the profile that has these values
        ("storage", "quick", {"fio-4k.mode": "default"}, [
            "sequential read default", "sequential write default", "random read default", "random write default",
            "random read default rbd", "random write default rbd",
        ]),
        ("storage", "quick", {"fio-4k.pattern": "randwrite"}, [
            "random write default", "random write strict", "random write strict rbd",
        ]),
        ("storage", "quick", {"fio-4k.mode": "strict", "fio-4k.pattern": "randread", "fio-4k.path": ["nbd", "rbd"]}, [
            "random read strict", "random read strict rbd",
        ]),
        ("cnis", "quick", {"iperf3.placement": "two-nodes", "iperf3.protocol": "tcp", "iperf3.rate_bit_per_s": 0}, [
            *(f"tcp{way} two-nodes rate_bit_per_s=0" for way in ("", " second", " service", " plain", " policy")),
        ]),
        ("cnis", "quick", {"iperf3.protocol": "udp"}, [
            "udp-max same-node", "udp-max two-nodes", "udp second two-nodes", "udp service two-nodes",
            "udp plain two-nodes", "udp policy two-nodes", "udp-100M same-node", "udp-100M two-nodes",
        ]),
        ("cnis", "smoke", {"pod-network.multus": [False, True]}, ["plain", "multus"]),
        # words of the old value, in place of which the new one stands
        ("storage", "smoke", {"fio-4k.pattern": "read"}, ["sequential read strict"]),
        ("storage", "smoke", {"fio-4k.pattern": "read", "fio-4k.mode": "default", "fio-4k.clients": 4}, [
            "sequential read default clients=4",
        ]),
        ("storage", "quick", {"oltp.test": "oltp_read_only"}, ["read-only default", "read-only strict"]),
        ("storage", "smoke", {"integrity.damage": "both"}, ["both copies damaged"]),
        ("storage", "quick", {"rebuild.used_bytes": "4GB"}, ["4 GB default", "4 GB open"]),
        ("storage", "quick", {"rebuild.used_bytes": "1GiB"}, ["default used_bytes=1GiB", "open used_bytes=1GiB"]),
        ("storage", "quick", {"rebuild.used_bytes": "4GB", "rebuild.throttle": "default", "rebuild.mode": "strict"}, [
            "4 GB default mode=strict",
        ]),
        ("storage", "smoke", {"rebuild.throttle": "default", "rebuild.mode": "strict"}, ["128 MB default mode=strict"]),
        ("containers", "quick", {"mail.min_kib": 64, "mail.max_kib": 64}, ["min_kib=64 max_kib=64"]),
        ("containers", "quick", {"mail.min_kib": 64}, ["min_kib=64"]),
        ("containers", "paper", {"mail.max_kib": 64, "mail.min_kib": [1, 64]}, [
            "max_kib=64 min_kib=1", "max_kib=64 min_kib=64",
        ]),
        ("containers", "quick", {"mail.threads": 5}, ["size=1MiB threads=5"]),
        ("storage", "quick", {"file-copy.files": 1, "file-copy.mode": "strict"}, ["1 file strict"]),
        ("storage", "quick", {"fio-4k.placement": "two-nodes", "fio-4k.mode": "strict", "fio-4k.pattern": "read"}, [
            "sequential read strict placement=two-nodes", "sequential read strict rbd placement=two-nodes",
        ]),
        ("runtimes", "quick", {"pods-startup.pods": [1, 30]}, ["1 pod", "30 pods"]),
        ("runtimes", "quick", {"pods-netperf.pods": 30, "pods-netperf.test": "TCP_RR"}, ["tcp_rr 30 pods"]),
        ("cnis", "smoke", {"netperf.cpus": "apart", "netperf.test": "TCP_CRR"}, ["tcp_crr two-nodes cpus=apart"]),
        ("storage", "quick", {"rebuild.mode": "strict"}, ["1 GB default mode=strict", "1 GB open mode=strict"]),
        ("cnis", "factors", {"netperf.test": "TCP_RR", "netperf.cpus": "free", "netperf.interface": "primary"}, [
            "tcp_rr free two-nodes interface=primary",
        ]),
    ],
)  # fmt: skip
def test_a_name_says_what_ran(study: str, profile: str, settings: dict[str, Any], names: list[str]) -> None:
    (workload,) = {name.partition(".")[0] for name in settings}
    wanted = api.request(study, profile=profile, workloads=[workload], set=settings)
    assert [case.scenario for case in wanted.cases] == names


@pytest.mark.parametrize(
    ("study", "given"),
    [
        ("containers", {"sysbench-cpu.seconds": 1.5}),
        ("containers", {"iozone.size_bytes": 10**6 + 1}),
        ("containers", {"mail.min_kib": 64, "mail.max_kib": 1}),
        ("cnis", {"iperf3.protocol": "tcp", "iperf3.rate_bit_per_s": 10**6}),
        ("cnis", {"iperf3.protocol": "tcp", "iperf3.rate_bit_per_s": 10**6, "iperf3.interface": "second"}),
        ("cnis", {"netperf.port": 5000, "netperf.data_port": 5000}),
        ("runtimes", {"pods-netperf.port": 5000, "pods-netperf.data_port": 5000}),
        ("storage", {"fio-4k.area_bytes": 10**6 + 1}),
        ("storage", {"file-copy.files": 10**6}),
        ("storage", {"integrity.files": 10**6}),
        ("storage", {"oltp.buffer_pool_bytes": 10**8}),
        ("storage", {"rebuild.foreground_iops": 3}),
    ],
)
def test_values_that_cannot_be_together_are_refused_before_anything_is_made_ready(
    study: str, given: dict[str, Any]
) -> None:
    workload = next(iter(given)).partition(".")[0]
    with pytest.raises(DesignError):
        api.request(study, profile="smoke", workloads=[workload], set=given)


def test_words_that_may_be_of_two_parameters_are_of_the_one_that_is_set() -> None:
    declared = {"load": {**DECLARED["load"], "way": Param("get", choices=("get", "put"))}}
    for case, said in (
        (Case("load", "get small", {"kind": "get"}), "set small way=put"),
        (Case("load", "get small", {"way": "get"}), "put small kind=set"),
        (Case("load", "get-4 small", {"kind": "get"}), "set-4 small way=put"),
        (Case("load", "default"), "kind=set way=put"),
    ):
        settings = read_settings({"load.kind": ["set"], "load.way": ["put"]}, ["load"], declared)
        assert [each.scenario for each in apply_settings([case], settings, declared)] == [said]


@pytest.mark.parametrize("study", ["containers", "cnis", "runtimes", "storage"])
def test_names_of_a_study_have_the_words_that_its_workloads_declare(study: str) -> None:
    for profile in registry.study(study).profiles.values():
        for case in profile.cases:
            declared = registry.workload(case.workload).PARAMS
            said = [declared[name].words[value] for name, value in case.params.items() if value in declared[name].words]
            assert [words for words in said if f" {words} " not in f" {case.scenario} "] == []


def test_words_are_of_choices_and_what_is_used_instead_is_a_parameter() -> None:
    for name in registry.names("workloads"):
        declared = registry.workload(name).PARAMS
        for param in declared.values():
            assert set(param.words) <= set(param.choices)
            assert not param.instead or declared[param.instead].default == 0


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("sysbench-cpu.events=0", 10.0),
        ("sysbench-cpu.events=0 sysbench-cpu.seconds=2", 2),
        ("sysbench-cpu.seconds=30 sysbench-cpu.events=0", 30),
    ],
)
def test_a_time_in_place_of_an_amount_has_no_rounds_and_is_what_the_plan_expects(given: str, seconds: float) -> None:
    wanted = api.request("containers", profile="quick", workloads="sysbench-cpu", set=given)
    assert {(case.rounds, case.params["seconds"], case.seconds) for case in wanted.cases} == {(1, seconds, seconds)}


def test_a_size_that_is_left_to_the_machine_takes_as_long_as_the_one_in_its_place() -> None:
    wanted = api.request("containers", profile="quick", workloads="stream", set="stream.array_bytes=0")
    assert [(case.params["array_bytes"], case.seconds) for case in wanted.cases] == [(0, 0.7)]


@pytest.mark.parametrize(
    ("profile", "given", "said"),
    [
        ("quick", "sysbench-cpu.seconds=2", r"= 2 has no effect beside events = \d+: set events=0, or no "),
        ("quick", "sysbench-cpu.seconds=10", "seconds = 10 has no effect beside events"),  # its default
        ("smoke", "sysbench-cpu.seconds=10 sysbench-cpu.events=0,400", "beside events = 400: set"),
        ("quick", "stream.llc_multiple=4", "llc_multiple = 4 has no effect .*: set array_bytes=0"),
    ],
)
def test_what_is_set_without_an_effect_is_refused(profile: str, given: str, said: str) -> None:
    with pytest.raises(DesignError, match=said):
        api.request("containers", profile=profile, set=given)


def test_a_case_says_nothing_that_has_no_effect() -> None:
    declared = {"load": {"seconds": Param(2.0, instead="requests"), "requests": Param(0)}}
    study = replace(registry.study("containers"), profiles={
        "odd": Profile(1, (Case("load", "odd", {"requests": 5, "seconds": 2.0}),)),
    })  # fmt: skip
    with pytest.raises(DesignError, match=r"load: seconds = 2\.0 has no effect beside requests = 5"):
        designs.design(study, Request("containers", "odd"), declared=declared)


@pytest.mark.parametrize(("study", "profile"), [("containers", "smoke"), ("known-effects", "quick")])
def test_an_amount_of_work_takes_the_place_of_the_time_that_a_profile_has(study: str, profile: str) -> None:
    (case,) = api.request(study, profile=profile, workloads="sysbench-cpu", set="sysbench-cpu.events=400").cases
    assert (case.scenario, case.params["events"], case.params["seconds"]) == ("threads=1 events=400", 400, 10.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"load.user": (1,)}, "did you mean users"),
        ({"lod.users": (1,)}, "did you mean load"),
        ({"load.users": (1, "1")}, "a value more than once"),
        (
            {"load.users": ("1:100",), "load.requests": ("1:100",)},
            "10000 combinations.*load.subset=24 measures so many",
        ),
        (
            {"load.users": (1, 2), "load.subset": (2,)},
            "there are 2 combinations of values, and a subset has fewer, not 2",
        ),
        ({"load.users": (1, 2, 3), "load.subset": (2, 3)}, "load.subset is one number, not 2, 3"),
        ({"load.users": (1, 2, 3), "load.subset": (1,)}, "a whole number from 2 to 1000, not 1"),
        (
            {"load.users": ("1:100",), "load.requests": ("1:100",), "load.size_bytes": ("1:100",), "load.subset": (9,)},
            "1000000 combinations of values; a subset is drawn of 100000 at most",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(DesignError, match=said):
        apply_settings([SMALL], read_settings(settings, ["load"], DECLARED), DECLARED)


def test_a_subset_has_so_many_combinations_and_its_values_about_equally_often() -> None:
    cases = made([SMALL, LARGE], users="1:8", size_bytes=[1, 2, 3, 4], subset=8)
    assert len({case.scenario for case in cases}) == 8
    assert sorted(case.params["users"] for case in cases) == [*range(1, 9)]
    assert Counter(case.params["size_bytes"] for case in cases) == {1: 2, 2: 2, 3: 2, 4: 2}
    assert cases == made([SMALL, LARGE], users="1:8", size_bytes=[1, 2, 3, 4], subset=8)
    assert "subset" not in cases[0].params


@pytest.mark.parametrize(("levels", "count"), [((8, 8), 8), ((8, 8, 8), 16), ((2, 8), 8), ((3, 5, 7), 20), ((2, 2), 3)])
def test_a_subset_is_as_even_as_can_be(levels: tuple[int, ...], count: int) -> None:
    drawn = draw_subset(levels, count)
    assert drawn == sorted(set(drawn))
    every = list(product(*map(range, levels)))
    for own, size in zip(zip(*(every[at] for at in drawn), strict=True), levels, strict=True):
        often = Counter(own)
        assert max(often.values()) - min(often[value] for value in range(size)) <= 1


def test_no_workload_has_a_parameter_of_that_name() -> None:
    assert not [name for name in registry.names("workloads") if SUBSET in registry.workload(name).PARAMS]


def test_a_design_of_own_values_is_found_again_from_its_session() -> None:
    wanted = api.request("containers", profile="quick", workloads="web", set="web.users=100:300:100 web.requests=3000")
    assert [case.scenario for case in wanted.cases] == [f"users={n} requests=3000" for n in (100, 200, 300)]
    kept = json.loads(json.dumps(wanted.request.given()))
    assert kept["set"] == {"web.users": [100, 200, 300], "web.requests": [3000]}
    assert designs.trials(session.resolve(Request(**kept))) == designs.trials(wanted)
    usual = api.request("containers", profile="quick", workloads="web")
    assert usual.request.set is None
    assert "set" not in usual.request.given()


def test_values_that_a_workload_refuses_together_are_refused_at_once() -> None:
    with pytest.raises(DesignError, match=r"^web users=16000: requests must be at least 16000, not 6000$"):
        api.request("containers", profile="quick", set={"web.users": [100, 16000]})
    wanted = api.request("containers", profile="quick", set={"web.users": [100, 16000], "web.requests": 16000})
    assert {case.level: case.rounds for case in wanted.cases if case.workload == "web"} == {100: 4, 16000: 1}
    with pytest.raises(DesignError, match=r"cannot be cut|at least 16000"):
        api.request("containers", profile="quick", rounds=2, set={"web.users": 16000, "web.requests": 16000})


@pytest.mark.parametrize("study", ["containers", "cnis", "runtimes", "storage"])
def test_every_number_of_every_workload_of_a_study_can_be_set(study: str) -> None:
    """Whatever hangs on the targets is found with them: until then no workload falls over what it is given."""
    for name, profile in registry.study(study).profiles.items():
        for workload in dict.fromkeys(case.workload for case in profile.cases):
            case = next(case for case in profile.cases if case.workload == workload)
            for parameter, param in registry.workload(workload).PARAMS.items():
                if case.params.get(param.instead):  # it would have no effect
                    continue
                given = {f"{workload}.{parameter}": (case.params.get(parameter, param.default),)}
                if given == {"iperf3.protocol": ("tcp",)}:  # which takes no rate, and some cases have one
                    given["iperf3.rate_bit_per_s"] = (0,)
                assert api.request(study, profile=name, workloads=[workload], set=given).request.set == given


def test_the_command_line_takes_settings_and_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INFRABENCH_HOME", str(tmp_path))
    command = ["plan", "containers", "--runs", "2", "--systems", "native", "--workloads", "sysbench-cpu", "web"]
    assert cli.main([*command, "--set", "sysbench-cpu.threads=1:8", "web.users=100,1000"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("threads=8") == 2
    assert shown.count("users=100 in 4 rounds") == 2
    assert cli.main([*command, "--set", "web.users=0"]) == 2
    assert "parameter web.users must be a whole number from 1 to 20000, not 0" in capsys.readouterr().err


GOOD = """\
study: containers
blocks: 12
systems: [native, docker]
limits: {memory_bytes: 1073741824}
cases:
  - {workload: web, set: {users: [200, 400], requests: 8000}, seconds: 1.5, rounds: 4}
  - {workload: sysbench-cpu, set: {threads: "1:2", events: 4000}}
  - workload: startup
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yml").write_text(GOOD)
    return tmp_path


def test_a_file_is_a_profile_of_its_study(folder: Path) -> None:
    wanted = api.request("containers", profile="mine.yml")
    assert (wanted.profile, wanted.blocks, wanted.systems) == ("mine", 12, ("native", "docker"))
    assert [
        (case.workload, case.scenario, case.factor, case.level, case.rounds, case.seconds) for case in wanted.cases
    ] == [
        ("web", "users=200 requests=8000", "users", 200, 4, 1.5),
        ("web", "users=400 requests=8000", "users", 400, 4, 1.5),
        ("sysbench-cpu", "threads=1 events=4000", "threads", 1, 1, 1.0),
        ("sysbench-cpu", "threads=2 events=4000", "threads", 2, 1, 1.0),
        ("startup", "default", None, None, 1, 1.0),
    ]  # fmt: skip
    study = session.study_of(wanted)
    assert study.limits == Limits(memory_bytes=2**30)
    assert len(designs.trials(wanted)) == 12 * 2 * 5
    assert session.study_of(api.request("containers", profile="quick")).limits == Limits()


def test_what_is_asked_for_beside_it_holds(folder: Path) -> None:
    wanted = api.request(
        "containers", profile="mine.yml", runs=3, systems="native", workloads="web", set="web.users=50"
    )
    assert (wanted.blocks, wanted.systems, [case.scenario for case in wanted.cases]) == (
        3, ("native",), ["users=50 requests=8000"],
    )  # fmt: skip


def test_it_is_found_in_the_checkout_too(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("INFRABENCH_HOME", str(folder))
    assert api.request("containers", profile="mine.yml").blocks == 12


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("blocks: 12", "blocks: 0"), r"mine.yml: line 2, blocks: .*greater than or equal to 1"),
        (("blocks: 12", "block: 12"), "line 2, block: Extra inputs are not permitted"),
        (("seconds: 1.5", "second: 1.5"), "line 6, cases.0.second: Extra"),
        (("users: [200, 400]", "users: [0]"), "mine.yml, line 6: parameter web.users must be a whole number from 1"),
        (("users: [200, 400]", "user: 3"), "line 6: unknown parameter of workload 'web' 'user': did you mean users"),
        (("workload: startup", "workload: start-up"), "line 8: unknown workload 'start-up'"),
        (("study: containers", "study: cnis"), "is of the study cnis, not of containers"),
        (("study: containers", "study: containers\nstudy: cnis"), "line 2: study stands there a second time"),
        (("memory_bytes: 1073741824", "memory: 1"), "line 4, limits.memory: Extra"),
        (("systems: [native, docker]", "systems: [native, dockr]"), "unknown system 'dockr': did you mean docker"),
        (("requests: 8000", "requests: 100"), "requests must be at least 200, not "),
        (("- workload: startup", "- {workload: web, set: {users: 200, requests: 8000}}"), "'web' twice at scenario"),
        ((GOOD, "[]"), "mine.yml: line 1"),
        ((GOOD, "{"), "mine.yml: not YAML"),
    ],
)
def test_a_fault_is_told_with_its_line(folder: Path, change: tuple[str, str], said: str) -> None:
    (folder / "mine.yml").write_text(GOOD.replace(*change))
    with pytest.raises(DesignError, match=said):
        api.request("containers", profile="mine.yml")


@pytest.mark.parametrize("name", ["quick.yml", "Mine.yml", "-x.yml", "a b.yaml"])
def test_a_name_that_sessions_cannot_have_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text(GOOD)
    with pytest.raises(DesignError, match="cannot be the name of an own profile of containers"):
        api.request("containers", profile=name)


def test_a_file_that_is_not_there_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "containers", "--profile", "other.yml"]) == 2
    assert "there is no profile file" in capsys.readouterr().err
    assert cli.main(["plan", "containers", "--profile", "mine.yml"]) == 0
    assert "containers mine: 120 trials in 12 blocks" in capsys.readouterr().out
