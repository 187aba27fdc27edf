"""What takes long says how far it is, where it is asked, and nothing else speaks."""

import re
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone

from histrs.gaussian_process import TabularGPClassifier, TabularGPRegressor
from histrs.kernel_approximation import ExpChi2Sampler
from histrs.neighbors import MetricKNNClassifier, MetricKNNRegressor
from histrs.prototypes import CovarianceCompressor, HistogramCompressor, RandomMutationNN
from tests.all_estimators import CASES, data

# Of those whose case has nothing to search or to learn by iterations.
INSTEAD = {
    MetricKNNClassifier: {"n_neighbors": "auto"},
    MetricKNNRegressor: {"n_neighbors": "auto"},
    ExpChi2Sampler: {"gamma": "auto"},
}
SPEAKING = [case for case in CASES if "verbose" in case.make().get_params(deep=False)]
each = pytest.mark.parametrize("case", SPEAKING, ids=lambda case: type(case.make()).__name__)


def fitted(case, verbose):
    model = case.make()
    model.set_params(verbose=verbose, **INSTEAD.get(type(model), {}))
    X, y = data(case._replace(make=lambda: model))
    return model.fit(X, y)


@each
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("verbose", [0, 1])
def test_progress_is_shown_where_it_is_asked_for(case, verbose, capfd):
    fitted(case, verbose)
    output = "".join(capfd.readouterr())
    assert bool(output) == bool(verbose)


def test_compressors_tell_of_every_loss(rng, capfd, monkeypatch):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    y = np.arange(30) % 2
    A = rng.normal(size=(30, 3, 9)) * (1 + y)[:, None, None]
    for model, X in (
        (CovarianceCompressor(1, random_state=0), A @ A.mT),
        (HistogramCompressor(1, tol=0.1, random_state=0), rng.random((30, 4))),
    ):
        quiet = clone(model).fit(X, y)
        assert capfd.readouterr().err == ""
        loud = model.set_params(verbose=1).fit(X, y)
        assert len(capfd.readouterr().err.splitlines()) == loud.n_iter_ == quiet.n_iter_


@pytest.mark.parametrize("make", [TabularGPRegressor, TabularGPClassifier])
def test_tables_tell_the_stages_of_a_fit(rng, capfd, monkeypatch, make):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    X = rng.normal(size=(120, 3))
    y = np.exp(X[:, 0]) if make is TabularGPRegressor else (X[:, 0] > 0.0).astype(int)
    make(verbose=1, random_state=0).fit(X, y)
    lines = capfd.readouterr().err.splitlines()
    form = re.compile(make.__name__ + r": stage (\d+) of (\d+), (.+?)(, about [\d.]+ s left)?$")
    found = [form.match(line).groups() for line in lines]
    places, totals = (np.array([int(line[k]) for line in found]) for k in (0, 1))
    np.testing.assert_array_equal(places, np.arange(1, len(found) + 1))
    assert np.all(totals >= places)
    assert totals[-1] == places[-1]
    stages = [line[2] for line in found]
    assert {"even", "levels", "radial", "ranks", "blend", "solve"} <= set(stages)
    assert ("target transform log" in stages) == (make is TabularGPRegressor)
    assert [line[3] is None for line in found] == [True] + [False] * (len(found) - 1)


class Bar:
    """Counts like tqdm."""

    made: ClassVar[list] = []

    def __init__(self, desc, total, unit, leave):
        self.total, self.n = total, 0
        self.made.append(self)

    def set_postfix_str(self, text, refresh):
        """Show nothing."""

    def update(self):
        self.n += 1

    def close(self):
        """Stay as it is."""


@pytest.mark.parametrize("max_iter", [1, 32, 33, 70])
def test_a_bar_ends_where_it_said(rng, monkeypatch, max_iter):
    monkeypatch.setattr("histrs._progress.tqdm", Bar)
    monkeypatch.setattr(Bar, "made", [])
    X, y = rng.random((60, 2)), rng.integers(0, 2, 60)
    model = RandomMutationNN(0.1, metric="euclidean", random_state=0, max_iter=max_iter)
    model.set_params(verbose=1).fit(X, y)
    (bar,) = Bar.made
    assert bar.n == bar.total
