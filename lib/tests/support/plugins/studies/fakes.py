"""A study for tests."""

from infrabench.core import Case, Guards, Limits, Profile, Study

STUDY = Study(
    name="fakes",
    title="A study of nothing",
    baseline="fake-base",
    guards=Guards(None, None, None, None),  # what fakes do must not depend on how busy this machine is
    systems=("fake-base", "fake-other"),
    profiles={
        "tiny": Profile(
            3,
            (
                Case("fake", "value=1", {"value": 1.0}, "value", 1, 0.01),
                Case("fake", "value=2", {"value": 2.0}, "value", 2, 0.01),
            ),
        ),
        "broken": Profile(
            1,
            tuple(
                Case("fake", f"does={does}", {"does": does}, None, None, 0.01)
                for does in ("ok", "fail", "hang", "garbage", "half", "nothing", "nan", "mistake")
            ),
        ),
    },
    limits=Limits(),
    primary=(("fake", "value"),),
    margins={"": 0.02},
    probe_s=0,
)
