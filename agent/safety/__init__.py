"""Safety: offline detection of concerns, and help by country."""

from agent.safety.data_files import SafetyDataError
from agent.safety.rules import check, check_turn
from agent.safety.types import KINDS, Evidence, Flag, Kind, Source, Turn, TurnLike

__all__ = [
    "KINDS",
    "Evidence",
    "Flag",
    "Kind",
    "SafetyDataError",
    "Source",
    "Turn",
    "TurnLike",
    "check",
    "check_turn",
]
