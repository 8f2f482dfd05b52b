"""What is replaced in recorded bytes, and what is left as it came."""

from __future__ import annotations

import shlex
import string
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.core import CommandFailed, Result
from infrabench.machines.sites import kubeconfig, redaction
from infrabench.machines.sites.kubeconfig import Kubeconfig

PRIVATE = {
    "192.0.2.1": "server", "192.0.2.10": "client", "db1.example.org": "server", "2001:db8::7": "client",
    "web": "server", "/home/me/.kube/config": "KUBECONFIG", "127.0.0.1": "server", "me@east": "CONTEXT",
    "2001:db8::c000:263": "dual", "/home/Änne/.kube": "KUBECONFIG",
}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (b"from 192.0.2.1 to 192.0.2.10", b"from server to client"),
        (b'{"host":"192.0.2.1","port":5201}', b'{"host":"server","port":5201}'),
        (b"192.0.2.1:80, 192.0.2.1/24 and 192.0.2.1.", b"server:80, server/24 and server."),
        (b"192.0.2.100 1192.0.2.1 9.192.0.2.1 192.0.2.1.9", b"192.0.2.100 1192.0.2.1 9.192.0.2.1 192.0.2.1.9"),
        (b"[2001:db8::7]:22", b"[client]:22"),
        (b"www.db1.example.org db1.example.organic", b"www.server db1.example.organic"),
        (b"xdb1.example.org", b"xdb1.example.org"),
        (b"the workload web and 127.0.0.1", b"the workload web and 127.0.0.1"),
        (b"--kubeconfig=/home/me/.kube/config --context me@east", b"--kubeconfig=KUBECONFIG --context CONTEXT"),
        (
            b"https://me:secret@192.0.2.1/x and http://me@h/ http://h:80/@",
            b"https://server/x and http://h/ http://h:80/@",
        ),
        (b"DB1.Example.ORG, 2001:DB8::7", b"server, client"),
        (
            b"2001:0db8:0000:0000:0000:0000:0000:0007 2001:db8:0::7 2001:db8::70 2001:db8::7:22",
            b"client client 2001:db8::70 client:22",
        ),
        (b"[2001:DB8:0:0:0:0:0:7]:22 ::ffff:192.0.2.1 ::ffff:c000:201", b"[client]:22 ::ffff:server server"),
        (b"0000:0000:0000:0000:0000:ffff:c000:0201", b"server"),
        (b"ip-192-0-2-1.cloud.example ip-192-0-2-11", b"ip-server.cloud.example ip-192-0-2-11"),
        (b"1.2.0.192.in-addr.arpa 11.2.0.192.in-addr.arpa", b"server 11.2.0.192.in-addr.arpa"),
        (
            b"ip192-0-2-1.x static-192-0-2-1-east 192_0_2_1 5192-0-2-1",
            b"ipserver.x static-server-east server 5192-0-2-1",
        ),
        (b"192.0.2.1.static.example 192.0.2.1-192.0.2.10", b"server.static.example server-client"),
        (b"1.2.0.192.bc.example 1.2.0.192 1-2-0-192.rev", b"server.bc.example 1.2.0.192 server.rev"),
        (b"192.000.002.001 host001.002.000.192.x c0000201.x ac0000201", b"server hostserver.x server.x ac0000201"),
        (b"2001:db8::c000:263 2001:db8::192.0.2.99 64:ff9b::192.0.2.1", b"dual dual 64:ff9b::server"),
        (b"2001:db8::7.22 > fe80::1%eth0: 2001:db8::7.x", b"client.22 > fe80::1%eth0: 2001:db8::7.x"),
        ("/home/Änne/.kube /HOME/Änne/.kube".encode(), b"KUBECONFIG KUBECONFIG"),
        (b"12:34:56 at ::1, std::string a::b", b"12:34:56 at ::1, std::string a::b"),
        (b"https://me:pa/ss@h/ and https://me:p@ss:w@h:8080/x", b"https://h/ and https://h:8080/x"),
        (b"see https://me:secret@$1/x and https://me:p@ss@${host}:80", b"see https://$1/x and https://${host}:80"),
        (b"ftp://me:it's@h 'http://u:p@h/'", b"ftp://h 'http://h/'"),
        (
            b'{"a":"http://h:80","b":"me@h"} http://h:80/me@h http://[::1]:80/a@b/',
            b'{"a":"http://h:80","b":"me@h"} http://h:80/me@h http://[::1]:80/a@b/',
        ),
        (b"20010db8000000000000000000000007 010200C0:1F90 64:FF9B::C000:201", b"client server:1F90 server"),
        (b"01.2.0.192.in-addr.arpa 192.00.2.001", b"server server"),
        (b"\xff\x00 192.0.2.1\xff", b"\xff\x00 server\xff"),
        (b"", b""),
    ],
)
def test_a_private_text_is_replaced_where_it_stands_alone(said: bytes, kept: bytes) -> None:
    assert redaction.raw(said, PRIVATE) == kept
    assert redaction.raw(kept, PRIVATE) == kept


