"""Draw one figure of a session, and print what it says: first_figure.py [SESSION [WORKLOAD METRIC]]."""

import sys
from pathlib import Path

import infrabench as ib
from infrabench.analysis.figures import View, points, save
from infrabench.analysis.results import sentence

session, workload, metric = (
    *sys.argv[1:],
    *("lab-quick-2026-11-rounds", "sysbench-cpu", "events_per_s")[len(sys.argv) - 1 :],
)
measured = ib.open_session(session)
estimates, contrasts = ib.estimates(measured), ib.contrasts(measured)

for row in contrasts.itertuples():
    if (row.workload, row.metric) == (workload, metric):
        print(sentence(row))

frames = {"table": measured.table, "estimates": estimates, "contrasts": contrasts}
drawn = points(View(workload, metric, systems=measured.data["systems"], **frames))
name, shown = (
    f"{measured.folder.name}-{workload}",
    {"workload": workload, "metric": metric},
)
for path in save(drawn.figure, Path("out/figures"), name, measured.table, shown):
    print(path)
