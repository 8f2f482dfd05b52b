"""Own profiles: a YAML file with the cases that a study runs, in place of those of a profile of its own::

    study: containers
    blocks: 30
    systems: [native, docker]     # default: those of the study
    limits: {memory_bytes: 2147483648}
    cases:
      - {workload: web, set: {users: [200, 400], requests: 8000}, seconds: 1.5, rounds: 4}
      - {workload: sysbench-cpu, set: {threads: "1:2", events: 4000}}

``set`` has values of the workload's parameters as a request has them (`settings`); each combination is a case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from infrabench.core import Case, DesignError, Limits, Param, Profile, Study
from infrabench.core.request import parse_settings
from infrabench.core.studies import MOST_ROUNDS
from infrabench.experiment.design.settings import apply_settings, read_settings
from infrabench.machines.sites import yaml_with_lines

USUAL = Limits()
Count = Annotated[StrictInt, Field(ge=1)]


class _Case(BaseModel):
    model_config = ConfigDict(extra="forbid")
    workload: StrictStr
    set: dict[StrictStr, Any] = {}
    seconds: Annotated[float, Field(gt=0, lt=1e6)] = 1.0  # that a trial takes, for the plan
    rounds: Annotated[StrictInt, Field(ge=1, le=MOST_ROUNDS)] = 1
    disk_bytes: Annotated[StrictInt, Field(ge=0)] = 0


class _Limits(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cpus: Annotated[StrictStr, Field(pattern=r"^[0-9,-]*$")] = USUAL.cpus
    memory_bytes: Count = USUAL.memory_bytes
    nofile: Count = USUAL.nofile


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    study: StrictStr
    blocks: Count
    deployments: Count = 1
    systems: list[StrictStr] = []
    limits: _Limits | None = None
    cases: Annotated[list[_Case], Field(min_length=1)]


def read_profile(path: Path, study: Study, declare: Callable[[str], Mapping[str, Param]]) -> tuple[str, Profile]:
    """Return the name and the profile that a file holds; `DesignError` names each fault with its line.

    `declare` returns the parameters of a workload, or raises `DesignError` for one that is not known.
    """
    name = path.stem
    if name in study.profiles or not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", name):
        raise DesignError(
            f"{path}: {name!r} cannot be the name of an own profile of {study.name}: take small letters, digits and "
            f"hyphens, and none of {', '.join(study.profiles)}"
        )
    if not path.is_file():
        raise DesignError(f"there is no profile file {path}; what one looks like: docs/run-a-study.md")
    written = yaml_with_lines.read(path, "a profile file", DesignError)
    if written.repeated:
        place, line = next(iter(written.repeated.items()))
        raise DesignError(f"{path}, line {line}: {'.'.join(place)} stands there a second time")
    try:
        file = _File.model_validate(written.data)
    except ValidationError as error:
        faults = [
            f"line {written.line(each['loc'])}, {'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors(include_input=False, include_url=False, include_context=False)
        ]
        raise DesignError(f"{path}: {'; '.join(faults)[:2000]}") from error
    if file.study != study.name:
        raise DesignError(f"{path} is of the study {file.study}, not of {study.name}")
    cases: list[Case] = []
    for number, each in enumerate(file.cases):
        try:
            cases += _make_cases(each, declare(each.workload))
        except DesignError as error:
            raise DesignError(f"{path}, line {written.line(('cases', number))}: {error}") from error
    limits = None if file.limits is None else Limits(**file.limits.model_dump())
    return name, Profile(file.blocks, tuple(cases), file.deployments, tuple(file.systems), limits)


def _make_cases(each: _Case, declared: Mapping[str, Param]) -> list[Case]:
    """Return the cases of an entry, one for each combination of its values."""
    base = Case(each.workload, "default", seconds=each.seconds, disk_bytes=each.disk_bytes, rounds=each.rounds)
    given = parse_settings({f"{each.workload}.{name}": values for name, values in each.set.items()}) or {}
    known = {each.workload: declared}
    cases = apply_settings([base], read_settings(given, [each.workload], known), known)
    # What the entry says of a trial is of each of its cases, whatever its values.
    return [replace(case, seconds=each.seconds, disk_bytes=each.disk_bytes) for case in cases]