@pytest.mark.parametrize("frame", ["%s", "see %s.", "(%s)", "'%s'", '{"a":"%s","b":"me@k"}', "%s: refused\nme@k"])
def test_no_part_of_a_password_is_kept_whatever_signs_it_has(frame: str) -> None:
    passwords = [
        password for sign in [*string.punctuation, " ", "ä", "://", "b" * 300]
        for password in (f"a{sign}b", f"{sign}ab", f"ab{sign}", f"{sign}{sign}a{sign}b", quote(f"{sign}ab"))
    ]  # fmt: skip
    hosts = ("h", "h:80/", "x.org/p", "[::1]/")
    for password, user, host in product(passwords, ("me", "me@x.org", "o'brien", ""), hosts):
        if password.startswith(" ") or (user == "me@x.org" and "://" in f":{password}"):
            continue  # what a message says of a host, and another URL
        said = frame % f"https://{user}:{password}@{host}"
        assert redaction.text(said, {}) == frame % f"https://{host}"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("https://me@x.org:pass word@h/ https://me:my p@ss@h", "https://h/ https://h"),
        (f"http://{'t' * 100_000}@h/", "http://h/"),
        (r"Get \"https:\/\/me:pw@h\/x\", https://me:pw@bücher.example", r"Get \"https:\/\/h\/x\", https://bücher.example"),
        ("https://me:pw@<host>/ https://me:p@ss/w@h/ mongodb://u:p@h1:1,h2:1/", "https://<host>/ https://h/ mongodb://h1:1,h2:1/"),
        ("git+https://u:tok@github.com/o/r.git@v1 ssh://git@h/o/r@v1", "git+https://github.com/o/r.git@v1 ssh://h/o/r@v1"),
        ("https://me:pw@api.x.org:6443: dial api.x.org; me@y", "https://api.x.org:6443: dial api.x.org; me@y"),
        ("at https%3A%2F%2Fme%3Apw%40h%2F", "at https%3A%2F%2Fh%2F"),
        ("> Authorization: Basic bWU6cHc=\r\n", "> Authorization: Basic REMOVED\r\n"),
        ('{"Proxy-Authorization": "Bearer a.b-c"}', '{"Proxy-Authorization": "Bearer REMOVED"}'),
        ("cookie: sid=5; b=6\nSet-Cookie: sid=5; Path=/", "cookie: sid=REMOVED\nSet-Cookie: sid=REMOVED"),
        ("https://h/?n=1&X-Amz-Signature=ab&token=c#d", "https://h/?n=1&X-Amz-Signature=REMOVED&token=REMOVED#d"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE\n-----END RSA PRIVATE KEY-----\n5 IOPS",
            "-----BEGIN RSA PRIVATE KEY-----REMOVED-----END RSA PRIVATE KEY-----\n5 IOPS",
        ),
        (
            '"-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0B\\nAQEFAASCBKcwggSjAgEA", "iops": 5',
            '"-----BEGIN PRIVATE KEY-----REMOVED", "iops": 5',
        ),
    ],
)  # fmt: skip
def test_credentials_go_by_their_shape(said: str, kept: str) -> None:
    assert redaction.text(said, {}) == kept
    assert redaction.text(kept, {}) == kept


@pytest.mark.parametrize(
    "said",
    [
        "Copying docker://nginx:latest by root@node1",
        f"docker://nginx:1.27@sha256:{'0a' * 32}",
        '{"a":"oci://nginx:latest","b":"root@node1"}',
        "usage: http://host:$PORT/ or http[s]://host:port/path to me@x.org",
        "https://h?a:b@c http://h/a:b@c http://h/ me: x@y http://h: refused, me@x.org http://h:80: refused, me@x.org",
        '"cookie": "mvsx4abcdefghijk", Cookie: kk7v3abcdefg',  # as iperf3 says
        "security.authorization: enabled --authorization-mode=Node,RBAC",
        "tokens=5&token=6 https://h/?tokens=7",
        "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END CERTIFICATE-----",
    ],
)
def test_what_only_looks_like_a_credential_stays(said: str) -> None:
    assert redaction.text(said, PRIVATE) == said


