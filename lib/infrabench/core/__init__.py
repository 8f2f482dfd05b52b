"""The vocabulary: frozen dataclasses, protocols and exceptions. Standard library only.

Every other module speaks in these words and nothing here imports another part of the package, so a plug-in author who
knows this package knows the whole contract. One noun a file; all names can be imported from here.

Units in data are SI base units, named in the suffix: ``duration_s``, ``memory_bytes``.
"""

from __future__ import annotations

from infrabench.core.errors import (
    LONGEST_NAME,
    CommandFailed,
    DesignError,
    InfrabenchError,
    Interrupted,
    LedgerError,
    LockError,
    NotAsClaimed,
    NotRunnable,
    ParseError,
    ProvisionError,
    SchemaError,
    SiteError,
    check_known,
    unknown_name,
)
from infrabench.core.hosts import Host, Machines, Result, Site, Stream, Target, plain
from infrabench.core.request import Request
from infrabench.core.studies import PROFILES, Case, Guards, Profile, Stopping, Study, Variant
from infrabench.core.systems import Deployment, DeploySpec, Limits, System, Versioned, order_systems, split_version
from infrabench.core.trials import LOST_STATES, STATES, State, Trial, TrialRecord, canonical, digest, trial_id
from infrabench.core.workloads import (
    UNITS,
    Capture,
    Kind,
    Measurement,
    Measurements,
    MetricKind,
    Param,
    Params,
    Roles,
    Step,
    Steps,
    Workload,
    add_up,
    default_params,
    find_missing,
    has_work,
    plan_steps,
    read_version,
    resolve_kind,
    share_out,
)
