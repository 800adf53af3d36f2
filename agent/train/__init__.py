"""Fits the local policy's weights on RESCUE's annotations: ``python -m agent.train``."""
