"""Descriptions of parameters that plots share."""

from __future__ import annotations

AXES = {
    "feature_names": """
feature_names : sequence of str, default=None
    Names of all features; None takes the names of the data frame of the fit, or numbers.
""",
    "output": """
output : int, default=0
    Which target, or class; two classes share one output.
""",
    "ax": """
ax : matplotlib Axes, default=None
    Where to draw; None makes a figure.
""",
}
