"""Load an exported session into SQLite: to_sqlite.py FILE.csv DATABASE.

Types, missing values and how to average are taken from its data package, with the
standard library alone: the same works for any database.
"""

import csv
import json
import sqlite3
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path

TYPES = {"string": "TEXT", "datetime": "TEXT", "integer": "INTEGER", "number": "REAL"}
MEANS = """
    SELECT workload, scenario, system, metric, unit, count(*) AS n,
        CASE average WHEN 'mean' THEN avg(value) ELSE count(*) / sum(1 / value) END
    FROM trials JOIN metrics USING (workload, scenario, metric)
    WHERE workload = 'web' AND metric = 'requests_per_s'
    GROUP BY workload, scenario, system, metric, unit, average
"""

file, database = map(Path, sys.argv[1:])
package = json.loads(Path(f"{file}.datapackage.json").read_text(encoding="utf-8"))
(resource,) = package["resources"]
if resource["hash"] != f"sha256:{sha256(file.read_bytes()).hexdigest()}":
    sys.exit(f"{file} is not the file that its data package describes: export it again")

columns, meanings = [], []
for field in resource["schema"]["fields"]:
    required = " NOT NULL" if field.get("constraints", {}).get("required") else ""
    columns.append(f"{field['name']} {TYPES[field['type']]}{required}")
    meanings.append((field["name"], field.get("unit"), field["description"]))
metrics = [
    (each["workload"], scenario, each["metric"], each["average"])
    for each in package["infrabench"]["metrics"]
    for scenario in each["scenarios"]
]
with file.open(encoding="utf-8", newline="") as text:
    _, *rows = csv.reader(text)
missing = resource["schema"]["missingValues"]
trials = [[None if cell in missing else cell for cell in row] for row in rows]

tables = {
    "trials": (columns, trials),
    "metrics": (
        ("workload TEXT", "scenario TEXT", "metric TEXT", "average TEXT"),
        metrics,
    ),
    "dictionary": (("name TEXT", "unit TEXT", "meaning TEXT"), meanings),
}
with closing(sqlite3.connect(database)) as connection, connection:
    for name, (columns, rows) in tables.items():
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    for *case, metric, unit, count, mean in connection.execute(MEANS):
        print(f"{' '.join(case)}: {metric} {mean:.1f} {unit}, n = {count}")
