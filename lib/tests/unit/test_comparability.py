"""Sessions are compared only where their provenance allows it; what differs is named."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from infrabench.core import Limits, SchemaError
from infrabench.experiment.provenance import comparability
from infrabench.experiment.provenance.comparability import NotComparable, differences, measures_alike, stamp
from tests.support.fakes import run_session


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
