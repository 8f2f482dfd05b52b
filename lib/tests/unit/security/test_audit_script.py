"""What `make audit` finds in a lock, with advisories made up for it; the services themselves are asked by hand."""

from __future__ import annotations

import runpy

import pytest

from tests.support.places import ROOT

AUDIT = runpy.run_path(str(ROOT / "scripts/audit"), run_name="audit")
LOCK = "PyYAML==5.3 \\\n    --hash=sha256:00\njinja2==3.1.6 ; python_version < '4'\n    # via x\n"


def test_every_package_of_the_lock_is_read() -> None:
    assert AUDIT["locked"](LOCK) == {"pyyaml": "5.3", "jinja2": "3.1.6"}
    assert len(AUDIT["locked"]((ROOT / "lib/requirements.lock").read_text())) > 100


@pytest.mark.parametrize(
    ("specs", "found"), [(["<5.4"], 1), ([">=5.1,<=5.1.2", "==5.3"], 1), (["<5.3"], 0), ([">5.3a1"], 1)]
)
def test_an_advisory_counts_for_the_versions_that_it_names(specs: list[str], found: int) -> None:
    known = {"$meta": [], "PyYaml": [{"specs": specs, "cve": "CVE-1", "advisory": "x"}], "other": [{"specs": [">0"]}]}
    assert len(list(AUDIT["advised"](AUDIT["locked"](LOCK), known))) == found
