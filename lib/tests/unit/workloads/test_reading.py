from __future__ import annotations

import pytest

from infrabench.core import CommandFailed, Deployment, ParseError, Target, find_missing, plain, read_version
from infrabench.machines.hosts.host import LocalHost
from infrabench.workloads import _parse as reading


def here(*prefix: str) -> Target:
    return Target("server", LocalHost("here"), prefix)


@pytest.mark.parametrize("word", ["nan", "inf", "one", "1e999", "9" * 400, "-1e31"])
def test_what_is_no_number(word: str) -> None:
    with pytest.raises(ParseError):
        reading.number("t", "a", r"^a=(.*)$", f"a={word}\n")


def test_a_field_is_there_once_and_is_what_was_asked_for() -> None:
    fields = {"first": reading.Field(r"^a=NUM$", equals="a"), "second": reading.Field(r"^b=NUM, NUM$", equals=2.5)}
    assert reading.read_fields("t", fields, "a=1\nb=2.5, 3\n", {"a": 1}) == {"first": 1.0, "second": 2.5}
    for output, words in (
        ("a=2\nb=2.5, 3\n", "first must be 1.0"),
        ("a=1\nb=2, 3\n", "second must be 2.5"),
        ("a=1\n", "expected second once, found it 0 times"),
        ("a=1\na=1\nb=2.5, 3\n", "expected first once, found it 2 times"),
    ):
        with pytest.raises(ParseError, match=words):
            reading.read_fields("t", fields, output, {"a": 1})


def test_what_is_said_twice_agrees_within_its_bounds() -> None:
    assert reading.within("t", "a", 2.0, 1.0, 2.0) == 2.0
    for outside in (0.9, 2.1, float("nan")):
        with pytest.raises(ParseError, match="a must be from 1 to 2"):
            reading.within("t", "a", outside, 1.0, 2.0)


def test_quantities_rise_and_a_rate_is_its_count_over_the_time() -> None:
    reading.in_order("t", "times", (1, 1, 2), "")
    with pytest.raises(ParseError, match="times are not in order"):
        reading.in_order("t", "times", (2, 1), "")
    for total_s in (9.9, 10.0, 10.1):  # 0.1 s, and as much again by the rounding of the rate
        reading.check_rate("t", "requests", 1000, total_s, 100.0, 0.01, 0.1, "")
    for total_s in (9.898, 10.102):
        with pytest.raises(ParseError, match=rf"1000 requests in {total_s} s are not 100 per second"):
            reading.check_rate("t", "requests", 1000, total_s, 100.0, 0.01, 0.1, "")


def test_lines_of_a_terminal() -> None:
    assert plain(b"a\r\nb\r\n") == plain(b"a\nb\n") == "a\nb\n"
    assert plain(b"") == ""
    with pytest.raises(ParseError, match=r"1 of 2 lines end as on a terminal \(CRLF\), the others do not"):
        plain(b"a\r\nb\n")


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[1]", "expected a JSON object"),
        ("3", "expected a JSON object"),
        ("[" * 100_000, "more than 100 levels"),
        ('{"a": ' + "[" * 101 + "]" * 101 + "}", "more than 100 levels"),
        ('{"b": {"a": 1, "a": 2}}', "'a' is there twice"),
    ],
)
def test_what_is_no_json_object(output: str, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        reading.json_object("t", output)


def test_a_key_that_is_there_twice_has_one_value() -> None:
    assert reading.json_object("t", '{"a": 1, "a": 1}') == {"a": 1}


def test_path_in_json() -> None:
    data = {"a": [{"b": 2.5}]}
    assert reading.value("t", data, "a", 0, "b") == 2.5
    assert reading.items("t", data, "a") == data["a"]
    for path, said in ((("a", 1, "b"), r"a\.1 is missing"), (("a", "b"), r"a\.b is missing")):
        with pytest.raises(ParseError, match=said):
            reading.at("t", data, *path)
    with pytest.raises(ParseError, match=r"a\.0 is no list"):
        reading.items("t", data, "a", 0)


@pytest.mark.parametrize("found", [True, None, "1", [1], float("nan"), float("inf"), 10**400, -1e31])
def test_what_is_no_value(found: object) -> None:
    with pytest.raises(ParseError, match="no finite number"):
        reading.value("t", {"a": found}, "a")


@pytest.mark.parametrize("quantity", [0.0, -1.0, float("nan")])
def test_what_was_measured_is_above_0(quantity: float) -> None:
    with pytest.raises(ParseError):
        reading.positive("t", "time", quantity)


def test_version_comes_from_either_stream_and_any_status() -> None:
    said = ("sh", "-c", "echo tool 1.2 >&2; exit 1")
    assert read_version(here(), said, r"^tool (\S+)$") == "1.2"
    with pytest.raises(CommandFailed):
        read_version(here(), ("sh", "-c", "exit 127"), r"^tool (\S+)$")
    with pytest.raises(ParseError, match="a version"):
        read_version(here(), ("echo", "hello"), r"^tool (\S+)$")


def test_missing_programs_are_named() -> None:
    deployment = Deployment("x", {"server": here()}, {})
    assert find_missing(deployment, "sh") is None
    assert (find_missing(deployment, "sh", "no-such-program") or "").startswith("no-such-program not found")
