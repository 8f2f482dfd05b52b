"""Simulations with known truth: the statistics must be right as often as they say, and bad habits must be caught."""

from infrabench.selfcheck.validation.check import SEED, Check, ExpectedShare, Outcome, SimulatedCase
from infrabench.selfcheck.validation.suite import CHECKS, lines, run

__all__ = ["CHECKS", "SEED", "Check", "ExpectedShare", "Outcome", "SimulatedCase", "lines", "run"]
