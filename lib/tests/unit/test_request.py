"""One object for what is asked of a study, wherever it comes from, and back from a session that was recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infrabench.core import DesignError, Request
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import session
from infrabench.ledger import catalogue
from infrabench.ledger.records import read_session


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


def test_a_recorded_session_says_what_was_asked() -> None:
    """Of every recorded session, also of those that were recorded before some parameters were there."""
    for name in catalogue.recorded():
        folder = catalogue.find(None, name)
        data = read_session(folder)
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
