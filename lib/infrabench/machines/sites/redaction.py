"""What a session must not hold: a site's addresses are replaced by what the site calls their owners.

Sessions, notebooks and archives are made to be given on. Who made them keeps the inventory, which says what ``server``
stands for; everybody else learns what was measured, not where it can be reached. `private` maps such texts to names.

Only texts that cannot be mistaken for a word are replaced (they have a dot, a colon, a slash or an @): a host that is
called ``web`` in the inventory would otherwise rewrite every mention of the workload. Capitals make no difference, an
address of IPv6 is known in each of its forms, and so are names that clouds and reverse zones make of an address
(``ip-192-0-2-1``, ``192.0.2.1.static.example.org``, ``1.2.0.192.in-addr.arpa``, ``host192_000_002_001``). Loopback
addresses hide nothing. A user and password inside of any URL go as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from infrabench.core import Result

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost.localdomain", "0.0.0.0", "::"})
# What stands before the last @ that a host follows. A password may have any sign, although a URL should encode them; a
# colon with a port and the end of the host is none.
LOGIN = re.compile(
    rb"://(?:[^\s/@:'\"\[]{0,256}:(?![0-9]{1,5}(?:[/?#\"'\s,;)\]}<>]|$))\S{0,256}?@"
    rb"(?=[A-Za-z0-9.\[\]:_%${}-]+(?:[/?#\"'\s,;)}<>]|$))|[^\s/@'\"]{1,256}@)"
)
# It may end as one of IPv4 does; a port may follow behind a dot.
IPV6 = re.compile(
    rb"(?<![0-9A-Za-z:.])(?:[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){1,5}:[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
    rb"|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7})(?![0-9A-Za-z:])(?!\.[A-Za-z])"
)
Private = Mapping[str, str]


def raw(data: bytes, private: Private) -> bytes:
    """Return `data` with every private text in it replaced by its name."""
    if b"://" in data:
        data = LOGIN.sub(b"://", data)
    key = tuple(sorted(private.items()))
    names, addresses = _names(key), _addresses(key)
    lower = data.lower()
    if there := tuple(pattern for secret, (_, pattern) in names.items() if secret in lower):
        data = _pattern(there).sub(lambda match: names[match.group().lower()][0], data)
    if addresses and b":" in data:
        data = IPV6.sub(lambda match: addresses.get(_packed(match.group()), match.group()), data)
    return data


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
def _names(private: tuple[tuple[str, str], ...]) -> dict[bytes, tuple[bytes, str]]:
    """Return private texts, and names made of addresses, in lower case -> what is written instead, and the pattern."""
    shown = [(secret, name) for secret, name in private if _stands_out(secret)]
    kept = {secret.encode().lower(): (name.encode(), _alone(secret)) for secret, name in shown}
    for secret, name in shown:
        for form, pattern in _derived(secret).items():
            kept.setdefault(form.encode().lower(), (name.encode(), pattern))
    # The longest first: an address may be the end of another name.
    return {secret: kept[secret] for secret in sorted(kept, key=lambda each: (-len(each), each))}


@lru_cache(maxsize=8)
def _addresses(private: tuple[tuple[str, str], ...]) -> dict[bytes, bytes]:
    """Return packed addresses of IPv6, and those of IPv4 mapped into it -> what is written instead."""
    found = {}
    for secret, name in private:
        address = _parsed(secret) if _stands_out(secret) else None
        if isinstance(address, IPv4Address):
            address = IPv6Address(b"\0" * 10 + b"\xff\xff" + address.packed)
        if address is not None:
            found[address.packed] = name.encode()
    return found


def _derived(secret: str) -> dict[str, str]:
    """Return the names that are made of an address, with their patterns: its parts in either order, by other signs."""
    address = _parsed(secret)
    if address is None:
        return {}
    found = {address.reverse_pointer: _alone(address.reverse_pointer)}
    if isinstance(address, IPv6Address):
        forms = [form.replace(":", "-") for form in (str(address), address.exploded)]
        return found | {form: _alone(form) for form in forms}
    for parts in (secret.split("."), [part.zfill(3) for part in secret.split(".")]):
        found |= {(form := sign.join(parts)): _numbers(form) for sign in ".-_"}
        found |= {(form := sign.join(parts[::-1])): _numbers(form) for sign in "-_"}
        # Alone, the reverse order with dots is another address.
        found |= {(form := ".".join(parts[::-1])): _numbers(form) + r"(?=\.[A-Za-z])"}
    return found | {(form := address.packed.hex()): _alone(form)}


def _parsed(secret: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(secret)
    except ValueError:
        return None


def _packed(form: bytes) -> bytes:
    try:
        return IPv6Address(form.decode()).packed
    except ValueError:
        return b""


def _stands_out(secret: str) -> bool:
    return any(sign in secret for sign in ".:/@") and secret not in LOOPBACK


@lru_cache(maxsize=128)
def _pattern(alternatives: tuple[str, ...]) -> re.Pattern[bytes]:
    return re.compile("|".join(alternatives).encode(), re.IGNORECASE)


def _alone(secret: str) -> str:
    """Return the pattern of a private text where it stands alone."""
    if isinstance(_parsed(secret), IPv4Address):
        return _numbers(secret)
    # An address with dashes is a part of a longer name.
    after = r"(?!\.[0-9A-Za-z])" if _stands_out(secret) else ""
    digit = r"(?<![0-9]\.)" if secret[:1].isdigit() else ""
    return rf"{digit}(?<![0-9A-Za-z]){re.escape(secret)}(?![0-9A-Za-z-]){after}"


def _numbers(form: str) -> str:
    """Return the pattern of four numbers, also as a part of a longer name.

    192.0.2.1 is neither in 192.0.2.10 nor in 5.192.0.2.1, but in 192.0.2.1:80 and at the end of a sentence.
    """
    before, after = (r"(?<![0-9]\.)", r"(?!\.[0-9])") if "." in form else ("", "")
    return rf"(?<![0-9]){before}{re.escape(form)}(?![0-9]){after}"
