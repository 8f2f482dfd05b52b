"""Studies: one declarative file each, its name is the study's. `STUDY` is a `core.Study`."""
