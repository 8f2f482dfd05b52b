"""A workload for tests: prints a number, or does what a broken tool would do."""

from infrabench.core import Measurement, NotAsClaimed, NotRunnable, Param, ParseError, Step

PARAMS = {"does": Param("ok"), "value": Param(1.0), "interface": Param("")}
SCRIPTS = {
    "ok": "printf 'value=%s\\nend\\n' \"$1\"",
    "fail": "echo 'cannot open device' >&2; exit 3",
    "hang": "sleep 60",
    "garbage": "printf '\\000\\377 no numbers here'",
    "half": "printf 'val'",
    "nothing": "true",
    "nan": "printf 'value=nan\\nend\\n'",
    "mistake": "printf 'value=a\\nend\\n'",
    "astray": "printf 'value=1\\nother path\\n'",
}


def plan(params, roles):
    if params.get("interface") and params["interface"] not in roles["server"].addresses:
        raise NotRunnable(f"there is no {params['interface']} interface")
    limit_s = 1.0 if params["does"] == "hang" else 30.0
    return [
        Step("ready", "server", ("true",), phase="prepare", until_ok_s=30.0),
        Step("tool", "server", ("sh", "-c", SCRIPTS[params["does"]], "sh", str(params["value"])), timeout_s=limit_s),
        Step("tidy", "server", ("true",), phase="cleanup"),
    ]


def version(target):
    return target.check(("echo", "fake 1.0"), timeout_s=30).decode().strip()


def supported(deployment):
    return None


def parse(capture):
    lines = capture["tool"].stdout.decode("utf-8", "replace").splitlines()
    if lines[1:] == ["other path"]:
        raise NotAsClaimed("the traffic took another path")
    if len(lines) != 2 or lines[1] != "end" or not lines[0].startswith("value="):
        raise ParseError("fake", "expected value=NUMBER and end", capture["tool"].stdout)
    return [Measurement("value", float(lines[0].removeprefix("value=")), "1/s", "higher")]
