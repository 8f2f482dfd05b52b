"""An SSH host is talked to only when its key is the known one, and with a key that nobody else can read."""

from __future__ import annotations

from itertools import repeat
from pathlib import Path

import paramiko
import pytest
import yaml

from infrabench.core import SiteError
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.site import open_site
from tests.support.ssh_server import serving


def test_a_known_host_is_talked_to(tmp_path: Path) -> None:
    with serving(tmp_path) as login:
        there = login.host()
        script = 'cat; echo "$1" >&2; exit 3'
        result = there.run(("sh", "-c", script, "sh", "$HOME; `id` 'x'"), timeout_s=30, stdin=b"\xff")
        there.close()
    assert (result.status, result.stdout, result.stderr) == (3, b"\xff", b"$HOME; `id` 'x'\n")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: "", "not found in known_hosts. Is its key in the known-hosts file?"),
        (lambda text: text.replace("127.0.0.1", "127.0.0.2"), "not found in known_hosts"),
        (lambda text: f"{text.split()[0]} {_other()}\n", "its host key changed"),
    ],
    ids=["unknown", "of another host", "changed"],
)
def test_an_unknown_or_changed_key_is_refused(change, told: str, tmp_path: Path) -> None:
    with serving(tmp_path) as login:
        wrong = tmp_path / "wrong"
        wrong.write_text(change(login.known_hosts.read_text()))
        before = wrong.read_text()
        with pytest.raises(SiteError, match=told) as error:
            login.host(known_hosts=wrong).run(("true",), timeout_s=30)
        assert wrong.read_text() == before  # nor is it learnt
        assert login.address not in str(error.value)  # the inventory's name says which host


def test_a_key_that_changes_during_a_session_ends_it_and_the_next_is_refused(tmp_path: Path) -> None:
    """The host was installed anew, or another one answers at its address: nothing of a session runs there."""
    ran = tmp_path / "ran"
    with serving(tmp_path) as login:
        there = login.host()
        assert there.run(("true",), timeout_s=30).ok
    known = tmp_path / "known"
    known.write_text(login.known_hosts.read_text())
    with serving(tmp_path, port=login.port) as other:
        with pytest.raises(SiteError, match="server: "):
            there.run(("touch", str(ran)), timeout_s=30)
        again = other.host(known_hosts=known)
        with pytest.raises(SiteError, match=r"server: its host key changed: .*Compare the fingerprint on its console"):
            again.run(("touch", str(ran)), timeout_s=30)
        there.close()
        again.close()
    assert not ran.exists()


def test_another_login_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    made = LocalHost().run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)), timeout_s=20)
    assert made.ok
    with serving(tmp_path) as login, pytest.raises(SiteError, match="server: login refused"):
        login.host(key=other).run(("true",), timeout_s=30)


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as login:
        path = tmp_path / "hosts.yml"
        path.write_text(yaml.safe_dump({"name": "x", "hosts": {"server": login.machine}}))
        login.key.chmod(0o640)
        with pytest.raises(SiteError, match=r"is open to others \(mode 640\). Try: chmod 600"), open_site(path):
            pass


def _other() -> str:
    key = paramiko.ECDSAKey.generate()
    return f"{key.get_name()} {key.get_base64()}"


def test_sessions_that_a_server_refuses_on_one_connection_are_on_another(tmp_path: Path) -> None:
    with serving(tmp_path, refused=(False, False, True)) as login:  # the first asks whether commands say what they say
        there = login.host()
        assert [there.run(("echo", word), timeout_s=30).stdout for word in "ab"] == [b"a\n", b"b\n"]
        there.close()
    with serving(tmp_path, refused=repeat(True)) as login, pytest.raises(SiteError, match="no further session") as told:
        login.host().run(("true",), timeout_s=30)
    assert "MaxSessions in its sshd_config" in str(told.value)
