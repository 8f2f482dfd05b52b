"""What a host says of itself: its answers are read strictly, shown safely, and asked without changing anything."""

from __future__ import annotations

import getpass
import os
import platform
import resource
from pathlib import Path

from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.prepare import plan
from infrabench.machines.sites.prepare.requirements import File, GuestFiles, Needs


def test_this_machine_says_the_truth(tmp_path: Path) -> None:
    """The script itself, run here: what is there, what is not, and who we are."""
    (tmp_path / "closed").mkdir(mode=0o500)
    needs = Needs(
        programs={"sh": "dash", "no-such-program": "x", "/etc/passwd": "base-passwd", "/etc/no-such-file": "y"},
        modules={"/dev/null": "null", "/dev/no-such-device": "none"},
        folders=(str(tmp_path), str(tmp_path / "absent"), str(tmp_path / "closed"), "/etc/passwd"),
    )  # fmt: skip
    before = sorted(tmp_path.rglob("*"))
    ours = GuestFiles(tuple(File(path, 0o644, b"") for path in ("/etc/passwd", "/etc/no-such-file")))
    found = plan.survey_host(plan.HostPlan("here", LocalHost("here"), needs, ours))
    closed = set() if os.geteuid() == 0 else {str(tmp_path / "closed")}
    assert found.absent == {
        "no-such-program", "/etc/no-such-file", "/dev/no-such-device", str(tmp_path / "absent"), "/etc/passwd", *closed,
    }  # fmt: skip
    assert found.login == getpass.getuser()
    assert (found.root == "yes") == (os.geteuid() == 0)
    assert (found.machine, found.kernel) == (platform.machine(), platform.release())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert found.nofile == (float("inf") if hard == resource.RLIM_INFINITY else hard)
    assert set(found.hashes) - {plan.LIMITS} == {"/etc/passwd"}
    if found.architecture:
        assert found.installed["dpkg"]
    assert sorted(tmp_path.rglob("*")) == before
