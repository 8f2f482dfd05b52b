"""The clock rate of a host's processors, held while a session measures there: `probes/clock_rate.py`.

The program on the host lives as long as this one and its connection do, and sets everything back when it ends. So a
host whose session is killed, or whose connection is lost, is not left as the session had it.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from infrabench.core import Host, SiteError, Stream
from infrabench.machines.hosts.remote_shell import probe

SETTINGS = "/sys/devices/system/cpu"
ANSWER_S = 60.0  # there are hundreds of processors, and some drivers take milliseconds for each
MEANINGS = {"scaling_governor": "governor performance", "no_turbo": "turbo off", "boost": "turbo off"}

log = logging.getLogger(__name__)


@contextmanager
def hold_clock_rate(
    host: Host, say: Callable[[str], None], settings: str = SETTINGS
) -> Iterator[Callable[[], None]]:  # fmt: skip
    """Hold the governor of `host` at `performance` and its turbo off inside, and `say` what was changed for that.

    What it yields raises `SiteError` when they are held no longer. `settings` is the kernel's folder of them. A host
    that has none, such as most virtual machines, is left as it is.
    Raises `SiteError` where one is there and cannot be set; all of them are then as they were.
    """
    with host.stream((*probe("machines/hosts/probes/clock_rate.py"), settings)) as stream:
        try:
            answer = json.loads(stream.read_line(ANSWER_S))
        except (OSError, EOFError, ValueError) as error:
            raise SiteError(
                f"{host.name}: its clock rate cannot be held ({error}). Is the host up, and has it python3?"
            ) from error
        if answer["failed"] is not None:
            _read_end(host, stream)
            raise SiteError(
                f"{host.name}: its clock rate cannot be held, {answer['failed']} cannot be set. That takes root, or "
                "sudo: true; where the machine itself refuses it, leave hold_clock_rate out of the inventory"
            )
        say(f"{host.name}: {describe_held(answer['before'])}")

        def check() -> None:
            try:
                stream.write_line("held?")
                lost = ", ".join(json.loads(stream.read_line(ANSWER_S))["lost"])
            except (OSError, EOFError, ValueError) as error:
                lost = f"what held it is gone ({error})"
            if lost:
                raise SiteError(
                    f"{host.name}: its clock rate is held no longer: {lost}. The trials of the last block may have "
                    "been measured after that. Let nothing else set it, and run the session again to go on"
                )

        try:
            yield check
        finally:
            with contextlib.suppress(OSError):  # a lost connection is told with the answer that does not come
                stream.write_line("")
            _read_end(host, stream)


def _read_end(host: Host, stream: Stream) -> None:
    """Wait until a host has set back what it held, and tell what was not as it should be."""
    try:
        answer = json.loads(stream.read_line(ANSWER_S))
    except (OSError, EOFError, ValueError) as error:
        log.warning(
            "%s: what held its clock rate is gone, and since when nobody knows (%s): it sets back by itself, and "
            "trials may have been measured after that", host.name, error,
        )  # fmt: skip
        return
    for name, what in (("lost", "somebody else has changed these meanwhile, trials differ in clock rate"),
                       ("left", "these could not be set back")):  # fmt: skip
        if answer[name]:
            log.warning("%s: %s: %s", host.name, what, ", ".join(answer[name]))


def describe_held(before: Mapping[str, Sequence[str]]) -> str:
    """Return in words what is held of a host's clock rate.

    >>> describe_held({"scaling_governor": ["powersave"], "no_turbo": ["0"]})
    'while this session runs: governor performance (before: powersave), turbo off (before: on)'
    """
    if not before:
        return "nothing of its clock rate is to be held: all of it is, or the machine has no such settings"
    was = {name: ["on"] if name != "scaling_governor" else values for name, values in before.items()}
    return "while this session runs: " + ", ".join(
        f"{MEANINGS[name]} (before: {', '.join(values)})" for name, values in was.items()
    )
