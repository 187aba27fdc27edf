"""Drawings: what the lines show."""

import sys

import numpy as np
import pytest

from histrs.kernel_approximation import AdditiveChi2Map
from histrs.plotting import plot_kernel_error


@pytest.fixture
def figures():
    matplotlib = pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    yield plt
    plt.close("all")


def test_kernel_error_draws_the_bounds(figures):
    domain = (1e-3, 2.0)
    ax = plot_kernel_error(domain, n_components=[1, 2, 3, 5])
    lines = {line.get_label(): line.get_xydata() for line in ax.lines}
    assert list(lines) == ["rational", "chebyshev", "periodic", "power"]
    for method, points in lines.items():
        counts = [1, 3, 5] if method == "periodic" else [1, 2, 3, 5]
        np.testing.assert_array_equal(points[:, 0], counts)
        for m, error in points:
            model = AdditiveChi2Map(int(m), method=method, domain=domain).fit([[1.0]])
            assert error == model.kernel_error_bound_


def test_kernel_error_draws_where_it_is_told(figures):
    _, ax = figures.subplots()
    assert plot_kernel_error(n_components=[3], methods=["power"], ax=ax) is ax
    assert len(ax.lines) == 1


def test_without_matplotlib_the_cure_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install histrs\[plot\]"):
        plot_kernel_error()
