"""The study of the storm: short trials, one that is long enough to be killed, one that says much."""

from infrabench.core import Case, Guards, Limits, Profile, Study

CASES = (
    Case("count", "soon", {"value": 3}, None, None, 0.02),
    Case("count", "late", {"value": 5, "seconds": 0.1}, None, None, 0.15),
    Case("count", "much", {"value": 7, "bytes": 300_000}, None, None, 0.05),
)
STUDY = Study(
    name="storm",
    title="What is left after a storm",
    baseline="den-one",
    systems=("den-one", "den-two"),
    profiles={"storm": Profile(4, CASES)},
    limits=Limits(),
    primary=(("count", "value"),),
    margins={"": 0.02},
    guards=Guards(None, None, None, None),  # what is asked here must not depend on how busy this machine is
    probe_s=0.01,
)
