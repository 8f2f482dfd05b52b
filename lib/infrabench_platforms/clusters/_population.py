"""The population of a node: equal idle pods, made, counted and removed through kubectl. Runs where kubectl is.

It is sent as it is (standard library only): ``python3 -c TEXT CONFIG VERB [N]``. CONFIG is JSON: ``kubectl`` (the
beginning of every command), ``namespace``, ``node``, ``pod`` (a manifest; names go in), ``conductor`` (the pod that has
to know the addresses), ``list`` (the file in it), ``logs`` (of the node's runtime, below /var/log), ``wait_s`` and
``wait_s_per_pod``. One JSON object is printed. Times are of this machine's clock, taken when the API said so.

``ensure N``: exactly N pods stand, and answer, when it returns. ``create N``: N pods are Ready, from none, and timed
since the API told of the first of them. ``remove``: all go, timed since the API told that the first is to. ``calls``:
what the kubelet has asked its runtime for, once all pods that stand answer. ``clock``: how far the conductor's clock is
ahead of this machine's. ``evidence``: what there is to say when pods fail.
"""

import json
import queue
import re
import subprocess
import sys
import threading
import time

LABEL = "infrabench-population"
CREATE = ("run_podsandbox", "create_container", "start_container")
SERIES = "kubelet_runtime_operations_duration_seconds"
REMOVE = ("stop_container", "stop_podsandbox")
WATCH_S = 0.3  # until a watch is there: kubectl takes a third of it
ASK_S = 30
# $0: the file of the list; $1: how many pods are in it; $2: "all" have to answer, or nothing.
GREET = """
cat >"$0.part" && mv "$0.part" "$0" || exit 1
tries=0
until said=$(ib-pods hello -n "$1" --list "$0" 2>&1) || [ -z "$2" ]; do
  tries=$((tries + 1)); [ $tries -lt 25 ] || { echo "$said" | grep -v '"error": null' >&2; exit 1; }
  sleep 0.2
done
echo "$said"
"""
# Says that it is there, answers one line, and tells the next second as it begins: no `date` that pods have tells less.
TICK = 'echo && read -r _ && echo && s=$(date +%s) && while [ "$(date +%s)" = "$s" ]; do :; done && date +%s'
LONGEST = 160  # of a complaint: its end says most
LAST = 3  # lines of a runtime's log
COMPLAINT = re.compile(r"level=(?:warning|error|fatal)")  # as containerd and CRI-O begin a line


def main(config, verb, count):
    cluster = Population(config)
    if verb == "evidence":
        sys.stdout.write(cluster.evidence())
        return
    verbs = {"ensure": cluster.ensure, "create": cluster.create, "remove": cluster.remove}
    verbs |= {"calls": cluster.calls, "clock": cluster.clock}
    sys.stdout.write(json.dumps({"verb": verb, **verbs[verb](count)}))


class Failed(Exception):
    """What the pods did not do; `known` is what is known of them."""

    def __init__(self, why, known):
        super().__init__(why)
        self.known = known


