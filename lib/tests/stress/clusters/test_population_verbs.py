"""The population's verbs against a kubectl that keeps pods in files: made, timed, removed, and what failed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infrabench_platforms.clusters import pods

# Pods are files; a pod whose name is in SICK never gets Ready, one in STUCK never goes.
KUBECTL = """import json, sys, time
from pathlib import Path
home = Path(__file__).parent
argv = [word for word in sys.argv[1:] if not word.startswith("--namespace")]
names = lambda file: (home / file).read_text().split() if (home / file).exists() else []
def pod(path):
    made = json.loads(path.read_text())
    number = int(path.stem.split("-")[1])
    well = path.stem not in names("sick")
    made["status"] = {"phase": "Running" if well else "Pending", "startTime": "now", "conditions": [
        {"type": "Ready", "status": "True" if well else "False"}], "podIP": f"198.19.0.{number + 4}",
        "containerStatuses": [{"restartCount": 0,
        "state": {} if well else {"waiting": {"reason": "CreateContainerError", "message": "no such handler"}}
    }]}
    return made
def listed():
    found = {}
    for path in sorted(home.glob("pod-*.json")):
        try:
            found[path.stem] = pod(path)
        except FileNotFoundError:  # another process deleted it after it was seen
            pass
    return found
with (home / "asked").open("a") as asked:
    asked.write(" ".join(argv) + "\\n")
if argv[:2] == ["get", "--raw"] and "watch=1" in argv[2]:
    known, first = {}, True
    for _ in range(400):
        now = listed()
        for name, made in now.items():
            if name not in known:
                new = {**made, "status": {"phase": "Pending"}}
                print(json.dumps({"type": "ADDED", "object": made if first else new}), flush=True)
            if known.get(name) != made:
                print(json.dumps({"type": "MODIFIED", "object": made}), flush=True)
        for name in known.keys() - now.keys():
            known[name]["metadata"]["deletionTimestamp"] = "now"
            for kind in ("MODIFIED", "DELETED"):
                print(json.dumps({"type": kind, "object": known[name]}), flush=True)
        known, first = now, False
        time.sleep(0.02)
elif argv[:2] == ["get", "--raw"] and "metrics" in argv[2]:
    count = len(names("operations"))
    for name in ("run_podsandbox", "create_container", "start_container"):
        series = "kubelet_runtime_operations_duration_seconds_"
        print(f'{series}sum{{operation_type="{name}"}} {0.25 * count}')
        print(f'{series}count{{operation_type="{name}"}} {count}')
elif argv[:2] == ["get", "--raw"] and "logs" in argv[2]:
    print((home / "log").read_text() if (home / "log").exists() else "the runtime's own words")
elif argv[:2] == ["get", "--raw"]:
    print(json.dumps({"items": list(listed().values())}))
elif argv[:2] == ["get", "events"]:
    print(json.dumps({"items": [{"involvedObject": {"name": "pod-002"}, "message": "FailedCreatePodSandBox"}]}))
elif argv[0] == "create":
    for made in json.load(sys.stdin)["items"]:
        part = home / (made["metadata"]["name"] + ".part")
        part.write_text(json.dumps(made))
        part.rename(part.with_suffix(".json"))
        (home / "operations").open("a").write(made["metadata"]["name"] + " ")
elif argv[0] == "delete":
    for name in [word for word in argv[2:] if not word.startswith("-")]:
        if name not in names("stuck") or "--force" in argv:
            (home / (name + ".json")).unlink(missing_ok=True)
elif argv[0] == "exec":
    (home / "list").write_text(sys.stdin.read())
    for line in (home / "list").read_text().splitlines():
        name = line.split()[0]
        print(json.dumps({"name": name, "error": "no answer" if name in names("silent") else None}))
    print(json.dumps({"end": 1}))
    (home / "silent").unlink(missing_ok=True)
elif argv[:2] == ["get", "pods"]:
    print("\\n".join(listed()))
else:
    sys.exit("unknown " + " ".join(argv))
