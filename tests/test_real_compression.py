"""Compressed real covariances: spoken digits (Z. Jackson et al., CC BY-SA 4.0).

They are looked for in the folder that HISTRS_DATA names, by default beside the repository.
"""

import os
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from benches._compression_data import spoken_digits
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import CovarianceCompressor, RandomMutationNN, RandomSubset
from tests.helpers import ROOT


def test_a_fiftieth_of_spoken_digits_suffices(monkeypatch):
    folder = os.environ.get("HISTRS_DATA", str(ROOT.parent / "shared" / "data"))
    monkeypatch.setenv("HISTRS_DATA", folder)
    sets = spoken_digits()
    if sets is None:
        pytest.skip(f"no spoken_digits in {folder}; set HISTRS_DATA to the folder of the real data")

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
