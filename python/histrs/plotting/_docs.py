"""Descriptions of parameters that plots share."""

from __future__ import annotations

from histrs._estimator import by_name

AXES = by_name("""
feature_names : sequence of str, default=None
    Names of all features; None takes the names of the data frame of the fit, or numbers.
output : int, default=0
    Which target, or class; two classes share one output.
ax : matplotlib Axes, default=None
    Where to draw; None makes a figure.
""")
