"""Draw one figure of a session, and print what it says: first_figure.py [SESSION [WORKLOAD METRIC]]."""

import sys
from pathlib import Path

import infrabench as ib
from infrabench.analysis.results import sentence
from infrabench.analysis.figures import points, save

session, workload, metric = (*sys.argv[1:], *("lab-quick-2026-11", "sysbench-cpu", "events_per_s")[len(sys.argv) - 1 :])
measured = ib.open_session(session)
estimates, contrasts = ib.estimates(measured), ib.contrasts(measured)

for row in contrasts.itertuples():
    if (row.workload, row.metric) == (workload, metric):
        print(sentence(row))

figure = points(measured.table, estimates, workload, metric, systems=measured.data["systems"], contrasts=contrasts)
name, shown = f"{measured.folder.name}-{workload}", {"workload": workload, "metric": metric}
for path in save(figure, Path("out/figures"), name, measured.table, shown):
    print(path)
