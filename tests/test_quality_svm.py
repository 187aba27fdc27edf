"""The page that compares linear answers on histograms."""

import numpy as np
import pytest
from scipy import sparse

from benches import quality_svm


@pytest.fixture
def split(rng):
    y = np.arange(80) % 3
    profile = np.array([[5.0, 1, 1, 2], [1, 5, 1, 2], [1, 1, 5, 2]])
    return quality_svm.divided(rng.poisson(profile[y]).astype(float), y)


def test_parts_hold_every_row_once_and_every_class(split):
    assert split.X.shape == (60, 4)
    assert split.X_test.shape == (20, 4)
    assert set(split.y) == set(split.y_test) == {0, 1, 2}


def test_scores_and_page(split):
    models = quality_svm.OURS | quality_svm.PEERS
    lines = []
    found = quality_svm.measure(iter([("counts", split)]), models, lines.append)
    assert list(found["counts"]) == list(models)
    accuracies = {model: run["accuracy"] for model, run in found["counts"].items()}
    assert min(accuracies.values()) > 0.4, accuracies
    assert lines[0].startswith("counts: IntersectionSVC ")
    found["other"] = {"LinearSVC": {"accuracy": 0.5, "fit": 1.0, "predict": 1e-6}}
    text = quality_svm.page(found)
    accuracy = 100 * found["counts"]["LinearSVC"]["accuracy"]
    assert f"| LinearSVC | {accuracy:.1f} | 50.0 | {(accuracy + 50) / 2:.1f} |" in text
    assert "| BundleSVC | " in text


def test_a_mean_sum_is_that_of_training(rng):
    X = rng.random((5, 3))
    model = quality_svm.MeanSum().fit(sparse.csr_array(X))
    np.testing.assert_allclose(model.transform(2 * X), 2 * X / X.sum(axis=1).mean(), rtol=1e-12)


def test_the_real_sets_are_there():
    try:
        words, leaves = quality_svm.words(), quality_svm.leaves("Mar")
    except FileNotFoundError:
        pytest.skip("HISTRS_DATA has no newsgroups20 or leaves100")
    assert words.X.shape == (4000, quality_svm.WORDS)
    assert leaves.X.shape == (1200, 64)
    assert len(np.unique(leaves.y)) == 100
