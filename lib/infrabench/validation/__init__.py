"""Simulations with known truth: the statistics must be right as often as they say, and bad habits must be caught."""

from infrabench.validation.check import SEED, Case, Check, Expectation, Outcome
from infrabench.validation.relabelling import relabelled
from infrabench.validation.report import lines
from infrabench.validation.suite import CHECKS, run

__all__ = ["CHECKS", "SEED", "Case", "Check", "Expectation", "Outcome", "lines", "relabelled", "run"]
