"""Real data: leaves, words, images, spoken digits and photographs of streets.

They are looked for in the folder that HISTRS_DATA names, by default beside the repository.
Sources: 100 leaves (Mallah et al. 2013, UCI, CC BY 4.0), 20 Newsgroups (Lang 1995, UCI, CC BY 4.0),
Fashion-MNIST (Xiao et al. 2017, MIT), spoken digits (Z. Jackson et al., CC BY-SA 4.0), Penn-Fudan
(Wang, Shi, Song and Shen 2007).
"""

import gzip
import io
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.preprocessing import normalize

from benches._compression_data import spoken_digits
from histrs.detection import PartDetector
from histrs.gaussian_process import IntersectionGPClassifier
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import CovarianceCompressor, RandomMutationNN, RandomSubset
from histrs.quantization import ProductQuantizer
from tests.helpers import ROOT, assert_close, build_plain

pytestmark = pytest.mark.slow

DATA = Path(os.environ.get("HISTRS_DATA", ROOT.parent / "shared" / "data"))


class Problem(NamedTuple):
    """Histograms and labels to train and to test with, and what is good for them."""

    X: Any
    y: np.ndarray
    X_star: Any
    y_star: np.ndarray
    parameters: dict[str, float]
    accuracy: float


def leaves():
    """Margin and texture of leaves of 100 species, 64 bins each; every fourth is for testing."""
    parts = []
    for name in ("Mar", "Tex"):
        lines = (DATA / "leaves100" / f"data_{name}_64.txt").read_text().splitlines()
        table = np.array([line.split(",") for line in lines])
        table = table[np.argsort(table[:, 0], kind="stable")]
        parts.append(table[:, 1:].astype(float))
    X, y, test = np.hstack(parts), table[:, 0], np.arange(len(table)) % 4 == 0
    return Problem(X[~test], y[~test], X[test], y[test], {"noise": 0.3}, 0.93)


def newsgroups():
    """Words of messages, relative frequencies of square roots, by date."""
    with np.load(DATA / "newsgroups20" / "counts.npz") as stored:
        parts = []
        for part, n_rows in (("train", 2000), ("test", 1000)):
            csr = (stored[f"{part}_{name}"] for name in ("data", "indices", "indptr"))
            X = sparse.csr_array(tuple(csr), shape=stored[f"{part}_shape"])
            rows = np.random.default_rng(0).permutation(X.shape[0])[:n_rows]
            X = normalize(np.sqrt(X[rows].astype(np.float64)), "l1")
            parts += [X, stored[f"y_{part}"][rows]]
    return Problem(*parts, {"noise": 0.1}, 0.65)


def clothes():
    """Images of clothes as they are: 784 pixels of 256 levels."""
    parts = []
    for part, n_rows in (("train", 2000), ("t10k", 1000)):
        for name, header in (("images-idx3", 16), ("labels-idx1", 8)):
            with gzip.open(DATA / "fashion_mnist" / f"{part}-{name}-ubyte.gz") as file:
                values = np.frombuffer(file.read(header + 784 * n_rows), np.uint8, offset=header)
            parts.append(values.reshape(-1, 784) if header == 16 else values[:n_rows])
    return Problem(*parts, {"amplitude": 1e-5}, 0.80)


@pytest.fixture(scope="module", params=[leaves, newsgroups, clothes], ids=lambda f: f.__name__)
def problem(request):
    try:
        return request.param()
    except FileNotFoundError as error:
        pytest.skip(f"no {error.filename}; set HISTRS_DATA to the folder of the real data")


@pytest.fixture(scope="module")
def exact(problem):
    model = build_plain(IntersectionGPClassifier, solver="cholesky", **problem.parameters)
    return model.fit(problem.X, problem.y)


def test_accuracy(problem, exact):
    assert exact.score(problem.X_star, problem.y_star) > problem.accuracy


