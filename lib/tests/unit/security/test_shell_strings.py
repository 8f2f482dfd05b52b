"""No shell string is built from a parameter, anywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.machines.hosts.host import LocalHost
from tests.support.checks import check_each
from tests.support.places import LIB, ROOT, files_of_packages
from tests.support.shell_strings import package, violations

FILES = files_of_packages()
# SSH itself carries one string: these quote every word of an argument list for it.
QUOTING = {"infrabench/machines/hosts/host.py", "infrabench/machines/hosts/remote_shell.py"}
SHOWING = {"infrabench/machines/sites/prepare/plan.py"}  # prints commands as people type them, and runs none
# Parts of objects that are declared as constants, at the top of modules, and texts of our files that are read once.
DECLARED = {"infrabench_platforms/clusters/cni.py": {"test"}, "infrabench/core/workloads.py": {"SCRIPTS[path]"}}


def _name(path: Path) -> str:
    return path.relative_to(LIB).as_posix()


def test_the_list_of_files_finds_them() -> None:
    assert len(FILES) > 300
    assert {_name(path) for path in FILES} >= {*QUOTING, *SHOWING, *DECLARED}


def test_what_a_shell_gets_is_a_constant() -> None:
    def check(path: Path) -> list[str]:
        allowed = DECLARED.get(_name(path), set())
        module = ".".join(path.relative_to(LIB).with_suffix("").parts)
        return [each for each in violations(module, package(LIB)) if each.rpartition(": ")[2] not in allowed]

    check_each(check, FILES, _name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nos.system('ls')", "calls system"),
        ("import subprocess\nsubprocess.run('ls', shell=True)", "asks for a shell"),
        ("import subprocess\ndef f(x):\n    subprocess.run(x, shell=x)", "asks for a shell"),
        ("def f(h, x):\n    h.run(('sh', '-c', f'ls {x}'))", "not a constant: f'ls {x}'"),
        ("def f(h, x):\n    h.run(['bash', '-ec', 'ls ' + x])", "not a constant"),
        ("def f(h, x):\n    h.run('sh', '-c', 'ls %s' % x)", "not a constant"),
        ("def f(h, x):\n    h.run(('sh', '-c', 'ls {}'.format(x)))", "not a constant"),
        ("def f(h, x):\n    a = 'ls'\n    a += x\n    h.run(('sh', '-c', a))", "not a constant: a"),
        ("def f(h, xs):\n    for x in xs:\n        h.run(('sh', '-c', x))", "not a constant: x"),
        ("A = input()\ndef f(h):\n    h.run(('sh', '-c', A))", "not a constant: A"),
        ("def f(h, x):\n    script(h, f'ls {x}', 'a')", "hands script what is not a constant"),
        ("from infrabench.other import _T\ndef f(h):\n    h.run(('sh', '-c', _T))", "not a constant: _T"),
        ("def f(h, x):\n    h.run(('python3', '-c', 'print(%r)' % x))", "hands python3"),
    ],
)
def test_the_rule_can_be_broken(text: str, said: str) -> None:
    sources = {"infrabench.new": text, "infrabench.other": "import os\n_T = os.environ['T']"}
    found = violations("infrabench.new", sources.get)
    assert len(found) == 1
    assert said in found[0]


def test_only_ssh_is_handed_a_quoted_line() -> None:
    def check(path: Path) -> list[str]:
        lines = [(at, line) for at, line in enumerate(path.read_text().splitlines(), 1) if "shlex" in line]
        if _name(path) not in QUOTING | SHOWING:
            return [f"line {at} may not use shlex: {line.strip()}" for at, line in lines]
        wrong = [(at, line) for at, line in lines if re.search(r"shlex\.(?!join|split)", line)]
        return [f"line {at} neither joins nor splits: {line.strip()}" for at, line in wrong]

    check_each(check, FILES, _name)


def test_programs_in_c_call_no_shell() -> None:
    sources = [*files_of_packages("*.c"), *files_of_packages("*.h")]
    assert len(sources) > 10
    assert [path.name for path in sources if re.search(r"\b(system|popen)\s*\(", path.read_text())] == []


def test_scripts_evaluate_nothing() -> None:
    ours = [path for path in files_of_packages("*") if path.suffix in {".sh", ".py"}]
    scripts = [*ours, *(ROOT / "scripts").iterdir()]
    assert [path.name for path in scripts if re.search(r"(^|[;&|]\s*|\bthen )eval ", path.read_text(), re.M)] == []


@given(st.lists(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_arguments_arrive_as_they_were_given(words: list[str]) -> None:
    """Whatever is in them: quotes, newlines, substitutions."""
    script = 'for each in "$@"; do printf "%s\\0" "$each"; done'
    result = LocalHost().run(("sh", "-c", script, "sh", *words), timeout_s=30)
    assert result.stdout == b"".join(word.encode() + b"\0" for word in words)