@pytest.mark.parametrize("context", ["minikube", "me@east", "web"])
def test_a_context_is_not_told_whatever_it_is_called(context: str) -> None:
    """Alone, one that is called as a word may be would rewrite every mention of that word."""
    private = kubeconfig.private(Kubeconfig(Path("/home/me/.kube/config"), "east", context, "https://192.0.2.1:6443"))
    argv = ("kubectl", "--kubeconfig", "/home/me/.kube/config", f"--context={context}", "get", "web")
    said = f"{shlex.join(argv)}: dial 192.0.2.1; --context={context}-2".encode()
    found = redaction.result(Result(argv, 1, said, b"", 1.0, 2.0), private)
    told = ("kubectl", "--kubeconfig", "KUBECONFIG", "--context=CONTEXT", "get", "web")
    assert found.argv == told
    assert found.stdout == f"{shlex.join(told)}: dial API-SERVER; --context={context}-2".encode()


@pytest.mark.parametrize("size", [1, 4, 10, 300])
def test_no_part_of_a_context_or_path_is_told_where_a_failed_command_is_shortened(size: int) -> None:
    """As Amazon calls a cluster, with the number of its owner."""
    context, path = f"arn:aws:eks:eu-central-1:123456789012:cluster/{'e' * size}", f"/home/me/{'a' * size}/config"
    private = kubeconfig.private(Kubeconfig(Path(path), "east", context, "https://192.0.2.1:6443"))
    argv = ("/usr/local/bin/kubectl", "--kubeconfig", path, f"--context={context}", "get", "web")
    told = redaction.text(str(CommandFailed(Result(argv, 1, b"", b"no such pod", 1.0, 2.0), "here")), private)
    assert told.startswith("/usr/local/bin/kubectl --kubeconfig ")
    assert not any(part in told for part in ("arn", "1234", "/home"))
    assert told.endswith(" on here exited with 1 after 2.0 s: no such pod")


def test_of_texts_that_begin_alike_the_longest_is_replaced_whole() -> None:
    private = {"h.example": "server", "h.example:22": "gateway"}
    for known in (private, dict(reversed(private.items()))):
        assert redaction.raw(b"h.example:22 h.example:80 h.example", known) == b"gateway server:80 server"


def test_data_are_treated_at_every_depth_and_keep_their_shape() -> None:
    data = {"a": ["192.0.2.1", 1, None, {"192.0.2.10": True}], "b": 2.5, "c": ("x", "at 192.0.2.1")}
    assert redaction.deep(data, PRIVATE) == {
        "a": ["server", 1, None, {"client": True}],
        "b": 2.5,
        "c": ["x", "at server"],
    }


def test_what_was_asked_and_what_was_answered_stay_equal() -> None:
    """Parsers hold a tool's output against the arguments: both have to change alike."""
    found = redaction.result(
        Result(("iperf3", "-c", "192.0.2.1"), 0, b"to 192.0.2.1", b"192.0.2.10?", 1.0, 2.0), PRIVATE
    )
    assert (found.argv[-1], found.stdout, found.stderr) == ("server", b"to server", b"client?")
    assert (found.status, found.started_s, found.duration_s, found.timed_out) == (0, 1.0, 2.0, False)


SHORT, PADDED = (lambda each: each), (lambda each: each.zfill(3))
BEFORE = st.sampled_from(["", "ip-", "ip", "host_", "from ", "[", "http://", "a.", "=", '"', "\t", "ec2-"])
AFTER = st.sampled_from(["", ".", ":80", "/24", "-east.example", "_x", ".example.org", " ", '"', "]", ",", "."])


@given(st.ip_addresses(v=4), st.sampled_from([SHORT, PADDED]), st.booleans(), st.sampled_from("._-"), BEFORE, AFTER)
def test_no_form_of_an_address_is_kept(
    address: IPv4Address, form: Callable[[str], str], reverse: bool, sign: str, before: str, after: str
) -> None:
    parts = [form(each) for each in str(address).split(".")]
    if reverse and sign == "." and not after.startswith((".example",)):
        return  # alone it is another address
    name = sign.join(parts[::-1] if reverse else parts)
    kept = redaction.text(f"{before}{name}{after} end", {str(address): "server"})
    if str(address) not in redaction.LOOPBACK:
        assert kept == f"{before}server{after} end"


@given(st.ip_addresses(v=6), st.integers(0, 5), st.booleans(), st.sampled_from(["", "[", "inet6 ", "eth0: ", '"']))
def test_no_form_of_a_long_address_is_kept(address: IPv6Address, form: int, upper: bool, before: str) -> None:
    dotted = f"{address.exploded[:29]}:{IPv4Address(address.packed[12:])}"
    name = (
        str(address), address.exploded, dotted, address.exploded.replace(":", "-"), address.reverse_pointer,
        address.packed.hex(),
    )[form]  # fmt: skip
    name = name.upper() if upper else name
    kept = redaction.text(f"{before}{name} end", {str(address): "server"})
    if str(address) not in redaction.LOOPBACK:
        assert kept == f"{before}server end"
