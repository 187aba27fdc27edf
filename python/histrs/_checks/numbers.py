"""Parameters of functions that are numbers, checked by what their annotations promise."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_KINDS: dict[str, tuple[Callable[[Any], Any], str, bool]] = {
    "float": (float, "a real number", False),
    "float | None": (float, "a real number or None", True),
    "int": (operator.index, "an integer", False),
    "int | None": (operator.index, "an integer or None", True),
}
"""By annotation as it is written: the conversion, what is wanted in words, may it be None."""


def numbers_checked(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Let `function` be called with numbers only where its signature says `float` or `int`.

    Each such parameter is converted before the function runs; what is no single number is
    refused by the name of the parameter. Ranges are the function's own business.
    """
    signature = inspect.signature(function)
    wanted = {
        name: _KINDS[parameter.annotation]
        for name, parameter in signature.parameters.items()
        if parameter.annotation in _KINDS
    }

    @functools.wraps(function)
    def checked(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            # The function's own message names it.
            return function(*args, **kwargs)
        for name in wanted.keys() & bound.arguments.keys():
            bound.arguments[name] = _number(bound.arguments[name], name, *wanted[name])
        return function(*bound.args, **bound.kwargs)

    return checked


def _number(
    value: Any, name: str, convert: Callable[[Any], Any], what: str, may_be_none: bool
) -> Any:
    """Return the number that `value` is."""
    if value is None and may_be_none:
        return None
    try:
        if isinstance(value, str | bytes) or np.ndim(value) > 0 or np.ma.is_masked(value):
            raise TypeError
        return convert(value)
    except OverflowError as error:
        raise TypeError(
            f"{name} is too large an integer for a float: give a smaller one."
        ) from error
    except (TypeError, ValueError) as error:
        # Of arrays and the like the type says enough, and one that is damaged cannot be shown.
        plain = value is None or isinstance(value, str | bytes | float | complex)
        got = f"{name} = {value!r}" if plain else f"{name} is of type {type(value).__name__}"
        raise TypeError(f"{got}: must be {what}.") from error
