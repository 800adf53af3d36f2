"""Finding, checking and fetching RESCUE data."""

from eval.data.locate import DataSource, locate

__all__ = ["DataSource", "locate"]
