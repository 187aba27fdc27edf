"""What every estimator of this package shares: its base class, and how docstrings share text.

A line of a docstring that is `{name}` alone stands for a description which several classes or
functions have in common, and which is written once. `help` and the manual show it in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import isclass, isfunction, signature
from numbers import Integral
from textwrap import indent
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn import base
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

Documented = TypeVar("Documented", bound=Callable[..., Any])


def by_name(text: str) -> dict[str, str]:
    """Return descriptions as numpydoc has them, one behind the other, by the first name of each."""
    entries = re.split(r"\n(?=\w)", text.strip("\n"))
    return {re.split(r"\W", entry, maxsplit=1)[0]: entry for entry in entries}


_COMMON = by_name("""
feature_names_in_ : ndarray of shape (n_features,)
    Names of the features, when `X` had string column names.
n_features_in_ : int
    Number of features.
""") | {
    "self": """
Returns
-------
self : object
    The fitted estimator.
"""
}

_LINE = re.compile(r"^( *)\{(\w+)\}$", re.MULTILINE)


# What parameters of these names may be, of every estimator.
_CONSTRAINTS: dict[str, list[Any]] = {
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "fit_intercept": ["boolean"],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "metric_params": [dict, None],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
    "warm_start": ["boolean"],
    "whiten": ["boolean"],
}


class BaseEstimator(base.BaseEstimator):
    """scikit-learn's, whose diagrams in notebooks lead to this package's manual."""

    _doc_link_module = "histrs"
    _doc_link_template = (
        "https://histrs.readthedocs.io/en/latest/reference/generated/"
        "{estimator_module}.{estimator_name}.html"
    )

    _inputs: ClassVar[dict[str, bool]] = {}
    """What scikit-learn may expect of rows, where it is not the usual."""

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        for name, value in self._inputs.items():
            setattr(tags.input_tags, name, value)
        return tags

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        names = signature(cls.__init__).parameters
        common = {name: kinds for name, kinds in _CONSTRAINTS.items() if name in names}
        cls._parameter_constraints = common | getattr(cls, "_parameter_constraints", {})

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        # Names are those of the module of the package, wherever in it a class is written.
        kind = type(self)
        return {
            "estimator_module": ".".join(kind.__module__.split(".")[:2]),
            "estimator_name": kind.__name__,
        }

    def _validate_params(self) -> None:
        # A limit beyond single precision is infinite beside a parameter in it.
        with np.errstate(over="ignore"):
            super()._validate_params()


def documented(*shared: Mapping[str, str]) -> Callable[[Documented], Documented]:
    """Return a decorator that puts shared descriptions into docstrings: a class has several.

    Parameters
    ----------
    shared : mapping of str to str
        Descriptions by their names; a docstring that names another raises a KeyError.
    """
    known = {name: text for part in (_COMMON, *shared) for name, text in part.items()}

    def put(owner: Documented) -> Documented:
        members = vars(owner).values() if isclass(owner) else ()
        # Class methods, and those that are there on a condition, wrap a function.
        wrapped = (getattr(m, "fn", getattr(m, "__func__", m)) for m in members)
        for member in (owner, *filter(isfunction, wrapped)):
            # There are no docstrings with python -OO.
            if member.__doc__ is not None:
                member.__doc__ = _LINE.sub(
                    lambda m: indent(known[m[2]].strip("\n"), m[1]), member.__doc__
                )
        return owner

    return put
