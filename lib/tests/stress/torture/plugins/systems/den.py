"""The systems of the storm, see `dens`."""

from tests.stress.torture.dens import Den

FAMILY = {"den-one": Den("den-one"), "den-two": Den("den-two")}
