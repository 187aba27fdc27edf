"""A short name of what a fitted feature map computes."""

import hashlib
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

# What changes the time that a map takes, but not its features.
_IRRELEVANT = {"n_jobs", "random_state", "verbose"}


def fingerprint(feature_map: BaseEstimator) -> str:
    """Return a hash of the class, the parameters and the fitted attributes of a feature map.

    Moments of features from different maps must not be added: give the fingerprint of the map to
    `Moments`, which then refuses to.

    Parameters
    ----------
    feature_map : estimator
        A fitted scikit-learn transformer, or a pipeline of them.

    Returns
    -------
    fingerprint : str
        32 hexadecimal digits.

    Examples
    --------
    >>> from histrs.kernel_approximation import AdditiveChi2Map
    >>> from histrs.streaming import fingerprint
    >>> X = [[0.2, 0.8], [0.5, 0.5]]
    >>> a, b = (AdditiveChi2Map(n_components=m).fit(X) for m in (3, 4))
    >>> fingerprint(a) == fingerprint(a), fingerprint(a) == fingerprint(b)
    (True, False)
    """
    digest = hashlib.sha256()
    _add(digest, feature_map)
    return digest.hexdigest()[:32]


def _add(digest: Any, value: Any) -> None:
    """Feed a value, with the name of its type, so that no two different ones look alike."""
    digest.update(f"<{type(value).__module__}.{type(value).__qualname__}".encode())
    if isinstance(value, BaseEstimator):
        for name, part in sorted(vars(value).items()):
            if not name.startswith("_") and name not in _IRRELEVANT:
                digest.update(name.encode())
                _add(digest, part)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, np.ndarray | list | tuple):
        for part in value:
            _add(digest, part)
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            _add(digest, key)
            _add(digest, value[key])
    elif callable(value):
        digest.update(f"{value.__module__}.{value.__qualname__}".encode())
    else:
        digest.update(repr(value).encode())
    digest.update(b">")
