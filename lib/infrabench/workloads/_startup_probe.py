"""Runs on a system's host as ``python3 -c SOURCE JSON`` and prints one JSON object. Standard library only.

The host may have an older Python than we do, so this stays within 3.8.
"""

import http.client
import json
import subprocess
import sys
import time

PAUSE_S = 0.002
ANSWER_S = 1.0  # for one try to get the page


def command(argv, seconds):
    """Run `argv` and return its status and the end of what it said; the status of a hang is None."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=max(seconds, 0.1)
        )
    except subprocess.TimeoutExpired:
        return None, "no end"
    return done.returncode, done.stdout[-400:].decode("utf-8", "replace")


def until_ok(argv, deadline):
    """Run `argv` until it succeeds and return the number of tries; exits when `deadline` has passed."""
    tries = 0
    while True:
        tries += 1
        status, said = command(argv, deadline - time.monotonic())
        if status == 0:
            return tries
        if time.monotonic() >= deadline:
            sys.exit(f"{' '.join(argv[:6])} did not succeed in {tries} tries: {status} {said}")
        time.sleep(PAUSE_S)


def page(asked, deadline):
    """Ask for the page until it comes and return its status and size; exits when `deadline` has passed."""
    while True:
        connection = http.client.HTTPConnection(asked["address"], asked["port"], timeout=ANSWER_S)
        try:
            connection.request("GET", asked["path"])
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == 200 and len(body) == asked["bytes"]:
                return answer.status, len(body)
            problem = f"status {answer.status}, {len(body)} bytes"
        except (OSError, http.client.HTTPException) as error:
            problem = repr(error)
        finally:
            connection.close()
        if time.monotonic() >= deadline:
            sys.exit(f"no page from {asked['address']} port {asked['port']}: {problem}")
        time.sleep(PAUSE_S)


def main(asked):
    begin = time.monotonic()
    deadline = begin + asked["limit_s"]
    times = {}
    for name in ("import", "create"):
        if name in asked:
            status, said = command(asked[name], deadline - time.monotonic())
            if status != 0:
                sys.exit(f"{name} ended with {status}: {said}")
            times[f"{name}_s"] = time.monotonic() - begin
    tries = until_ok([*asked["exec"], "true"], deadline)
    first_command_s = time.monotonic() - begin
    try:
        # An instance that is still booting may mount over what the start has made: it is started until it says so.
        starts = until_ok([*asked["exec"], *asked["start"]], deadline)
        http_status, http_bytes = page(asked, deadline)
        service_s = time.monotonic() - begin
    finally:
        command([*asked["exec"], *asked["stop"]], 30)
    found = {
        **times,
        "first_command_s": first_command_s,
        "service_s": service_s,
        "exec_tries": tries,
        "start_tries": starts,
        "http_status": http_status,
        "http_bytes": http_bytes,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
