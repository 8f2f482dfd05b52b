"""Which tests are not in the gate, and why: what they need is not the same on every machine or in every run.

A test without a tier is in the gate: no root, lab, browser, network, nor a program beyond Python, git, make, a shell;
no wall clock that it looks at, no kill, no race.
"""

from __future__ import annotations

import re

# Tier -> patterns, searched in the path and name of a test.
TIERS = {
    # What a reader sees: a real Chromium, TeX, and poppler to look into PDFs.
    "browser": (
        r"/browser/",
        r"/figures/test_printed\.py::test_(fonts|every_word|the_demands)",
        r"/test_(paper|tex)\.py::test_(a_real_tex|the_example_is_typeset)",
    ),
    # Kills, storms, races, speed; servers and shells under time limits; campaigns on the real engine; and what a test
    # of the gate says of another session or width.
    "stress": (
        r"/artifact/test_artifact\.py::test_unpacked_elsewhere",
        r"/campaign/test_campaign_(checks|engine|slurm)\.py",
        r"/clusters/test_cluster_sets\.py::test_removing_",
        r"/clusters/test_population_verbs\.py",
        r"/dataset/test_dataset_folder\.py::.*kill",
        r"/dataset/test_dataset_scale\.py",
        r"/dataset/test_dataset_survey\.py::test_recorded_sessions.*\[(aa|containers)\]",
        r"/figures/test_trials\.py::test_extreme_values_are_drawn_whole\[.*-174",
        r"/lab/test_(ib_pods|kill|lab_campaigns|store_killed|two_sessions)\.py",
        r"/security/test_(login_shells|planted_secrets|what_hosts_are_asked)\.py",
        r"/sources/test_hostlist\.py::.*in_no_time",
        r"/stats/.*(are_fast|takes_no_square|takes?_seconds)",
        r"/stats/test_stopping\.py::test_simulated_sessions",
        r"/stores/test_store_daemons\.py",
        r"/test_(claims_of_hosts|cluster_claim|guides|host|interrupts|kubeconfig_file|live|monitor|orphans|parallel)\.py",
        r"/test_(socket_forward|system_packages)\.py",
        r"/test_headless\.py::test_two_at_once",
        r"/test_ledger\.py::.*(lock|milliseconds|two_runs)",
        r"/test_notebooks\.py::test_(a_narrowed|the_runtimes_notebook|the_storage_notebook)",
        r"/test_session\.py::.*(freed|kill)",
        r"/test_session_folder\.py::test_the_last_trial_of_a_long_session_costs",
        r"/torture/",
        r"/validation/",
        r"/workloads/test_(guest|guest_ftp|network|store_scripts)\.py",
        r"/workloads/test_plans\.py::test_(a_hanging_command|probe_)",
    ),
    # The embedded lab, or root, a compiler or another tool of Debian's.
    "lab": (
        r"/clusters/test_cluster_hosts\.py::test_systemd_accepts",
        r"/clusters/test_cluster_remote\.py",
        r"/lab/test_(borrowed|ceph_store|clusters|gotools|kill|kubeconfig|lab|lab_campaigns)\.py",
        r"/lab/test_(prepared_nodes|runtime_clusters|storage_guests|store_killed|two_sessions|zvol)\.py",
        r"/lab/test_ahead\.py::test_an_image_is_made_ahead",
        r"/lab/test_podimages\.py::test_(a_pod_|a_program|an_image_is_made_once|pause_|what_the_packages)",
        r"/preparing/test_preparation_real\.py",
        r"/systems/test_cni\.py::test_(one_host_alone|the_uplink)",
        r"/systems/test_(left_behind|systems|teardown)\.py",
        r"/systems/test_zfs_engine\.py::test_what_needs_no_header",
        r"/test_(guest_route|lab_network)\.py",
    ),
}


def tiers_of(test: str) -> list[str]:
    """Return the tiers of the test with this path and name: none in the gate, two for a kill on the lab, say.

    >>> tiers_of("tests/lab/test_kill.py::test_ctrl_c")
    ['stress', 'lab']
    """
    return [tier for tier, patterns in TIERS.items() if any(re.search(each, test) for each in patterns)]
