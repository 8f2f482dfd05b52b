from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import infrabench
from infrabench.core import SiteError
from infrabench.experiment.execution.monitor import watching
from infrabench.machines.hosts.host import LocalHost
from tests.support.scripts import load_script

PROBES = Path(infrabench.__file__).parent / "machines" / "hosts" / "probes"


def probe(name):
    return load_script(PROBES / f"{name}.py")


def test_a_window_has_a_sample_at_each_end_and_one_a_second_between_and_nothing_from_before():
    with watching([LocalHost("here")], {}) as monitor:
        time.sleep(1.1)
        before = monitor.begin("t")["here"]
        time.sleep(1.2)
        window = monitor.end("t")["here"]
    assert before["mark"] == window[-1]["mark"] == "t"
    assert len(window) == 2
    assert window[0]["mark"] is None
    assert window[-1]["monotonic_s"] - before["monotonic_s"] >= 1.2
    assert all(window[-1]["cpu"][key] >= before["cpu"][key] for key in ("user", "system", "steal"))
    assert before["memory"]["available_bytes"] > 0


def test_a_host_without_a_monitor_is_an_error_that_names_it():
    class Dumb(LocalHost):
        def stream(self, argv):
            return super().stream(("false",))

    with pytest.raises(SiteError, match="mute: its monitor stopped answering"), watching([Dumb("mute")], {}):
        pass


def test_what_a_host_does_not_tell_is_null_with_its_reason(monkeypatch):
    module, real = probe("monitor"), open

    def absent(path, *args, **kwargs):
        if "/proc/pressure" in str(path):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", absent)
    found = module.sample(["/no/such/cgroup"], "m")
    monkeypatch.undo()
    assert found["psi"] is None
    assert "No such file" in found["missing"]["psi"]
    assert found["cgroups"] == {"/no/such/cgroup": None}
    assert "/no/such/cgroup" in found["missing"]
    assert found["cpu"]["cpus"] >= 1


@pytest.mark.parametrize(
    ("files", "key", "value"),
    [
        ({"cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 70\n"}, "cpu.stat:nr_throttled", 3),
        ({"cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"}, "cpu.stat:throttled_time", 0),
        ({"memory.events": "low 0\noom 1\noom_kill 2\n"}, "memory.events:oom_kill", 2),
        ({"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"}, "memory.oom_control:oom_kill", 4),
        ({"memory.failcnt": "12\n", "memory.events": "low 0\nmax 3\n"}, "memory.failcnt", 12),  # of one number: no key
    ],
)
def test_cgroup_counters_of_both_versions_are_read(tmp_path, files, key, value):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert probe("monitor").sample([str(tmp_path)])["cgroups"][str(tmp_path)][key] == value


def test_facts_of_a_host_are_json_and_say_why_something_is_missing():
    facts = probe("facts").facts()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["kernel"]["release"]
    assert facts["memory"]["total_bytes"] > 0

    def empty(data, path=()):
        for key, value in data.items():
            if isinstance(value, dict) and (*path, key) != ("missing",):
                yield from empty(value, (*path, key))
            elif value is None and path and path[0] in ("kernel_settings", "power", "machine", "versions"):
                yield ".".join((*path, key))

    assert set(empty(facts)) <= set(facts["missing"])


def test_the_tasks_of_a_cgroup_that_want_a_processor_are_counted_below_it_too(tmp_path):
    below = tmp_path / "guest" / "service"
    below.mkdir(parents=True)
    (tmp_path / "guest" / "tasks").write_text("")
    (below / "cgroup.threads").write_text(f"{os.getpid()}\n99999999\n")  # this one runs, the other has ended
    assert probe("monitor").runnable(str(tmp_path / "guest")) == 1
    assert probe("monitor").runnable(str(tmp_path / "none")) == 0


def test_facts_keep_what_changes_numbers_and_not_how_to_get_in(monkeypatch):
    module = probe("facts")
    files = {
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz ro mitigations=off ip=192.0.2.7::192.0.2.1 nfsroot=192.0.2.9:/x "
        "isolcpus=1,2 ds=nocloud;s=http://192.0.2.3/ inst.ks=https://me:pw@192.0.2.4/ks rd.luks.key=abc "
        "foo.password=def console=tty0",
        "/proc/mounts": "192.0.2.50:/export /home nfs4 rw,vers=4.2,clientaddr=192.0.2.7,addr=192.0.2.50 0 0\n"
        "//files.example/share /srv cifs rw,username=anna,domain=corp,cache=strict 0 0\n"
        "/dev/vda1 / ext4 rw,discard 0 0",
    }
    monkeypatch.setattr(module, "text", files.__getitem__)
    assert module.command_line() == (
        "BOOT_IMAGE=/vmlinuz ro mitigations=off ip=... nfsroot=... isolcpus=1,2 ds=... inst.ks=... rd.luks.key=... "
        "foo.password=... console=tty0"
    )
    found = module.mounts()
    assert found["/"] == {"device": "/dev/vda1", "type": "ext4", "options": "rw,discard"}
    assert found["/home"] == {
        "device": "of another machine", "type": "nfs4", "options": "rw,vers=4.2,clientaddr=...,addr=...",
    }  # fmt: skip
    assert found["/srv"]["options"] == "rw,username=...,domain=...,cache=strict"