"""
Verb = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def verb(tmp_path: Path) -> Verb:
    program = tmp_path / "kubectl"
    program.write_text(f"#!{sys.executable}\n{KUBECTL}")
    program.chmod(0o755)
    config = {
        "kubectl": [str(program)], "namespace": "infrabench", "node": "worker1", "conductor": "conductor",
        "pod": {"metadata": {"name": "pod", "labels": {"a": "b"}}, "spec": {}}, "list": "/tmp/list",
        "wait_s_per_pod": 0.2, "logs": ["infrabench/crio.log"],
    }  # fmt: skip

    # What comes is waited for as long as a busy machine needs to start some programs: 1.8 s for four pods were too few.
    def run(*words: str, wait_s: float = 20.0) -> subprocess.CompletedProcess[str]:
        given = json.dumps({**config, "wait_s": wait_s})
        argv = [sys.executable, "-c", pods.POPULATION.read_text(), given, *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    return run


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_creation_is_timed_pod_by_pod_and_the_list_is_left_after_it(verb: Verb, tmp_path: Path) -> None:
    assert told(verb("calls"))["count"] == 0
    before = time.time()
    made = told(verb("create", "3"))
    assert before < made["begun_s"] < made["done_s"] < time.time()
    assert [each["name"] for each in made["pods"]] == ["pod-001", "pod-002", "pod-003"]
    assert made["done_s"] == max(each["ready_s"] for each in made["pods"])
    assert not (tmp_path / "list").exists()
    calls = told(verb("calls"))
    assert (calls["count"], calls["cri"]["run_podsandbox"]) == (3, {"count": 3, "seconds": 0.75})
    assert (tmp_path / "list").read_text() == "pod-001 198.19.0.5\npod-002 198.19.0.6\npod-003 198.19.0.7\n"
    assert json.loads((tmp_path / "pod-001.json").read_text())["metadata"]["labels"] == {
        "a": "b", "infrabench-population": "yes",
    }  # fmt: skip
    again = verb("create", "3")
    assert again.returncode == 1
    assert "pods stand already" in again.stderr


def test_ensure_makes_what_is_missing_and_removes_what_is_too_much(verb: Verb, tmp_path: Path) -> None:
    first = told(verb("ensure", "4"))
    assert (first["count"], first["made"], first["removed"]) == (4, 4, 0)
    (tmp_path / "asked").unlink()
    assert told(verb("ensure", "4"))["made"] == 0
    assert "create" not in (tmp_path / "asked").read_text()
    fewer = told(verb("ensure", "2"))
    assert (fewer["made"], fewer["removed"]) == (0, 2)
    assert len((tmp_path / "list").read_text().splitlines()) == 2


def test_ensure_replaces_a_pod_that_does_not_answer(verb: Verb, tmp_path: Path) -> None:
    told(verb("ensure", "3"))
    (tmp_path / "silent").write_text("pod-002")
    again = told(verb("ensure", "3"))
    assert (again["made"], again["removed"]) == (1, 1)
    assert "delete pods --wait=false --ignore-not-found pod-002" in (tmp_path / "asked").read_text()


def test_events_and_the_runtimes_words_come_before_states_in_the_reason(verb: Verb, tmp_path: Path) -> None:
    (tmp_path / "sick").write_text("pod-002")
    (tmp_path / "log").write_text(
        'time="2026-11-01T10:00:00Z" level=error msg="an older one"\n'
        'time="2026-11-01T10:00:01Z" level=error msg="open /dev/vhost-net: no such file or directory"\n'
        'time="2026-11-01T10:00:02Z" level=info msg="stopping"\n'
    )
    failed = verb("create", "2", wait_s=1.0)
    reason = failed.stderr.partition(" s: ")[2]
    parts = reason.strip().split("; ")
    assert parts[0] == "1 of them: FailedCreatePodSandBox"
    assert parts[1].startswith("the runtime: time=")
    assert "open /dev/vhost-net: no such file" in parts[1]
    assert parts[2] == "1 of them: CreateContainerError no such handler"
    why = json.loads(failed.stdout)["why"]
    assert [("an older one" in each, "stopping" in each) for each in why] == [
        (False, False), (False, False), (True, False), (False, False),
    ]  # fmt: skip
    assert len(failed.stderr) < 600  # as much of it is kept


def test_a_log_without_complaints_gives_its_last_lines(verb: Verb, tmp_path: Path) -> None:
    (tmp_path / "sick").write_text("pod-001")
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(9)))
    why = json.loads(verb("create", "1", wait_s=1.0).stdout)["why"]
    assert [each for each in why if each.startswith("the runtime")] == [
        f"the runtime: line {number}" for number in (8, 7, 6)
    ]


def test_removal_is_timed_and_forced_where_a_pod_stays(verb: Verb, tmp_path: Path) -> None:
    told(verb("create", "3"))
    gone = told(verb("remove"))
    assert [each["name"] for each in gone["pods"]] == ["pod-001", "pod-002", "pod-003"]
    assert gone["begun_s"] < gone["done_s"]
    assert told(verb("remove"))["count"] == 0
    told(verb("create", "2"))
    (tmp_path / "stuck").write_text("pod-001")
    failed = verb("remove", wait_s=5.0)
    assert "1 of 2 pods were not gone" in failed.stderr
    assert list(tmp_path.glob("pod-*.json")) == []
