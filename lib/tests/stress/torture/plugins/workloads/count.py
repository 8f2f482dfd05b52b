"""A workload of the storm: prints a number, soon or late, with little or much beside it."""

from infrabench.core import Measurement, Param, ParseError, Step

PARAMS = {"value": Param(1), "seconds": Param(0.0), "bytes": Param(0)}
SCRIPT = 'sleep "$2"; head -c "$3" /dev/zero | tr "\\0" x; printf "\\nvalue=%s\\nend\\n" "$1"'


def plan(params, roles):
    words = (str(params["value"]), str(params["seconds"]), str(params["bytes"]))
    return [
        Step("ready", "server", ("true",), phase="prepare", until_ok_s=2.0),
        Step("tool", "server", ("sh", "-c", SCRIPT, "sh", *words), timeout_s=20.0),
        Step("tidy", "server", ("true",), phase="cleanup"),
    ]


def version(target):
    return "1"


def supported(deployment):
    return None


def parse(capture):
    lines = capture["tool"].stdout.decode("utf-8", "replace").splitlines()
    if len(lines) != 3 or lines[2] != "end" or not lines[1].startswith("value="):
        raise ParseError("count", "expected value=NUMBER and end", capture["tool"].stdout[-200:])
    return [Measurement("value", float(lines[1].removeprefix("value=")), "1/s", "higher")]
