"""What the strategies share: options, sizes, entropy, memory layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import DTypeLike, NDArray

T = TypeVar("T")

Size: TypeAlias = int | tuple[int, int] | SearchStrategy[int]
DType: TypeAlias = DTypeLike | SearchStrategy[DTypeLike]
Layout: TypeAlias = Literal["any", "C", "F", "sliced", "strided", "reversed", "readonly"]

LAYOUTS: tuple[str, ...] = ("C", "F", "sliced", "strided", "reversed", "readonly")

# Around 0 and 1, and around the widths of vector registers and of unrolled loops.
EDGE_SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129)

# Hypothesis bounds the bytes of one example; beyond this many, cells come from a drawn seed.
MAX_DRAWN_BYTES = 33 * 33


def option(value: Any, check: Callable[[Any], T]) -> SearchStrategy[T]:
    """Turn a plain value or a strategy into a strategy of checked values.

    A plain value is checked at once, so a wrong one is reported where it was written.
    """
    if isinstance(value, SearchStrategy):
        return value.map(check)
    return st.just(check(value))


def sizes(name: str, size: Size) -> SearchStrategy[int]:
    """Turn an integer, an inclusive range or a strategy into a strategy of sizes."""

    def check(value: int) -> int:
        if value < 0:
            raise ValueError(f"{name} = {value}: a size is at least 0")
        return int(value)

    if not isinstance(size, tuple):
        return option(size, check)
    low, high = check(size[0]), check(size[1])
    if low > high:
        raise ValueError(f"{name} = {size}: the lower end is above the upper one")
    edges = [edge for edge in EDGE_SIZES if low <= edge <= high]
    anywhere = st.integers(low, high)
    return st.one_of(anywhere, st.sampled_from(edges)) if edges else anywhere


def choice(name: str, allowed: tuple[str, ...]) -> Callable[[str], str]:
    """Return a check that a value is one of the allowed words."""

    def check(value: str) -> str:
        if value not in allowed:
            words = ", ".join(repr(word) for word in allowed)
            raise ValueError(f"{name} = {value!r}: must be one of {words}")
        return value

    return check


def named(name: str, value: str | SearchStrategy[str], names: tuple[str, ...]) -> Any:
    """Return a strategy of one of `names`, where "any" stands for each of them."""
    if value == "any":
        return st.sampled_from(names)
    return option(value, choice(name, (*names, "any"))).flatmap(
        lambda word: st.sampled_from(names) if word == "any" else st.just(word)
    )


def floating(dtype: DTypeLike) -> np.dtype[Any]:
    """Check that a dtype is float32 or float64."""
    resolved = np.dtype(dtype)
    if resolved not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype = {resolved}: must be float32 or float64")
    return resolved


def draw_bytes(draw: st.DrawFn, count: int) -> NDArray[np.intp]:
    """Draw `count` integers in 0..255, as one choice that shrinks towards zeros."""
    if count <= MAX_DRAWN_BYTES:
        raw = draw(st.binary(min_size=count, max_size=count))
        return np.frombuffer(raw, dtype=np.uint8).astype(np.intp)
    rng = np.random.default_rng(draw(st.integers(0, 2**16 - 1)))
    return rng.integers(0, 256, size=count).astype(np.intp)


def lay_out(array: NDArray[Any], layout: str) -> NDArray[Any]:
    """Return an array with the same entries and the given memory layout.

    Memory between the entries holds NaN (or the largest integer), so that code which ignores the
    strides is found out.
    """
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "reversed":
        flip = (slice(None, None, -1),) * array.ndim
        return np.ascontiguousarray(array[flip])[flip]
    if layout in ("sliced", "strided"):
        floats = np.issubdtype(array.dtype, np.floating)
        filler = np.nan if floats else np.iinfo(array.dtype).max
        if layout == "sliced":
            shape = (*array.shape[:-1], array.shape[-1] + 1)
            window = (slice(None),) * (array.ndim - 1) + (slice(None, -1),)
        else:
            shape = tuple(2 * length + 1 for length in array.shape)
            window = (slice(1, None, 2),) * array.ndim
        view = np.full(shape, filler, dtype=array.dtype)[window]
        view[...] = array
        return view
    array = np.ascontiguousarray(array)
    if layout == "readonly":
        array.flags.writeable = False
    return array


def power_of_two(scale: float) -> float:
    """Round a scale to a power of two, by which multiplication is exact."""
    return float(2.0 ** np.round(np.log2(scale)))


def draw_scale(
    draw: st.DrawFn,
    scale: SearchStrategy[float | str],
    dtype: np.dtype[Any],
    extremes: dict[str, dict[str, float]],
    spread: float,
) -> float:
    """Draw a scale; "tiny" and "huge" depend on the dtype, "any" is one of them or ordinary.

    Every entry drawn lies within a factor `spread` of the scale, and must neither overflow nor
    lose digits.
    """
    drawn = draw(scale)
    limits = extremes[dtype.name]
    if drawn == "any":
        drawn = draw(st.sampled_from((1.0, 1e-3, 1e3, limits["tiny"], limits["huge"])))
    number = limits[drawn] if isinstance(drawn, str) else float(drawn)
    info = np.finfo(dtype)
    low, high = float(info.tiny) * spread, float(info.max) / spread
    if not low <= number <= high:
        raise ValueError(f"scale = {number}: must be in [{low:.1e}, {high:.1e}] for {dtype}")
    return number


def check_scale(*words: str) -> Callable[[float | str], float | str]:
    """Return a check that a scale is positive or one of the words."""

    def check(value: float | str) -> float | str:
        if isinstance(value, str):
            return choice("scale", words)(value)
        if not 0.0 < value < np.inf:
            raise ValueError(f"scale = {value}: must be positive and finite")
        return value

    return check
