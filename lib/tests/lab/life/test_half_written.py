"""What is written while the lab comes up is whole or not there, whenever its process is killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infrabench.core import SiteError
from infrabench_platforms import lab


class Killed(BaseException):
    """The end of a process that nothing catches."""


def test_a_lab_whose_maker_is_killed_while_it_notes_its_facts_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = lab.images.Image("node", "x", tmp_path)
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    for where, name, put in (
        (lab, "require", lambda: None),
        (lab, "_remove", lambda holder, say: None),
        (lab, "_start", lambda guest, node: lab.lab_dir().mkdir(exist_ok=True)),
        (lab.images, "make", lambda kind, say: image),
        (lab.network, "check_owner", lambda: None),
    ):
        monkeypatch.setattr(where, name, put)

    def kill(source: str, target: str) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", kill)
        with pytest.raises(Killed):
            lab.up()
    with pytest.raises(SiteError, match="the lab is not up"):
        lab.facts()
    assert not lab._matches(image, image)
    lab.up()
    assert lab.facts() == lab._facts(image, image)
