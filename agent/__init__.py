"""Reads the relations in a conversation and decides whether, whom and how to support."""
