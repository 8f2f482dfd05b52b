"""A workload for tests whose tool prints all that it can find out: environment, addresses, its own arguments."""

from infrabench.core import Measurement, Param, ParseError, Step

PARAMS = {"fails": Param(False)}
SCRIPT = """
env; cat /proc/self/cmdline | tr '\\0' ' '; echo
echo "connected to $1 from $1:5201 (see https://me:hunter2-in-url@$1/x), not to $1.9 nor to 1.$1"
python3 -c "$2"; echo
echo "value=7"
[ "$3" = ok ] || { echo "cannot reach $1." >&2; exit 3; }
"""


def plan(params, roles):
    from importlib import resources

    ask = resources.files("infrabench").joinpath("machines/hosts/probes/addresses.py").read_text()
    how = "bad" if params["fails"] else "ok"
    return [Step("tool", "server", ("sh", "-c", SCRIPT, "sh", roles["server"].address, ask, how), timeout_s=20.0)]


def version(target):
    return "1"


def supported(deployment):
    return None


def parse(capture):
    tool = capture["tool"]
    if f"connected to {tool.argv[-3]} from {tool.argv[-3]}:5201".encode() not in tool.stdout:
        raise ParseError("talkative", "another address than was asked for", tool.stdout)
    return [Measurement("value", 7.0, "1/s", "higher")]
