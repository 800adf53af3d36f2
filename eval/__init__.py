"""Replays, scores and compares decisions on RESCUE-BENCH and other conversations."""
