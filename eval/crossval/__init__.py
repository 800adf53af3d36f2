"""Grouped cross-validation of the local policy: ``python -m eval.crossval``."""
