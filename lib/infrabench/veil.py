"""What a session must not hold: a site's addresses are replaced by what the site calls their owners.

Sessions, notebooks and archives are made to be given on. Who made them keeps the inventory, which says what ``server``
stands for; everybody else learns what was measured, not where it can be reached. `private` maps such texts to names.

Only texts that cannot be mistaken for a word are replaced (they have a dot, a colon, a slash or an @): a host that is
called ``web`` in the inventory would otherwise rewrite every mention of the workload. Loopback addresses hide nothing.
A user and password inside of any URL go as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from infrabench.core import Result

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost.localdomain", "0.0.0.0", "::"})
LOGIN = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@'\"]+@")
Private = Mapping[str, str]


def raw(data: bytes, private: Private) -> bytes:
    """Return `data` with every private text in it replaced by its name."""
    if b"://" in data:
        data = LOGIN.sub(rb"\1", data)
    names = _names(tuple(sorted(private.items())))
    if not any(secret in data for secret in names):
        return data
    return _pattern(tuple(names)).sub(lambda found: names[found.group()], data)


def text(words: str, private: Private) -> str:
    """Return `words` with every private text in them replaced by its name."""
    return raw(words.encode("utf-8", "surrogateescape"), private).decode("utf-8", "surrogateescape")


def deep(data: Any, private: Private) -> Any:
    """Return data as JSON has it (mappings, sequences, texts, numbers) with every text and key treated alike."""
    if isinstance(data, str):
        return text(data, private)
    if isinstance(data, Mapping):
        return {deep(key, private): deep(value, private) for key, value in data.items()}
    return [deep(each, private) for each in data] if isinstance(data, list | tuple) else data


def result(found: Result, private: Private) -> Result:
    """Return what a command did, with its arguments and both of its outputs treated alike: parsers compare them."""
    argv = tuple(text(part, private) for part in found.argv)
    return replace(found, argv=argv, stdout=raw(found.stdout, private), stderr=raw(found.stderr, private))


@lru_cache(maxsize=8)
def _names(private: tuple[tuple[str, str], ...]) -> dict[bytes, bytes]:
    # The longest first: an address may be the end of another name.
    kept = [(secret, name) for secret, name in private if _stands_out(secret)]
    return {secret.encode(): name.encode() for secret, name in sorted(kept, key=lambda pair: -len(pair[0]))}


def _stands_out(secret: str) -> bool:
    return any(sign in secret for sign in ".:/@") and secret not in LOOPBACK


@lru_cache(maxsize=8)
def _pattern(secrets: tuple[bytes, ...]) -> re.Pattern[bytes]:
    # 192.0.2.1 is neither in 192.0.2.10 nor in 5.192.0.2.1, but in 192.0.2.1:80 and at the end of a sentence.
    every = (rb"(?<![0-9]\.)" + re.escape(each) if each[:1].isdigit() else re.escape(each) for each in secrets)
    return re.compile(rb"(?<![0-9A-Za-z])(?:%s)(?![0-9A-Za-z-])(?!\.[0-9A-Za-z])" % b"|".join(every))
