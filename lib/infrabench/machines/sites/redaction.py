"""What a session must not hold: a site's addresses are replaced by what the site calls their owners.

Sessions, notebooks and archives are made to be given on. Who made them keeps the inventory, which says what ``server``
stands for; everybody else learns what was measured, not where it can be reached. `private` maps such texts to names.

Only texts that cannot be mistaken for a word are replaced (they have a dot, a colon, a slash, an @ or an equals sign):
a host that is called ``web`` in the inventory would otherwise rewrite every mention of the workload. Capitals make no
difference, an address of IPv6 is known in each of its forms, and so are names that clouds and reverse zones make of an
address (``ip-192-0-2-1``, ``192.0.2.1.static.example.org``, ``1.2.0.192.in-addr.arpa``, ``host192_000_002_001``).
Loopback addresses hide nothing.

Credentials that can be told by their shape go whoever's they are: user and password in a URL, a private key in PEM,
the headers Authorization and Cookie of HTTP, and what a URL's query calls a token, key, password or signature.

An output may have many megabytes. Addresses are found by a pattern of their kind and looked up, names by a search for
each; so the time grows with the output, and hardly with the number of addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from infrabench.core import Result

Private = Mapping[str, str]
Span = tuple[int, int, bytes]  # from, to, and what stands there instead

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost.localdomain", "0.0.0.0", "::"})
EMBEDDED = tuple(IPv6Address(each).packed[:12] for each in ("::ffff:0:0", "64:ff9b::"))  # IPv4 inside of IPv6

# A sign with three more numbers behind it; before it stands the first of four.
IPV4 = re.compile(rb"([._-])(?=([0-9]{1,3})\1([0-9]{1,3})\1([0-9]{1,3})(?![0-9]))")
DIGITS = b"0123456789"
REVERSED = re.compile(rb"\.in-addr\.arpa(?![0-9A-Za-z-])(?!\.[0-9A-Za-z])|(?=\.[A-Za-z])", re.IGNORECASE)
# It may end as one of IPv4 does; a port may follow behind a dot.
IPV6 = re.compile(
    rb"(?<![0-9A-Za-z:.])(?:[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){1,5}:[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
    rb"|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7})(?![0-9A-Za-z:])(?!\.[A-Za-z])"
)
IN_IPV6 = re.compile(rb":(?::|(?:[0-9A-Fa-f]{1,4}:){5})")  # what each has, and hardly anything else

# A URL up to its first @ or blank, and on to the next URL, or the end of the line or of the quotes that it stands in.
_SIGN = rb":(?:\\?/){2}"
_QUOTE = rb"[\"'`](?![\s,:;}\])]|\Z)"
URL = re.compile(
    rb"(%s[^\x00-\x20@\"'`]*(?:%s[^\x00-\x20@\"'`]*)*)([^\x00-\x1f:\"'`]*(?:(?:%s|(?!%s):)[^\x00-\x1f:\"'`]*)*)"
    % (_SIGN, _QUOTE, _QUOTE, _SIGN)
)
_END = rb"(?=[/?#\"'`\s,;()\[\]{}<>|&\\]|:\s|:?\Z)"
_PORT = rb"(?:[0-9]{1,5}%s|(?:\$\w+|\$?\{\w*\}|%%[sd]|<\w+>|port)(?=[/\s\"']|\Z))" % _END
# Where a login begins: with a user and a colon that no port follows; or everything up to the @ belongs to it.
PASSWORD = re.compile(rb"%s(?=(?:[^\s/?#@:'\"`\[]|(?<=\w)'(?=\w))*:(?!%s|\Z))" % (_SIGN, _PORT), re.IGNORECASE)
USER = re.compile(rb"%s(?=[^/?#]*\Z)" % _SIGN)
HOST = re.compile(
    rb"@(?:(?P<sure>\[[\w:.%%]+\]|(?:[\w%%-]+\.)+(?:[A-Za-z]{2,}|[0-9]{1,3})\.?|localhost)(?::%s|:(?=\s|\Z))?"
    rb"|[\w.~$%%{}\x80-\xff-]+(?::%s|:(?=\s|\Z))?)%s" % (_PORT, _PORT, _END),
    re.IGNORECASE,
)
DIGEST = re.compile(rb"@sha[0-9]{3}:[0-9a-f]{32}")  # of an image: nginx:1.27@sha256:...
QUERY = re.compile(
    rb"([?&](?:[\w-]*(?:token|secret|password|passwd|signature|api_?key|access_?key)|sig|pwd|auth)=)[^&#\\]+",
    re.IGNORECASE,
)

# What each has in small letters, its pattern, and what stands there instead.
SHAPES = (
    (
        b"private key-----",  # whole, or cut off somewhere
        re.compile(
            rb"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----)(?:[^-]*(?:-(?!----)[^-]*)*(?=-----END )"
            rb"|(?:[\s\\nr\"',+]*[A-Za-z0-9+/=]{16,})+)"
        ),
        rb"\1REMOVED",
    ),
    (
        b"authorization",
        re.compile(
            rb"(authorization[\"']?[ ]*[:=][ ]*[\"']?(?:(?:basic|bearer|digest|negotiate|ntlm|token|aws4[\w-]*)[ ]+"
            rb"|(?=[^\s\"']{16})))[^\r\n\"']+",
            re.IGNORECASE,
        ),
        rb"\1REMOVED",
    ),
    (b"cookie", re.compile(rb"(cookie[\"']?[ ]*:[ ]*[\"']?[\w.-]+=)[^\r\n\"']+", re.IGNORECASE), rb"\1REMOVED"),
    (b"://", re.compile(rb"://[^\s\"'<>]*"), lambda url: QUERY.sub(rb"\1REMOVED", url.group())),
    (b"%3a%2f%2f", re.compile(rb"(%3a%2f%2f)(?:(?!%2f)[^\s&\"'])*%40", re.IGNORECASE), rb"\1"),  # a URL in a URL
)


def raw(data: bytes, private: Private) -> bytes:
    """Return `data` with every private text in it replaced by its name, and without credentials."""
    lower = data.lower()
    known = _known(tuple(sorted(private.items())))
    if b"@" in data and b"/" in data:
        data = URL.sub(_remove_login, data)
    for needle, pattern, instead in SHAPES:
        if needle in lower:
            data = pattern.sub(instead, data)
    data = _replace(data, [*_find_names(data, known), *_find_ipv4(data, known)])
    return _replace(data, _find_ipv6(data, known))


def text(words: str, private: Private) -> str:
    """Return `words` with every private text in them replaced by its name, and without credentials."""
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


@dataclass(frozen=True, slots=True)
class _Known:
    """What is looked for, in small letters, and what is written instead."""

    names: Mapping[bytes, tuple[bytes, re.Pattern[bytes]]]  # with the pattern of each where it stands alone
    ipv4: Mapping[bytes, bytes]  # four numbers without leading zeros, with dots
    ipv6: Mapping[bytes, bytes]  # packed, also those of IPv4 inside of IPv6


@lru_cache(maxsize=8)
def _known(private: tuple[tuple[str, str], ...]) -> _Known:
    names: dict[bytes, tuple[bytes, re.Pattern[bytes]]] = {}
    ipv4, ipv6 = {}, {}
    for secret, name in private:
        if secret in LOOPBACK or not any(sign in secret for sign in ".:/@="):
            continue
        instead = name.encode()
        names[secret.encode().lower()] = instead, _alone(secret, r"(?!\.[0-9A-Za-z])")
        try:
            address = ip_address(secret)
        except ValueError:
            continue
        # As the kernel's tables have it: in the order of the network, and in that of the machine.
        forms = [address.packed.hex(), address.packed[::-1].hex()]
        if isinstance(address, IPv4Address):
            del names[secret.encode()]  # it may also end a part of a longer name
            ipv4[secret.encode()] = instead
            ipv6.update({before + address.packed: instead for before in EMBEDDED})
        else:
            ipv6[address.packed] = instead
            forms += [
                secret.lower(),
                str(address).replace(":", "-"),
                address.exploded.replace(":", "-"),
                address.reverse_pointer,
            ]
        for form in forms:
            names.setdefault(form.encode(), (instead, _alone(form)))
    return _Known(names, ipv4, ipv6)


def _alone(form: str, after: str = "") -> re.Pattern[bytes]:
    """Return the pattern of a private text where it stands alone."""
    digit = r"(?<![0-9]\.)" if form[:1].isdigit() else ""
    return re.compile(rf"{digit}(?<![0-9A-Za-z]){re.escape(form)}(?![0-9A-Za-z-]){after}".encode(), re.IGNORECASE)


def _replace(data: bytes, spans: Iterable[Span]) -> bytes:
    """Return `data` with its spans replaced; of those that overlap, the one that begins first, and the longest."""
    kept, done = [], 0
    for begin, end, instead in sorted(spans, key=lambda each: (each[0], -each[1])):
        if begin >= done:
            kept += [data[done:begin], instead]
            done = end
    return b"".join([*kept, data[done:]]) if kept else data


def _find_names(data: bytes, known: _Known) -> Iterator[Span]:
    lower = data.lower()
    for secret, (instead, pattern) in known.names.items():
        at = lower.find(secret)
        while at >= 0:
            if pattern.match(data, at):
                yield at, at + len(secret), instead
            at = lower.find(secret, at + 1)


def _find_ipv4(data: bytes, known: _Known) -> Iterator[Span]:
    """Find four numbers that are an address, also as a part of a longer name, in either order.

    192.0.2.1 is neither in 192.0.2.10 nor in 5.192.0.2.1, but in 192.0.2.1:80 and at the end of a sentence.
    """
    for found in IPV4.finditer(data) if known.ipv4 else ():
        sign, *rest = found.groups()
        before = data[max(0, found.start() - 4) : found.start()]
        first = before[len(before.rstrip(DIGITS)) :]
        if not 1 <= len(first) <= 3:
            continue
        begin, end = found.start() - len(first), found.end(4)
        alone = sign != b"." or not (
            (data[begin - 1 : begin] == b"." and data[max(0, begin - 2) : begin - 1].isdigit())
            or (data[end : end + 1] == b"." and data[end + 1 : end + 2].isdigit())
        )
        if not alone:
            continue
        numbers = [each.lstrip(b"0") or b"0" for each in (first, *rest)]
        pointer = REVERSED.match(data, end)  # alone, the reverse order with dots is another address
        if instead := known.ipv4.get(b".".join(numbers)):
            yield begin, end, instead
        elif (sign != b"." or pointer) and (instead := known.ipv4.get(b".".join(numbers[::-1]))):
            yield begin, max(end, pointer.end() if pointer else 0), instead


def _find_ipv6(data: bytes, known: _Known) -> Iterator[Span]:
    done = 0
    for hint in IN_IPV6.finditer(data) if known.ipv6 else ():
        if hint.start() < done:
            continue
        before = data[max(0, hint.start() - 40) : hint.start()]
        begin = hint.start() - len(before) + len(before.rstrip(b"0123456789abcdefABCDEF:"))
        if not (found := IPV6.match(data, begin)):
            continue
        done = found.end()
        try:
            packed = IPv6Address(found.group().decode()).packed
        except ValueError:
            continue
        if instead := known.ipv6.get(packed):
            yield begin, done, instead


def _remove_login(url: re.Match[bytes]) -> bytes:
    """Return a URL, and what follows it, without the user and password in it.

    A password may have any sign, although a URL should encode them: then it ends before the last @ that a host follows.
    But a host that can be nothing else ends a login as it does for every program that reads URLs.
    """
    before, after = url.groups()
    if b"@" not in after:
        return url.group()
    password = PASSWORD.search(before)
    if after.startswith(b"@"):  # no blank before it
        login = min(filter(None, (password, USER.search(before))), key=lambda each: each.start(), default=None)
        after_login, _, _ = after.partition(b" ")
    else:
        login, after_login = password, after
        if before.startswith(b"://") and url.string[: url.start()].endswith(b"docker"):
            login = None  # docker://nginx:latest
    if login is None:
        return url.group()
    if digest := DIGEST.search(after_login):
        after_login = after_login[: digest.start()]
    hosts = [*HOST.finditer(after_login)]
    if not hosts and b":" in before[login.end() :] + after_login:
        hosts = [*HOST.finditer(after)]  # a password with an @ and a blank
    sure = [host for host in hosts if host["sure"]]
    if hosts and hosts[0].start() == 0 and b":" not in before[login.end() :]:
        end = 1  # a user alone
    elif hosts:
        end = (sure or hosts[-1:])[0].start() + 1
    elif after_login.startswith(b"@"):
        end = re.split(rb"[/?#]", after_login)[0].rfind(b"@") + 1  # no name of a host: a placeholder, or nothing
    else:
        return url.group()
    return before[: login.end()] + after[end:]
