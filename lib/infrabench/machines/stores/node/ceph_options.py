"""The options of our Ceph clusters: what is changed, and why. Everything else is Ceph's own default."""

from __future__ import annotations

import time

from .config import Config

PORT = 13300  # of the monitor; the next one is for the old protocol
POOL, IMAGE = "rbd", "volume"
PLACEMENT_GROUPS = 16  # eight an OSD: a scrub begins one a second and primary
DAY_S = 86400
NEVER_S = 10 * 365 * DAY_S
# A node that is frozen for minutes or hours, and then goes on, looks dead to clocks that went on: nobody else would act
# on that, so nobody does. (Failures are told by connections that are refused, at once.)
FREEZE = {
    # The monitor counts back from its monotonic clock: a grace longer than that has run would be in its future.
    "mon": {"mon_mgr_beacon_grace": max(30, min(DAY_S, int(time.monotonic()) - 60)), "mon_osd_report_timeout": DAY_S},
    # Also how long a replica lets its primary answer reads without asking again: else that is to be renewed first.
    "global": {"osd_heartbeat_grace": DAY_S, "auth_service_ticket_ttl": 7 * DAY_S, "auth_mon_ticket_ttl": 7 * DAY_S},
    "osd": {
        "osd_op_thread_timeout": DAY_S, "osd_op_thread_suicide_timeout": DAY_S,
        "osd_command_thread_timeout": DAY_S, "osd_command_thread_suicide_timeout": DAY_S,
    },
}  # fmt: skip
# Nothing scrubs by itself in the middle of a measurement; scrubs that are asked for begin at once.
SCRUBS = {
    "osd_scrub_min_interval": NEVER_S, "osd_scrub_max_interval": NEVER_S, "osd_deep_scrub_interval": NEVER_S,
    "osd_scrub_backoff_ratio": 0, "osd_max_scrubs": 4,
}  # fmt: skip
# Rebuilds without the brakes that disks with heads get: no rest between objects, several placement groups at once.
OPEN = {
    "osd_recovery_sleep": "0", "osd_recovery_sleep_hdd": "0", "osd_recovery_sleep_ssd": "0", "osd_max_backfills": "8",
    "osd_recovery_max_active": "8",
}  # fmt: skip


def cluster(config: Config, fsid: str) -> str:
    """Return ceph.conf of the daemons. Caches have a fixed size: together what the store may cache."""
    home = config.home
    return _text({
        "global": {
            "fsid": fsid, "mon_initial_members": "a", "mon_host": address(), "public_network": "127.0.0.0/8",
            "cluster_network": "127.0.0.0/8", "ms_bind_ipv6": "false",
            "auth_cluster_required": "cephx", "auth_service_required": "cephx", "auth_client_required": "cephx",
            "auth_allow_insecure_global_id_reclaim": "false",
            "keyring": home / "keyring", "log_file": home / "log/$name.ceph.log", "run_dir": config.run,
            "pid_file": "", "crash_dir": home / "crash",
            "osd_pool_default_size": config.copies, "osd_pool_default_min_size": 1,
            "osd_pool_default_pg_num": PLACEMENT_GROUPS, "osd_pool_default_pg_autoscale_mode": "off",
            "osd_crush_chooseleaf_type": 0, "mon_warn_on_pool_no_redundancy": "false", **FREEZE["global"],
        },
        "mon": {
            "mon_data": home / "mon", "admin_socket": config.run / "$name.asok",
            "mon_data_avail_warn": 2, "mon_data_avail_crit": 1, **FREEZE["mon"],
        },
        "mgr": {
            "mgr_data": home / "mgr", "admin_socket": config.run / "$name.asok", "mgr_initial_modules": "",
            "mgr_stats_period": 1, "mgr_tick_period": 1,
        },
        "osd": {
            "osd_data": home / "osd.$id", "admin_socket": config.run / "$name.asok", "osd_objectstore": "bluestore",
            "bluestore_cache_autotune": "false", "bluestore_cache_size": config.cache_bytes // config.copies,
            "bdev_enable_discard": "true", "bdev_async_discard": "true", **SCRUBS, **FREEZE["osd"],
        },
    })  # fmt: skip


def client(config: Config, fsid: str, mode: str) -> str:
    """Return ceph.conf of clients: in ``strict`` mode librbd caches nothing."""
    cached = {"rbd_cache": "true" if mode == "default" else "false"}
    top = {"fsid": fsid, "mon_host": address(), "keyring": config.home / "keyring", "ms_bind_ipv6": "false"}
    return _text({"global": top, "client": cached})


def address() -> str:
    """Return where the monitor answers."""
    return f"[v2:127.0.0.1:{PORT},v1:127.0.0.1:{PORT + 1}]"


def _text(sections: dict[str, dict[str, object]]) -> str:
    return "".join(
        f"[{section}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
        for section, options in sections.items()
    )
