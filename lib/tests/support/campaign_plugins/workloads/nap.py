"""Sleeps, and says so."""

from infrabench.core import Measurement, Param, Step

PARAMS = {"seconds": Param(0.1)}


def plan(params, roles):
    return [Step("tool", "server", ("sh", "-c", 'sleep "$1" && echo 1', "sh", str(params["seconds"])), timeout_s=20.0)]


def version(target):
    return "1"


def supported(deployment):
    return None


def parse(capture):
    return [Measurement("value", float(capture["tool"].stdout), "1/s", "higher")]