@pytest.mark.parametrize("preconditioner", ["auto", "pivoted-cholesky"])
def test_iterations_end_at_the_exact_solution(problem, exact, preconditioner):
    # Calibration differs: iterations hold folds out, where the factor leaves out every row.
    model = build_plain(
        IntersectionGPClassifier,
        calibration=None,
        solver="cg",
        preconditioner=preconditioner,
        tol=1e-7,
        **problem.parameters,
    )
    model.fit(problem.X, problem.y)
    assert model.n_iter_.max() < 100
    means, variances = exact.latent_mean_and_variance(problem.X_star)
    assert_close(model.decision_function(problem.X_star), means, 1e-5)
    _, variance = model.latent_mean_and_variance(problem.X_star[:20])
    assert_close(variance, variances[:20], 1e-5)


def test_tables_lose_no_accuracy(problem, exact):
    model = build_plain(
        IntersectionGPClassifier, n_bins=100, solver="cholesky", **problem.parameters
    )
    model.fit(problem.X, problem.y)
    score = exact.score(problem.X_star, problem.y_star)
    assert abs(model.score(problem.X_star, problem.y_star) - score) < 0.01
    scores = exact.decision_function(problem.X_star)
    error = np.abs(model.decision_function(problem.X_star) - scores)
    assert (error <= model.quantization_error_bound_).all()
    assert np.sqrt(np.mean(error**2)) < 0.05 * scores.std()


def test_uncertain_predictions_are_wrong_more_often(problem, exact):
    rows = slice(0, 400)
    y_star = problem.y_star[rows]
    probabilities = exact.predict_proba(problem.X_star[rows])
    order = np.argsort(probabilities.max(axis=1))
    half = len(order) // 2
    predicted = exact.classes_[probabilities.argmax(axis=1)]
    uncertain, certain = (
        accuracy_score(y_star[part], predicted[part]) for part in (order[:half], order[half:])
    )
    assert certain > uncertain + 0.1 * (1 - uncertain)


# ---- compressed covariances ------------------------------------------------------------------


def test_a_fiftieth_of_spoken_digits_suffices(monkeypatch):
    monkeypatch.setenv("HISTRS_DATA", str(DATA))
    sets = spoken_digits()
    if sets is None:
        pytest.skip(f"no spoken_digits in {DATA}; set HISTRS_DATA to the folder of the real data")

    def error(model):
        return 1 - model.fit(sets.X, sets.y).score(sets.X_test, sets.y_test)

    learned = CovarianceCompressor(0.02, gamma=6.0, max_iter=40, tol=1e-3, random_state=0)
    with warnings.catch_warnings():
        # Few iterations, to be done soon.
        warnings.simplefilter("ignore", ConvergenceWarning)
        of_learned = error(learned)
    assert of_learned < error(MetricKNNClassifier()) + 0.03
    assert of_learned < error(RandomMutationNN(0.02, max_iter=200, random_state=0)) - 0.02
    assert of_learned < error(RandomSubset(0.02, random_state=0)) - 0.1


# ---- pedestrians -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def photographs():
    """Two of three to learn from, at half the size."""
    Image = pytest.importorskip("PIL.Image")
    path = DATA / "penn_fudan" / "pedestrians.npz"
    if not path.is_file():
        pytest.skip(f"no {path}; set HISTRS_DATA to the folder of the real data")
    with np.load(path) as stored:
        jpeg, offsets, boxes = (stored[name] for name in ("jpeg", "offsets", "boxes"))
    images, own = [], []
    for i in range(100, 118):
        file = io.BytesIO(jpeg[offsets[i] : offsets[i + 1]].tobytes())
        image = Image.open(file).convert("RGB")
        images.append(np.asarray(image.resize((image.width // 2, image.height // 2))))
        own.append(boxes[boxes[:, 0] == i, 1:] / 2)
    return (images[:12], own[:12]), (images[12:], own[12:])


@pytest.mark.parametrize("quantizer", [ProductQuantizer(4, 128, random_state=0), None], ids=str)
def test_pedestrians_are_found_by_codes_as_by_features(photographs, quantizer):
    train, test = photographs
    detector = PartDetector(
        n_components=1,
        n_parts=0,
        quantizer=quantizer,
        levels_per_octave=4,
        n_root_rounds=1,
        mirror=False,
        random_state=0,
    )
    assert detector.fit(*train).score(*test) > 0.5
