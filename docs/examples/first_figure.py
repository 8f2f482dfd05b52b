"""Draw one figure of a session, and print what it says: first_figure.py [SESSION [WORKLOAD METRIC]]."""

import sys

import infrabench as ib
from infrabench.analysis.results import sentence

session, workload, metric = (
    *sys.argv[1:],
    *("lab-quick-debian13-containers", "sysbench-cpu", "events_per_s")[len(sys.argv) - 1 :],
)
results = ib.results(ib.open_session(session))

for row in results.contrasts.itertuples():
    if (row.workload, row.metric) == (workload, metric):
        print(sentence(row))

ib.figure(results, "points", workload, metric)
written = results.folder / "figures" / results.name
for path in sorted(written.glob(f"points-{workload}-{metric}.*")):
    print(path)

# The same as a journal's column, of two systems that are called as a paper calls them:
chosen = [name for name in ("native", "docker") if name in results.systems]
labels = {name: name.capitalize() for name in chosen}
ib.figure(
    results,
    "points",
    workload,
    metric,
    systems=chosen,
    labels=labels,
    width="column",
    path="out/for-a-paper.pdf",
)
