"""A short name of what a fitted feature map computes."""

from __future__ import annotations

import hashlib
from functools import partial
from types import CodeType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from histrs._checks.sparse import is_sparse, sound

# What changes the time that a map takes, but not its features.
_IRRELEVANT = {"n_jobs", "random_state", "verbose"}


def digest(feature_map: BaseEstimator) -> str:
    """Return a hash of the class, the parameters and the fitted attributes of a feature map.

    Moments of features from different maps must not be added: give the digest of the map to
    `Moments`, which then refuses to. A function in a parameter counts by its name, a lambda or a
    function within another one by its code as well.

    Parameters
    ----------
    feature_map : estimator
        A fitted scikit-learn transformer, or a pipeline of them.

    Returns
    -------
    digest : str
        32 hexadecimal digits.

    Examples
    --------
    >>> from histrs.kernel_approximation import AdditiveChi2Map
    >>> from histrs.streaming import digest
    >>> X = [[0.2, 0.8], [0.5, 0.5]]
    >>> a, b = (AdditiveChi2Map(n_components=m).fit(X) for m in (3, 4))
    >>> digest(a) == digest(a), digest(a) == digest(b)
    (True, False)
    """
    hasher = hashlib.sha256()
    feed(hasher, feature_map)
    return hasher.hexdigest()[:32]


def feed(hasher: Any, value: Any) -> None:
    """Feed a value to what has an `update` as the digests of hashlib have.

    The name of its type goes with it, so that no two different values look alike.
    """
    hasher.update(f"<{type(value).__module__}.{type(value).__qualname__}".encode())
    if isinstance(value, CodeType):
        feed(hasher, [value.co_code, value.co_consts, value.co_names, value.co_freevars])
    elif isinstance(value, BaseEstimator):
        for name, part in sorted(vars(value).items()):
            if not name.startswith("_") and name not in _IRRELEVANT:
                hasher.update(name.encode())
                feed(hasher, part)
    elif is_sparse(value):
        rows = sound(value, "in the feature map").tocsr()
        feed(hasher, [value.shape, rows.data, rows.indices, rows.indptr])
    elif isinstance(value, np.ndarray) and value.dtype != object:
        hasher.update(f"{value.dtype.str}{value.shape}".encode())
        hasher.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
    elif isinstance(value, np.ndarray | list | tuple):
        for part in np.ravel(value) if isinstance(value, np.ndarray) else value:
            feed(hasher, part)
    elif isinstance(value, set | frozenset):
        feed(hasher, sorted(value, key=repr))
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            feed(hasher, key)
            feed(hasher, value[key])
    elif isinstance(value, partial):
        feed(hasher, [value.func, value.args, value.keywords])
    elif callable(value):
        _add_function(hasher, value)
    else:
        hasher.update(repr(value).encode())
    hasher.update(b">")


def _add_function(hasher: Any, function: Any) -> None:
    """Feed the name of a function, and what it does where many have that name."""
    # Universal functions of NumPy 2.0 have neither a module nor a qualified name.
    other = getattr(function, "__name__", type(function).__qualname__)
    name = getattr(function, "__qualname__", other)
    module = getattr(function, "__module__", None)
    hasher.update(f"{module}.{name}".encode())
    if "<" in name and hasattr(function, "__code__"):
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        feed(hasher, [function.__code__, function.__defaults__, function.__kwdefaults__, cells])
