"""`scripts/mutants`: every kind of fault is planted where it belongs, and the verdict is that of the tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.scripts import load_script

SCRIPT = ROOT / "scripts/mutants"


@pytest.mark.parametrize(
    ("line", "planted"),
    [
        ("x = é < a", ["x = é <= a"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = a and b", ["x = a or b"]),
        ("x = not a", ["x = a"]),
        ("x = a + b", ["x = a - b"]),
        ("x = 7", ["x = 8"]),
        ("x = True", ["x = False"]),
        ("x = f(a, b)", ["x = f(a)"]),
        ("x = f(*a, b=c)", ["x = f(*a)"]),
        ("x = [a for a in b if c]", ["x = [a for a in b if True]"]),
        ("def f(): return a", ["def f():\n    return None"]),
        ("if a: pass", ["if True:\n    pass", "if False:\n    pass"]),
        ("try: pass\nexcept (A, B): pass", ["try:\n    pass\nexcept (A,):\n    pass"]),
        ("try: pass\nexcept A: pass", ["try:\n    pass\nexcept ():\n    pass"]),
        ("@f(a=1)\ndef f(a: g(1, 2)) -> g(3, 4): f'{1 + 2}'", []),
    ],
)
def test_faults_of_a_line(tmp_path: Path, line: str, planted: list[str]) -> None:
    (tmp_path / "module.py").write_text(line)
    faults = load_script("mutants").find_faults(str(tmp_path / "module.py"))
    assert [ast.unparse(ast.parse(source)) for *_, source in faults] == planted


def test_what_tests_notice_is_killed_and_the_work_tree_stays(tmp_path: Path) -> None:
    module = "def least(a, b):\n    return a if a < b else b\n"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    (tmp_path / "lib/module.py").write_text(module)
    (tmp_path / "lib/test_module.py").write_text("from module import least\ndef test(): assert least(1, 2) == 1\n")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    asked = ["lib/module.py", "--tests", "lib/test_module.py"]
    done = subprocess.run([sys.executable, SCRIPT, *asked], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "killed   lib/module.py:2: a < b -> False",
        "survived lib/module.py:2: a < b -> True",
        "survived lib/module.py:2: a < b -> a <= b",
        "killed   lib/module.py:2: a if a < b else b -> None",
        "2 of 4 killed; 4 could be drawn",
    ]
    assert (tmp_path / "lib/module.py").read_text() == module
