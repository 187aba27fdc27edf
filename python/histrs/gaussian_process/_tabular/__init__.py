"""Processes on tables: a blend of a few simple ones, each exact."""
