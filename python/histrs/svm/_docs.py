"""Descriptions of parameters and attributes that support vector machines share."""

from __future__ import annotations

MACHINES = {
    "n_jobs": """
n_jobs : int or None, default=None
    Threads; None means every core. The result does not depend on it.
""",
    "classes_": """
classes_ : ndarray of shape (n_classes,)
    The classes.
""",
}
