"""A study for tests whose tools say too much."""

from infrabench.core import Case, Guards, Limits, Profile, Study

STUDY = Study(
    name="talk",
    title="Who says what?",
    baseline="plain",
    guards=Guards(None, None, None, None),
    systems=("plain", "absent"),
    profiles={
        "smoke": Profile(
            2,
            (
                Case("talkative", "well", {}, None, None, 0.01),
                Case("talkative", "badly", {"fails": True}, None, None, 0.01),
            ),
        )
    },
    limits=Limits(),
    primary=(("talkative", "value"),),
    margins={"": 0.02},
    probe_s=0.1,
)
