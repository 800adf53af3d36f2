"""Prompt texts, label definitions and the reply library: text files only."""
