"""`scripts/structure` on a small package: rooms, floors, a circle, and every place where an import can stand."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import matplotlib.font_manager  # noqa: F401  # its first import of a run asks fc-list, which no test of the gate may
import pytest

from tests.support.places import ROOT
from tests.support.scripts import load_script

FILES = {
    "__init__.py": '"""A shop."""\n',
    "words.py": '"""The words.\n\nMore of them."""\nimport json\n',
    "store/__init__.py": '"""Where goods lie."""\n',
    "store/shelf.py": "from ..words import good\nfrom . import box\nfrom shop.store.box import lid\n",
    "store/box.py": "def close():\n    import shop.words\n",
    "price.py": "import typing\nif typing.TYPE_CHECKING:\n    from shop import sale\nfrom shop.store import shelf\n",
    "sale.py": "def sell():\n    from .price import cost\n",
    "till/deep/__init__.py": "from ...sale import sell\n",
    "till/deep/drawer.py": "from shop import VERSION, words\nimport shopping.words\nfrom . import key\n",
    "papers/note.txt": "import shop.till\n",
}


@pytest.fixture(scope="module")
def structure() -> Any:
    return load_script("structure")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / "lib/shop" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib/shop" / name).write_text(text)
    (tmp_path / "lib/tests").mkdir()
    (tmp_path / "lib/tests/test_shop.py").write_text("import shop\n\n")
    return tmp_path / "lib/shop"


def test_a_room_is_what_stands_at_the_top(structure: Any, shop: Path) -> None:
    rooms, _ = structure.read_rooms(shop)
    assert {name: tuple(room) for name, room in rooms.items()} == {
        "__init__": ("A shop.", 1, 1),
        "words": ("The words.", 1, 4),
        "store": ("Where goods lie.", 3, 6),
        "price": ("", 1, 4),
        "sale": ("", 1, 2),
        "till": ("", 2, 4),
    }


def test_imports_count_wherever_they_stand(structure: Any, shop: Path) -> None:
    assert structure.read_rooms(shop)[1] == {
        "__init__": set(),
        "words": set(),
        "store": {"words"},
        "price": {"sale", "store"},
        "sale": {"price"},
        "till": {"__init__", "sale", "words"},
    }


def test_floors_are_the_longest_chains_and_a_circle_shares_one(structure: Any, shop: Path) -> None:
    floors, circles = structure.find_floors(structure.read_rooms(shop)[1])
    assert floors == {"__init__": 1, "words": 1, "store": 2, "price": 3, "sale": 3, "till": 4}
    assert {circle for circle in circles.values() if len(circle) > 1} == {frozenset({"price", "sale"})}


def test_the_description_names_rooms_floors_circles_and_counts(structure: Any, shop: Path) -> None:
    lines = structure.describe(shop, shop.parent / "tests").splitlines()
    assert [line for line in lines if line.startswith("floor")] == ["floor 4", "floor 3", "floor 2", "floor 1"]
    store = lines[lines.index("floor 2") + 1]
    assert store.split(None, 5) == ["store", "3", "modules", "6", "lines", "Where goods lie."]
    assert lines[lines.index("") + 1 :] == [
        "6 rooms on 4 floors, 7 arrows",
        "circle: price, sale",
        "arrows upward: 2",
        "  price -> sale",
        "  sale -> price",
        "lib/shop: 21 lines of Python in 9 modules, each imports 1.6 names; 2 functions of 2.0 lines",
        "lib/tests: 2 lines of Python in 1 modules, each imports 1.0 names; 0 functions of 0.0 lines",
        "product: 21 lines of Python in 1 packages",
    ]


def test_a_package_beside_it_with_its_name_is_a_room(structure: Any, shop: Path) -> None:
    beside = shop.parent / "shop_van"
    (beside / "engine").mkdir(parents=True)
    (beside / "__init__.py").write_text('"""What carries goods."""\n')
    (beside / "engine/start.py").write_text("from shop.store import box\nfrom shop_van import engine\n")
    (shop / "till/deep/__init__.py").write_text("def send():\n    from shop_van.engine import start\n")
    rooms, arrows = structure.read_rooms(shop)
    assert tuple(rooms["van"]) == ("What carries goods.", 2, 3)
    assert arrows["van"] == {"store"}
    assert arrows["till"] == {"__init__", "van", "words"}
    assert "lib/shop_van: 3 lines of Python in 2 modules" in structure.describe(shop, shop.parent / "tests")


def test_commands_at_the_top_are_counted_and_those_of_a_group_are_not(structure: Any, tmp_path: Path) -> None:
    (tmp_path / "lab.py").write_text(
        'group = add_group(subparsers, "lab")\nadd_command(group, "up")\nadd_command(subparsers, "run")\nprint(1)\n'
    )
    assert structure.count_commands(tmp_path) == 2


def test_without_a_circle_no_arrow_leads_upward(structure: Any, shop: Path) -> None:
    (shop / "sale.py").write_text("")
    text = structure.describe(shop, shop.parent / "tests")
    assert "arrows upward: none" in text
    assert "circle" not in text


def test_the_picture_has_every_room_and_arrow_and_is_the_same_each_time(
    structure: Any, shop: Path, tmp_path: Path
) -> None:
    for name in ("one.svg", "two.svg"):
        structure.draw(shop, tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    shown = [each.text for each in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
    assert set(structure.read_rooms(shop)[0]) <= set(shown)
    assert "3 modules, 6 lines" in shown
    assert text.count("stroke: #c1121f") == 2 * 2  # an arrow is a line and its head
    assert text.count("stroke: #3d5a80") == 6 + 2 * 4  # till reaches words in a longer way too: pale
    assert text.count("stroke: #d3d8e0") == 2


def test_anybody_can_run_it_on_the_library() -> None:
    # -I -S: the standard library alone
    argv = [sys.executable, "-I", "-S", ROOT / "scripts/structure"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    assert "lib/infrabench: " in done.stdout
    assert any(line.split()[:1] == ["stats"] for line in done.stdout.splitlines())
