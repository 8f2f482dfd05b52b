"""What making a cluster does on a host: unit files say what was meant, files arrive whole, errors are told."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.core import ProvisionError
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms.clusters import hosts
from tests.support.cluster_fakes import Rooted, Scripted, words_of
from tests.support.scripts import write_program

NASTY = ["%h", "100%", "$HOME", "${HOME}", "a b", "{a}", 'say "x"', "it's", "back\\slash", "", ";", "a;b", "\t", "x\ny"]
SHOW = "show --property=MainPID --value infrabench-flanneld"


def parts(text: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of a unit file as systemd reads them."""
    command = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
    assert command is not None
    words = [word.replace("$$", "$") for word in words_of(command[1])]
    settings = [words_of(line)[0] for line in re.findall(r"^Environment=(.*)$", text, re.MULTILINE)]
    return words, dict(each.split("=", 1) for each in settings)


@given(
    st.lists(st.one_of(st.sampled_from(NASTY), st.text("abc$%\"'\\{}; \n", max_size=8)), max_size=4),
    st.one_of(st.sampled_from(NASTY), st.text("abc$%\"'\\{}; \n", max_size=8)),
)
def test_a_unit_runs_exactly_the_words_that_were_given(words: list[str], value: str) -> None:
    (text,) = hosts.unit("x", ["/bin/true", *words], {"VALUE": value}).values()
    command, environment = parts(text)
    assert command == ["/bin/true", *words]
    assert environment == {"VALUE": value}


def test_no_word_is_expanded_by_systemd_and_a_runtime_leaves_its_children_alive() -> None:
    """In a command ``$`` begins a variable wherever it stands; in ``Environment=`` it is nothing special."""
    argv = ["/bin/echo", "${HOME}", "$X"]
    for children, kill in ((False, "mixed"), (True, "process")):
        made = hosts.unit("etcd", argv, {"A": "$b"}, children=children)
        ((path, text),) = made.items()
        assert path == "/etc/systemd/system/infrabench-etcd.service"
        for line in ('ExecStart=/bin/echo "$${HOME}" $$X', "Environment=A=$b", f"KillMode={kill}"):
            assert f"{line}\n" in text


def test_the_version_of_a_module_is_that_of_the_program_which_runs(tmp_path: Path) -> None:
    """The program is a copy of `sleep` with the lines at its end that Go's linker would leave in it."""
    program = tmp_path / "flanneld"
    noted = (
        b"\x00path\tgithub.com/flannel-io/flannel\nmod\tgithub.com/flannel-io/flannel\tv0.28.10\th1:jt+uW6XV\n"
        b"dep\tgithub.com/containernetworking/plugins\tv1.9.1\th1:8oU6WsIs\n"
    )
    program.write_bytes(Path("/bin/sleep").read_bytes() + noted)
    program.chmod(0o755)
    with subprocess.Popen([program, "60"]) as runs:
        try:
            write_program(tmp_path / "systemctl", f'[ "$*" = "{SHOW}" ] && echo {runs.pid}')
            host = LocalHost(environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
            assert hosts.module_version(host, "flanneld", "github.com/flannel-io/flannel") == "v0.28.10"
            with pytest.raises(ProvisionError, match="flanneld does not tell its version"):
                hosts.module_version(host, "flanneld", "github.com/containernetworking/plugins")
        finally:
            runs.kill()


def test_files_arrive_whole_with_their_modes_and_folders_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir(mode=0o711)
    files = {"/etc/new/deep/file": "text €\n", "/etc/program": "#!/bin/sh\n"}
    hosts.push(Rooted(root=tmp_path), files)
    assert (tmp_path / "etc/new/deep/file").read_text() == "text €\n"
    assert (tmp_path / "etc/new/deep/file").stat().st_mode & 0o777 == 0o600  # most of them hold keys
    assert (tmp_path / "etc/program").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "etc").stat().st_mode & 0o777 == 0o711


def test_files_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProvisionError, match="tar -xf"):
        hosts.push(Rooted(root=tmp_path), {"/file/below": "x"})


def test_a_script_gets_its_arguments_literally_and_its_failure_says_where() -> None:
    here = LocalHost("here")
    assert hosts.script(here, 'printf "%s|" "$@"', "a b", "$HOME", "it's") == "a b|$HOME|it's|"
    with pytest.raises(ProvisionError, match=r"here exited with 3 .*: no such thing"):
        hosts.script(here, "echo no such thing >&2; exit 3")


def test_units_are_started_in_order_and_the_end_of_the_log_is_told(tmp_path: Path, monkeypatch) -> None:
    """`systemctl` is replaced: it notes what it is asked, and refuses one unit."""
    logs = tmp_path / "logs"
    logs.mkdir()
    fake = write_program(tmp_path / "bin/systemctl", f'echo "$@" >>{tmp_path}/asked\n[ "$2" != infrabench-bad ]')
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    monkeypatch.setattr(hosts, "LOGS", str(logs))
    (logs / "bad.log").write_text("one\ntwo\nflag --x is not known\n")
    with pytest.raises(ProvisionError, match="flag --x is not known"):
        hosts.start(LocalHost(), "good", "bad", "never")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["daemon-reload", "start infrabench-good", "start infrabench-bad"]


def test_last_words_pass_over_information(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(hosts, "LOGS", str(tmp_path))
    (tmp_path / "kubelet.log").write_text("E1121 it broke\nI1121 all is well\nI1121 still\n")
    assert hosts.last_words(LocalHost(), "kubelet") == "E1121 it broke"
    (tmp_path / "kubelet.log").write_text("I1121 all is well\n")
    assert hosts.last_words(LocalHost(), "kubelet") == "nothing"
    assert hosts.last_words(Scripted(), "kubelet") == "nothing"
