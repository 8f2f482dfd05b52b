"""The project in which campaigns are tested."""

from tests.support.campaigns import home, inventory, written

__all__ = ["home", "inventory", "written"]
