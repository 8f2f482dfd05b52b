"""oltp: transactions on a MariaDB whose files lie on the store's volume, by sysbench.

MariaDB has defaults but for a small buffer pool, so that pages come from storage, and O_DIRECT, so that no page cache
stands before it: each transaction is flushed to the log when it commits (innodb_flush_log_at_trx_commit = 1). Its
tables are filled, it is stopped in good order, all caches are dropped, and it is started again: a trial begins cold.
sysbench runs ``test`` with its own defaults on ``threads`` connections for ``seconds``. Then every row is counted.

Metrics: ``transactions_per_s`` (as sysbench divides, by its own total time), ``queries_per_s``, ``latency_mean_s`` and
``latency_p95_s`` of transactions, ``errors_per_s`` (transactions that were rolled back for a deadlock and tried again),
how many ``errors`` that were, and ``cpu_percent`` of the machine, see `_volume`. A reconnection, or another number of
rows than was made, is refused.
"""

from __future__ import annotations

from infrabench.core.errors import DesignError, ParseError
from infrabench.core.hosts import Target
from infrabench.core.workloads import Capture, Measurements, Param, Params, Roles, Step, Steps, read_version
from infrabench.workloads import _volume, sysbench_cpu
from infrabench.workloads._parse import MIB, NUMBER, Field, equal, higher, lower, one, positive, read_fields, text

