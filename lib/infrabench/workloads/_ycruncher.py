"""What y-cruncher says of one computation of pi: strict reading of the validation file that it leaves.

y-cruncher (numberworld.org) is not free to be given on: it runs where its user has put it. Its validation file begins
with a byte-order mark and has lines that end with CRLF, on Linux too; ib-pods tells each byte as a character. It tells
more digits of its times than its console does, and a hash of all decimals. ``CPU Utilization`` is its own CPU time over
the time it computed, in percent of one processor, with the kernel's part beside it; ``Multi-core Efficiency`` is that
over the logical processors it saw.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from infrabench.core import ParseError
from infrabench.workloads._parse import NUMBER, number, one, positive

TOOL = "y-cruncher"
MARK = "\xef\xbb\xbf"  # the byte-order mark, a character for each byte
BEGIN = "Benchmark Validation File"
PRIME = 2**61 - 1  # the hash is the number without its point, modulo this
CHUNK = 4000  # digits that are turned into an integer at once
# It writes nothing to its own folder, asks nobody, and keeps no digits.
SCRIPT = """
folder=$(mktemp -d) || exit 1
"$0" skip-warnings pause:-2 colors:0 custom pi -dec:"$1" -od:0 -o "$folder" </dev/null >"$folder/said" 2>&1
status=$?
if [ $status -eq 0 ]; then cat "$folder"/Pi*[0-9].txt; status=$?; fi
if [ $status -ne 0 ]; then tail -c 2000 "$folder/said" >&2; fi
rm -rf "$folder"
exit $status
"""


@dataclass(frozen=True, slots=True)
class Report:
    """One computation; percentages are of user time, as y-cruncher tells them beside those of the kernel."""

    version: str
    decimals: int
    computation_s: float
    wall_s: float  # with output and its verification
    utilisation_percent: float
    efficiency_percent: float
    hash: int


def command(program: str, decimals: int) -> tuple[str, ...]:
    """Return the command that computes so many decimals, and prints the validation file. Needs y-cruncher 0.7.8."""
    return ("sh", "-c", SCRIPT, program, str(decimals))


def is_validation(output: str) -> bool:
    """Return whether an output begins as a validation file does."""
    return output.removeprefix(MARK).startswith(BEGIN)


def read(output: str) -> Report:
    """Return what a validation file says; `ParseError` when it is not whole, or its own checks failed."""
    output = output.replace("\r\n", "\n")
    if not is_validation(output) or not re.search(r"\nChecksum1: [0-9a-f]{64,256}\n\Z", output):
        raise ParseError(TOOL, "no whole validation file", output[:200] + output[-200:])
    one(TOOL, "the constant", r"^Constant: +Pi$", output)
    one(TOOL, "a spot check that is good", r"^Spot Check: +Good through [0-9,]+$", output)
    seconds = rf"{NUMBER} seconds(?: +\( .+ \))?$"
    percent = rf"{NUMBER} % +\+ +{NUMBER} % kernel overhead$"
    # The configuration below repeats words of the head, but not its layout.
    return Report(
        one(TOOL, "its version", r"^Program: +y-cruncher v(\S.*)$", output)[1],
        int(one(TOOL, "decimals", r"^Decimal Digits: +([0-9,]{1,30})$", output)[1].replace(",", "") or 0),
        _positive("computation time", rf"^Total Computation Time: +{seconds}", output),
        _positive("wall time", rf"^Start-to-End Wall Time: +{seconds}", output),
        _positive("utilisation", rf"^CPU Utilization: +{percent}", output),
        _positive("efficiency", rf"^Multi-core Efficiency: +{percent}", output),
        int(
            one(TOOL, "the hash", r"^Dec Hash: Floor\(\|x\| \* 10\^dec\) mod \(2\^61 - 1\) = ([0-9]{1,19})$", output)[1]
        ),
    )


def decimal_hash(decimals: str) -> int:
    """Return y-cruncher's hash of pi with these decimals."""
    found = 3
    for place in range(0, len(decimals), CHUNK):
        chunk = decimals[place : place + CHUNK]
        found = (found * pow(10, len(chunk), PRIME) + int(chunk)) % PRIME
    return found


def _positive(what: str, pattern: str, output: str) -> float:
    return positive(TOOL, what, number(TOOL, what, pattern, output))
