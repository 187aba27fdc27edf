"""The error of feature maps of the additive chi-square kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from histrs.kernel_approximation import AdditiveChi2Map
from histrs.kernel_approximation._additive_chi2 import Method
from histrs.plotting._pyplot import import_pyplot

_MARKERS: dict[Method, str] = {"rational": "o", "chebyshev": "s", "periodic": "^", "power": "x"}


def plot_kernel_error(
    domain: tuple[float, float] = (1e-6, 1.0),
    *,
    n_components: Iterable[int] = range(1, 22),
    methods: Sequence[Method] = ("rational", "chebyshev", "periodic", "power"),
    ax: Any = None,
) -> Any:
    """Draw the error of `AdditiveChi2Map` against its number of components.

    The error is `kernel_error_bound_`: what the kernel :math:`2xy/(x + y)` of two values in the
    domain is off by, at most.

    Parameters
    ----------
    domain : pair of floats, default=(1e-6, 1.0)
        The smallest and the largest value; of a fitted map, `map.domain_`.
    n_components : iterable of int, default=range(1, 22)
        Numbers of components; the periodic map leaves out even ones.
    methods : sequence of str, default=("rational", "chebyshev", "periodic", "power")
        Methods of `AdditiveChi2Map`.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes, with a line for each method.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from histrs.plotting import plot_kernel_error
    >>> ax = plot_kernel_error((1e-4, 1.0), n_components=[3, 5, 9])
    >>> [line.get_label() for line in ax.lines]
    ['rational', 'chebyshev', 'periodic', 'power']
    """
    if ax is None:
        _, ax = import_pyplot().subplots(layout="constrained")
    numbers = list(n_components)
    for method in methods:
        counts = [m for m in numbers if method != "periodic" or m % 2 == 1]
        errors = [_error(m, method, domain) for m in counts]
        ax.semilogy(counts, errors, marker=_MARKERS[method], markersize=4, label=method)
    ax.set(
        xlabel="components for each feature",
        ylabel="largest error of 2xy/(x + y)",
        title=f"Values from {domain[0]:.3g} to {domain[1]:.3g}",
    )
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def _error(n_components: int, method: Method, domain: tuple[float, float]) -> float:
    model = AdditiveChi2Map(n_components, method=method, domain=tuple(domain)).fit([[domain[1]]])
    return float(model.kernel_error_bound_)