class Population:
    """The pods of one node that bear our label."""

    def __init__(self, config):
        self.config = config
        self.kubectl = [*config["kubectl"], f"--namespace={config['namespace']}"]
        self.path = f"/api/v1/namespaces/{config['namespace']}/pods?labelSelector={LABEL}"

    def run(self, *argv, stdin=None, timeout_s=ASK_S):
        done = subprocess.run([*self.kubectl, *argv], input=stdin, capture_output=True, text=True, timeout=timeout_s)
        if done.returncode:
            raise Failed(f"kubectl {argv[0]}: {done.stderr.strip()[-400:]}", {})
        return done.stdout

    def list_pods(self):
        return {each["metadata"]["name"]: each for each in json.loads(self.run("get", "--raw", self.path))["items"]}

    def ensure(self, count):
        begun_s, found = time.time(), self.list_pods()
        wanted = set(names(count))
        good = {name for name, pod in found.items() if name in wanted and stands(pod)}
        good -= self.find_silent({name: address(found[name]) for name in good})
        going, missing = found.keys() - good, wanted - good
        if going:
            self.delete_pods(going)
        if missing:
            self.create_pods(sorted(missing))
            now = self.list_pods()
            self.tell({name: address(now[name]) for name in wanted})
        counts = {"count": count, "made": len(missing), "removed": len(going)}
        return {**counts, "begun_s": begun_s, "done_s": time.time()}

    def create(self, count):
        if self.list_pods():
            raise Failed("pods stand already: a creation is timed from none", {})
        begun_s, ready = self.create_pods(names(count))
        pods = [{"name": name, "address": address(pod), "ready_s": at_s} for name, (at_s, pod) in sorted(ready.items())]
        done_s = max(each["ready_s"] for each in pods)
        return {"count": count, "begun_s": begun_s, "done_s": done_s, "pods": pods}

    def calls(self, _):
        found = self.list_pods()
        if found:
            self.tell({name: address(pod) for name, pod in found.items()})
        return {"count": len(found), "cri": self.operations(CREATE)}

    def clock(self, _):
        argv = [*self.kubectl, "exec", "--stdin", self.config["conductor"], "--", "sh", "-c", TICK]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            asked_s = time.time()
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
            round_trip_s = time.time() - asked_s
            second, at_s = process.stdout.readline(), time.time()
        if not second:
            raise Failed("the conductor does not tell the time", {})
        return {"offset_s": float(second) + round_trip_s / 2 - at_s, "round_trip_s": round_trip_s}

    def remove(self, _):
        found = self.list_pods()
        before = self.operations(REMOVE)
        begun_s = done_s = time.time()
        gone = {}
        if found:
            begun_s, gone = self.delete_pods(found.keys())
            done_s = max(at_s for at_s, _ in gone.values())
        after = self.operations(REMOVE)
        pods = [{"name": name, "gone_s": at_s} for name, (at_s, _) in sorted(gone.items())]
        cri = {name: {key: after[name][key] - before[name][key] for key in ("count", "seconds")} for name in before}
        return {"count": len(found), "begun_s": begun_s, "done_s": done_s, "pods": pods, "cri": cri}

    def create_pods(self, wanted):
        """Create pods; return when the first was there, and by name when each was first seen Ready, and as what."""
        manifests = []
        for name in wanted:
            pod = json.loads(json.dumps(self.config["pod"]))
            pod["metadata"]["name"] = name
            pod["metadata"].setdefault("labels", {})[LABEL] = "yes"
            manifests.append(pod)
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        with Watch(self, len(wanted)) as watch:
            self.run("create", "--filename=-", stdin=text, timeout_s=ASK_S + len(wanted))
            begun_s, ready, left = watch.until(
                is_new, lambda kind, pod: kind != "DELETED" and is_well(pod), set(wanted)
            )
        if left:
            kinds = self.complaints(left)
            first = "; ".join(kind[0] for kind in kinds if kind)
            raise Failed(
                f"{len(left)} of {len(wanted)} pods are not Ready after {watch.limit_s:.0f} s: {first}",
                {"ready": sorted(ready), "left": sorted(left), "why": [each for kind in kinds for each in kind]},
            )
        return begun_s, ready

    def delete_pods(self, going):
        """Remove pods; return when the first was to go, and by name when each was gone."""
        with Watch(self, len(going)) as watch:
            argv = ("delete", "pods", "--wait=false", "--ignore-not-found", *sorted(going))
            self.run(*argv, timeout_s=ASK_S + len(going))
            begun_s, gone, left = watch.until(is_going, lambda kind, _: kind == "DELETED", set(going))
        if left:
            # They are taken from the API at least: the next ones must be able to come.
            self.run("delete", "pods", "--force", "--grace-period=0", "--wait=false", *argv[3:4], *sorted(left))
            raise Failed(
                f"{len(left)} of {len(going)} pods were not gone after {watch.limit_s:.0f} s",
                {"left": sorted(left)},
            )
        return begun_s, gone

    def find_silent(self, addresses):
        """Leave the list of addresses in the conductor, and return the names of those that do not answer it.

        Not every pod that was frozen for minutes does, whatever its kubelet says of it.
        """
        if not addresses:
            return set()
        rows = [json.loads(line) for line in self.ask_conductor("", addresses).splitlines()]
        return {row["name"] for row in rows if row.get("error")}

    def tell(self, addresses):
        """Leave the list of addresses in the conductor, and return when every pod answers it.

        A pod is Ready as soon as its runtime says that it was started, which may be before its program runs.
        """
        self.ask_conductor("all", addresses)

    def ask_conductor(self, which, addresses):
        """Return what the conductor says of pods by name and address."""
        text = "".join(f"{name} {where}\n" for name, where in sorted(addresses.items()))
        words = (self.config["list"], str(len(addresses)), which)
        argv = ("exec", "--stdin", self.config["conductor"], "--", "sh", "-c", GREET, *words)
        return self.run(*argv, stdin=text, timeout_s=3 * ASK_S)

    def operations(self, kinds):
        """Return how often, and for how many seconds in all, the kubelet has asked its runtime for each operation."""
        text = self.run("get", "--raw", f"/api/v1/nodes/{self.config['node']}/proxy/metrics")
        found = {}
        for name in kinds:
            label = re.escape(f'{{operation_type="{name}"}}')
            values = [re.search(rf"^{SERIES}_{kind}{label} (\S+)$", text, re.MULTILINE) for kind in ("count", "sum")]
            # A kubelet has no series before the first operation of its kind.
            count, seconds = (float(value.group(1)) if value else 0.0 for value in values)
            found[name] = {"count": count, "seconds": seconds}
        return found

    def complaints(self, left):
        """Return what is known of pods that are not Ready, what says most first.

        Three lists: the warnings on them, the last complaints of their node's runtime, their containers' states (which
        are "ContainerCreating" whatever the cause).
        """
        warnings, states = {}, {}
        events = json.loads(self.run("get", "events", "--field-selector=type=Warning", "--output=json"))["items"]
        for event in events:
            if event["involvedObject"].get("name") in left:
                warnings.setdefault(event["message"].strip(), set()).add(event["involvedObject"]["name"])
        for name, pod in self.list_pods().items():
            for each in pod["status"].get("containerStatuses", ()):
                for state in each.get("state", {}).values():
                    if name in left and state.get("reason"):
                        states.setdefault(f"{state['reason']} {state.get('message', '')}".strip(), set()).add(name)
        counted = [
            [f"{len(names)} of them: {why[-LONGEST:]}" for why, names in reasons.items()]
            for reasons in (warnings, states)
        ]
        return counted[0], [f"the runtime: {line[-LONGEST:]}" for line in self.log_complaints()], counted[1]

    def log_complaints(self):
        """Return the last lines of the runtime's logs, the latest first: warnings and errors where there are any."""
        found = []
        for log in self.config["logs"]:
            try:
                lines = [each.strip() for each in self.run(*self.log(log)).splitlines() if each.strip()]
            except (Failed, subprocess.TimeoutExpired):  # not every kubelet shows them
                continue
            found += ([each for each in lines if COMPLAINT.search(each)] or lines)[: -LAST - 1 : -1]
        return found

    def log(self, name):
        return "get", "--raw", f"/api/v1/nodes/{self.config['node']}/proxy/logs/{name}"

    def evidence(self):
        commands = [("get", "pods", "--output=wide"), ("get", "events", "--sort-by=.lastTimestamp")]
        commands += [self.log(name) for name in self.config["logs"]]
        parts = []
        for argv in commands:
            try:
                said = self.run(*argv)
            except (Failed, subprocess.TimeoutExpired) as error:
                said = str(error)
            parts += [f"# kubectl {' '.join(argv)}", *said.splitlines()[-120:], ""]
        return "\n".join(parts)


