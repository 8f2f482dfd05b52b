"""A lab that is up already is what a session finds: it is looked at before it is used."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from infrabench.core import ProvisionError
from infrabench_platforms import lab
from infrabench_platforms.lab import images, network, nodes
from tests.support.cluster_fakes import Scripted


@pytest.mark.parametrize("status", [0, 1])
def test_a_lab_is_used_while_its_nodes_are_linked(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def answer(argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes]:
        asked.append(argv)
        return status, b""

    changes: dict[Any, dict[str, Any]] = {
        lab: {"require": lambda: None, "locked": lambda **_: nullcontext(), "_matches": lambda *_: True,
              "_answers": lambda: True, "facts": lambda: {"nodes": {}}},
        network: {"check_owner": lambda: None},
        images: {"make": lambda kind, say: images.Image(kind, "0", tmp_path)},
        nodes: {"host": lambda node: Scripted(answer=answer, name=node.role)},
    }  # fmt: skip
    for module, names in changes.items():
        for name, instead in names.items():
            monkeypatch.setattr(module, name, instead)
    if status:
        with pytest.raises(ProvisionError, match="client of the lab cannot reach another node"):
            lab.up(keep=False)
    else:
        assert lab.up(keep=False) == {"nodes": {}}
    assert [argv[-1] for argv in asked] == [nodes.SERVER.address]