TOOL = "sysbench"
READS = sysbench_cpu.READS
TESTS = {"oltp_read_write": "read-write", "oltp_read_only": "read-only"}
PARAMS = {
    "test": Param("oltp_read_write", choices=tuple(TESTS), meaning="sysbench's test", words=TESTS),
    "rows": Param(100_000, least=100, meaning="rows of a table"),
    "tables": Param(1, least=1, meaning="number of tables"),
    "threads": Param(4, least=1, meaning="connections"),
    "seconds": Param(15, least=1, unit="s", meaning="length of the run"),
    "mode": _volume.MODE,
    "placement": _volume.PLACEMENT,
    "buffer_pool_bytes": Param(64 * MIB, least=5 * MIB, unit="B", meaning="buffer pool of the server, whole MiB"),
}
FOLDER = "/var/tmp/infrabench-oltp"  # on the node: socket, pid and log of the server
SOCKET, PID, LOG = (f"{FOLDER}/mariadb.{kind}" for kind in ("sock", "pid", "log"))
ROW_BYTES, DATABASE_BYTES = 500, 500_000_000
START_S, STOP_S = 120.0, 120
LOAD_ROWS_PER_S = 1000.0  # slower than this is a hang
COUNT = "([0-9]{1,20})"
KINDS = ("read", "write", "other", "total")  # of queries
REPORT = {
    "threads": Field(r"^Number of threads: NUM$", equals="threads"),
    **sysbench_cpu.TOTALS,
    "reconnects": Field(r"^ +reconnects: +NUM +\(NUM per sec\.\)$", equals=0),
    **{f"{kind} queries": Field(rf"^ {{8}}{kind}: +{COUNT}$") for kind in KINDS},
    "queries": Field(rf"^ {{4}}queries: +{COUNT} +\(NUM per sec\.\)$"),
}
HALF = 0.5  # of what the file area moved has to have crossed the network, at least: the client's cache holds some back
LATE = 0.1  # share of the time that connecting and ending may take
RATE_TOLERANCE = 0.02  # sysbench prints hundredths, and its total time in ten-thousandths
SETTINGS = "SELECT @@innodb_buffer_pool_size, @@innodb_flush_method, @@innodb_flush_log_at_trx_commit"
supported = _volume.needing(TOOL, "mariadbd", "mariadb", "mariadb-install-db", "start-stop-daemon")
METRICS = {
    **dict.fromkeys(("transactions_per_s", "queries_per_s", "errors_per_s"), "fixed-time rate"),
    **dict.fromkeys(("latency_mean_s", "latency_p95_s"), "time"),
    "errors": "count",
    "cpu_percent": "quantity",
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the making of a database, its filling, a cold start, the test between two readings, and the count."""
    if params["buffer_pool_bytes"] % MIB:
        raise DesignError("oltp: buffer_pool_bytes must be whole MiB, MariaDB would round it")
    _volume.check(roles)
    client = _volume.place_client(params, roles)
    role = client.role
    (mounted,) = client.lifecycle("mount", "no file system can be made on it")
    data = f"{mounted}/mariadb"
    area = _volume.area_bytes(DATABASE_BYTES + ROW_BYTES * params["rows"] * params["tables"])
    load_s = _volume.COMMAND_S + params["rows"] * params["tables"] / LOAD_ROWS_PER_S
    count = "; ".join(f"SELECT COUNT(*) FROM sbtest.sbtest{number + 1}" for number in range(params["tables"]))
    install = (
        "mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root", "--force", "--skip-test-db",
        "--auth-root-authentication-method=normal",
    )  # fmt: skip
    return (
        # A server that an interrupted trial left would keep the file system.
        _stop(role, "stop-left", "prepare"),
        *client.mount(params["mode"], area),
        # From here on: a run alone may move less than what the nodes say to each other besides.
        *client.read_link("mounted", "prepare"),
        Step("folder", role, ("mkdir", "-p", FOLDER, data), phase="prepare"),
        Step("install", role, install, timeout_s=START_S, phase="prepare"),
        *_start(params, role, data, "first"),
        Step("database", role, (*_SQL, "CREATE DATABASE sbtest"), phase="prepare"),
        Step("load", role, _sysbench(params, "prepare"), timeout_s=load_s, phase="prepare"),
        _stop(role, "stop-loaded", "prepare"),
        *client.drop(),
        *_start(params, role, data, "cold"),
        Step("settings", role, (*_SQL, SETTINGS), phase="prepare"),
        *client.read("before"),
        Step(
            "sysbench", role, client.command(_sysbench(params, "run")), timeout_s=params["seconds"] + _volume.COMMAND_S
        ),
        *client.read("after"),
        Step("count", role, (*_SQL, count), timeout_s=load_s),
        Step("log", role, ("tail", "-n", "100", LOG), phase="rescue"),
        _stop(role, "stop-failed", "rescue"),
        *client.rescue(),
        _stop(role, "stop", "cleanup"),
        client.unmount(area),
        Step("remove", role, ("rm", "-rf", FOLDER), phase="cleanup"),
    )


def version(target: Target) -> str:
    """Return the versions of sysbench and of MariaDB."""
    sysbench = read_version(target, *sysbench_cpu.VERSION)
    mariadb = read_version(target, ("mariadbd", "--version"), r"Ver (\S+)(?: from \S+)? for")
    return f"{sysbench} with MariaDB {mariadb}"


def parse(capture: Capture) -> Measurements:
    """Return rates, latencies and use of CPU; `ParseError` when settings or rows are not those that were asked for."""
    params, found = capture.params, read(text(capture["sysbench"]), capture.params)
    wanted = f"{params['buffer_pool_bytes']}\tO_DIRECT\t1\n"
    if text(capture["settings"]) != wanted:
        raise ParseError("mariadb", f"its settings must be {wanted!r}", text(capture["settings"]))
    rows = [str(params["rows"])] * params["tables"]
    if text(capture["count"]) != "".join(f"{each}\n" for each in rows):
        raise ParseError("mariadb", f"every table must have {params['rows']} rows", text(capture["count"]))
    if params.get("placement") == "two-nodes":
        received, sent = (HALF * each for each in _volume.moved(capture, "mounted", "after"))
        _volume.check_link(capture, "mounted", "after", received_bytes=received, sent_bytes=sent)
    return (*found, *lower("%", cpu_percent=_volume.used(capture, "before", "after").percent))


def read(output: str, params: Params) -> Measurements:
    """Return what sysbench reports of one run; `ParseError` when it is not whole, or of another run."""
    one(TOOL, "the end of the report", sysbench_cpu.END, output)
    one(TOOL, "a report each second", r"^Report intermediate results every 1 second\(s\)$", output)
    report = read_fields(TOOL, REPORT, output, params)
    total_s = positive(TOOL, "total time", report["total time"])
    average_s, longest_s, p95_s = sysbench_cpu.latencies_s(output, report["events"])
    sysbench_cpu.check_time(total_s, params["seconds"], longest_s, LATE * params["seconds"])
    rates = {name: _rate(output, name, total_s) for name in ("transactions", "queries", "ignored errors")}
    reads, writes, others, total = (report[f"{kind} queries"] for kind in KINDS)
    equal(TOOL, "that it wrote", writes > 0, params["test"] == "oltp_read_write")  # ``oltp_read_only`` writes none
    equal(TOOL, "queries of all kinds", total, reads + writes + others)
    equal(TOOL, "queries", report["queries"], total)
    positive(TOOL, "latency", min(average_s, p95_s))
    for name in ("transactions", "queries"):
        positive(TOOL, name, rates[name])
    return (
        *higher("1/s", transactions_per_s=rates["transactions"], queries_per_s=rates["queries"]),
        *lower("s", latency_mean_s=average_s, latency_p95_s=p95_s),
        *lower("1/s", errors_per_s=rates["ignored errors"]),
        # few events, or none: compared exactly, as no rate can be; of the same seconds in every trial
        *lower("1", errors=float(_events(output, "ignored errors")[0])),
    )


_SQL = ("mariadb", "--no-defaults", f"--socket={SOCKET}", "--user=root", "--batch", "--skip-column-names", "--execute")


def _start(params: Params, role: str, data: str, which: str) -> tuple[Step, Step]:
    """Return the steps that start the server and wait until it answers."""
    server = (
        "--no-defaults", f"--datadir={data}", "--user=root", "--skip-networking", f"--socket={SOCKET}",
        f"--pid-file={FOLDER}/own.pid", f"--log-error={LOG}", "--innodb-flush-method=O_DIRECT",
        f"--innodb-buffer-pool-size={params['buffer_pool_bytes']}",
    )  # fmt: skip
    daemon = (
        "start-stop-daemon", "--start", "--background", "--make-pidfile", "--pidfile", PID, "--startas",
        "/usr/sbin/mariadbd", "--", *server,
    )  # fmt: skip
    answers = (*_SQL, "SELECT 1")
    return (
        Step(f"start-{which}", role, daemon, phase="prepare"),
        Step(f"ready-{which}", role, answers, phase="prepare", timeout_s=10.0, until_ok_s=START_S),
    )


def _stop(role: str, name: str, phase: _volume.PHASE) -> Step:
    """Return the step that ends the server in good order, or in any; there may be none."""
    argv = (
        "start-stop-daemon", "--stop", "--pidfile", PID, "--name", "mariadbd", "--retry", f"TERM/{STOP_S}/KILL/10",
        "--oknodo", "--remove-pidfile",
    )  # fmt: skip
    return Step(name, role, argv, timeout_s=STOP_S + 30.0, phase=phase)


def _sysbench(params: Params, command: str) -> tuple[str, ...]:
    return (
        TOOL, params["test"], "--db-driver=mysql", f"--mysql-socket={SOCKET}", "--mysql-user=root", "--mysql-db=sbtest",
        f"--tables={params['tables']}", f"--table-size={params['rows']}", f"--threads={params['threads']}",
        f"--time={params['seconds']}", "--report-interval=1", command,
    )  # fmt: skip


def _rate(output: str, what: str, total_s: float) -> float:
    """Return how many a second, from the count and the total time; what sysbench divided itself must agree."""
    count, told = _events(output, what)
    rate = count / total_s
    if abs(rate - told) > RATE_TOLERANCE * rate + 0.01:
        raise ParseError(TOOL, f"{count} {what} in {total_s:g} s are not {told:g} per second", output)
    return rate


def _events(output: str, what: str) -> tuple[int, float]:
    """Return how many there were, and how many a second sysbench says that is."""
    found = one(TOOL, what, rf"^ +{what}: +{COUNT} +\({NUMBER} per sec\.\)$", output)
    return int(found[1]), float(found[2])
