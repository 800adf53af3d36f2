"""Run scripted safety cases through the offline rules and count recall and false alarms."""

from eval.safety.cases import Case, CaseError, read_cases
from eval.safety.report import KindCounts, Outcome, count, run_cases

__all__ = ["Case", "CaseError", "KindCounts", "Outcome", "count", "read_cases", "run_cases"]
