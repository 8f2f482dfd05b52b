"""A study of seconds, for campaigns under test."""

from infrabench.core import Case, Guards, Limits, Profile, Study

STUDY = Study(
    name="camp",
    title="What does a sleep take?",
    baseline="plain",
    guards=Guards(None, None, None, None),
    systems=("plain",),
    profiles={
        "few": Profile(3, (Case("nap", "short", {"seconds": 0.1}, seconds=0.2),)),
        "many": Profile(6, (Case("nap", "long", {"seconds": 0.7}, seconds=0.8),)),
    },
    limits=Limits(),
    primary=(("nap", "value"),),
    margins={"": 0.02},
    probe_s=0,
)