class Watch:
    """What the API says of our pods, as it says it."""

    def __init__(self, population, count):
        self.population = population
        self.limit_s = population.config["wait_s"] + count * population.config["wait_s_per_pod"]
        self.events = queue.Queue()

    def __enter__(self):
        path = self.population.path + f"&watch=1&timeoutSeconds={self.limit_s + 60:.0f}"
        argv = [*self.population.kubectl, "get", "--raw", path]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        threading.Thread(target=self.read, daemon=True).start()
        time.sleep(WATCH_S)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def read(self):
        for line in self.process.stdout:
            self.events.put((time.time(), line))
        self.events.put(None)

    def until(self, begins, true, awaited):
        """Return when it began for the first of `awaited`, when each was first so, with its pod, and who never was.

        None for the begin where the API did not tell it of each: then the watch came after it.
        """
        begun, found, deadline = {}, {}, time.monotonic() + self.limit_s
        while awaited - found.keys():
            try:
                row = self.events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if row is None:
                raise Failed("the API ended its watch", {})
            at_s, event = row[0], json.loads(row[1])
            kind, pod = event["type"], event["object"]
            name = pod.get("metadata", {}).get("name")
            if name in awaited and begins(kind, pod):
                begun.setdefault(name, at_s)
            if name in awaited and name not in found and true(kind, pod):
                found[name] = (at_s, pod)
        return min(begun.values()) if begun.keys() == awaited else None, found, awaited - found.keys()


def names(count):
    return [f"pod-{number + 1:03d}" for number in range(count)]


def is_new(kind, pod):
    """Tell whether an event is that of a pod's creation: no kubelet has spoken of it yet."""
    return kind == "ADDED" and "startTime" not in pod["status"]


def is_going(kind, pod):
    """Tell whether an event says that a pod is to go; a watch begins with those that are there, as added."""
    return kind != "ADDED" and "deletionTimestamp" in pod["metadata"]


def is_well(pod):
    """Tell whether a pod is Ready, was never restarted, and stays."""
    states = pod["status"].get("conditions", ())
    return stands(pod) and any(each["type"] == "Ready" and each["status"] == "True" for each in states)


def stands(pod):
    """Tell whether a pod runs, was never restarted, and stays.

    After a node was frozen its pods may not be called Ready for some seconds, although they never stopped.
    """
    containers = pod["status"].get("containerStatuses", ())
    runs = pod["status"].get("phase") == "Running" and not any(each["restartCount"] for each in containers)
    return runs and "deletionTimestamp" not in pod["metadata"]


def address(pod):
    return pod["status"]["podIP"]


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    except Failed as error:
        sys.stdout.write(json.dumps({"verb": sys.argv[2], "failed": str(error), **error.known}))
        sys.exit(str(error))
    except subprocess.TimeoutExpired as error:
        sys.exit(f"kubectl did not answer within {error.timeout:.0f} s: {error.cmd[-3:]}")
