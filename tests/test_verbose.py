"""What takes long says how far it is, where it is asked, and nothing else speaks."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone

from histrs.kernel_approximation import ExpChi2Sampler
from histrs.neighbors import MetricKNNClassifier, MetricKNNRegressor
from histrs.prototypes import (
    CondensedNN,
    CovarianceCompressor,
    FastCondensedNN,
    HistogramCompressor,
    RandomMutationNN,
    ReducedNN,
)
from histrs.quantization import ProductQuantizer
from histrs.spd import MDM, SPDProjection, TangentSpace, Whitening
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


def test_those_that_take_long_can_be_asked():
    names = {type(case.make()).__name__ for case in SPEAKING}
    assert names >= {
        "BagOfVisualWords",
        "CondensedNN",
        "ExpChi2Sampler",
        "FastCondensedNN",
        "FisherVector",
        "KernelProjectionMap",
        "MDM",
        "MetricKNNClassifier",
        "MetricKNNRegressor",
        "PartDetector",
        "Potato",
        "ProductQuantizer",
        "RandomMutationNN",
        "ReducedNN",
        "SPDProjection",
        "SparseKernelMap",
        "TangentSpace",
        "Whitening",
    }


@each
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("verbose", [0, 1])
def test_progress_is_shown_where_it_is_asked_for(case, verbose, capfd):
    fitted(case, verbose)
    output = "".join(capfd.readouterr())
    assert bool(output) == bool(verbose)


def test_neighbours_tell_of_how_many_rows_they_are_known(rng, capfd, monkeypatch):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    monkeypatch.setattr("histrs.neighbors._space._BATCH", 8 * 20)
    MetricKNNRegressor("auto", verbose=1).fit(rng.random((20, 3)), rng.random(20))
    assert capfd.readouterr().err.splitlines() == [
        f"MetricKNNRegressor: iteration {k}, {n} rows" for k, n in ((1, 8), (2, 16), (3, 20))
    ]


@pytest.mark.parametrize("parameters", [{"rotation": "opq"}, {"n_levels": 2}, {"n_blocks": 3}])
def test_a_quantizer_tells_of_blocks_and_rounds(parameters, rng, capfd, monkeypatch):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    X = rng.random((60, 6))
    quantizer = ProductQuantizer(2, 4, random_state=0).set_params(**parameters)
    quiet = clone(quantizer).fit(X)
    assert capfd.readouterr().err == ""
    loud = quantizer.set_params(verbose=1).fit(X)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) >= quantizer.n_blocks
    assert all(line.startswith("ProductQuantizer: iteration ") for line in lines)
    np.testing.assert_array_equal(loud.codebooks_, quiet.codebooks_)


def test_rules_tell_of_their_prototypes_and_of_what_is_right(rng, capfd, monkeypatch):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    X, y = rng.random((60, 2)), rng.integers(0, 2, 60)

    def lines(model):
        model.set_params(metric="euclidean", verbose=1).fit(X, y)
        return len(model.prototypes_), capfd.readouterr().err.splitlines()

    count, condensed = lines(CondensedNN(random_state=0))
    assert len(condensed) == count
    assert condensed[0].startswith("CondensedNN: iteration 1, 1 prototypes, ")
    assert condensed[-1] == f"CondensedNN: iteration {count}, {count} prototypes, 60/60 right"
    kept, reduced = lines(ReducedNN(random_state=0))
    assert len(reduced) == count + 1
    assert reduced[-1].endswith(f", {kept} of {count} prototypes needed")
    count, fast = lines(FastCondensedNN())
    assert fast[-1].endswith(f", {count} prototypes, 0 samples wrong")
    model = RandomMutationNN(0.1, max_iter=70, random_state=0)
    _, climbed = lines(model)
    right = np.count_nonzero(model.predict(X) == y)
    assert [line.split(", ")[1] for line in climbed] == [f"{n}/70 exchanges" for n in (32, 64, 70)]
    assert climbed[-1].endswith(f", {right} right")


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


def test_means_of_covariances_tell_of_each(rng, capfd, monkeypatch):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    A = rng.normal(size=(12, 3, 9))
    X, group = A @ A.mT, np.repeat([0, 1, 2], [3, 4, 5])
    for model, arguments, sizes in (
        (MDM(), {"y": group}, [3, 4, 5]),
        (Whitening(), {"domain": group}, [3, 4, 5]),
        (TangentSpace(), {}, [12]),
    ):
        model.set_params(verbose=1).fit(X, **arguments)
        lines = capfd.readouterr().err.splitlines()
        name = type(model).__name__
        assert len(lines) == len(sizes)
        for k, (line, size) in enumerate(zip(lines, sizes, strict=True), 1):
            assert line.startswith(f"{name}: iteration {k}, mean of {size} matrices, ")
            assert float(line.split("residual ")[1]) <= 1e-8


def test_a_projection_tells_of_its_objective(rng, capfd, monkeypatch):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    A = rng.normal(size=(20, 4, 9)) * (1 + np.arange(20) % 2)[:, None, None]
    model = SPDProjection(2, verbose=1).fit(A @ A.mT, np.arange(20) % 2)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) > model.n_iter_
    assert float(lines[-1].split("best ")[1]) == pytest.approx(model.objective_, rel=1e-5)


def test_a_search_for_the_scale_tells_of_every_candidate(rng, capfd, monkeypatch):
    monkeypatch.setattr("histrs._progress.tqdm", None)
    X = rng.random((40, 5))
    sampler = ExpChi2Sampler(4, gamma="auto", random_state=0, verbose=1).fit(X, X[:, 0])
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 7
    errors = [float(line.split("error left out ")[1]) for line in lines]
    best = float(lines[int(np.argmin(errors))].split("gamma ")[1].split(",")[0])
    assert best == pytest.approx(sampler.gamma_, rel=1e-2)
    sampler.set_params(gamma="scale").fit(X)
    assert capfd.readouterr().err == ""


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
