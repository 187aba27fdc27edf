"""How rows are left out for the inverse temperature, and what learns from the others."""

import warnings
from typing import ClassVar

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from histrs.prototypes import _gamma
from histrs.prototypes._base import Training
from histrs.prototypes._gamma import _possible_folds, held_out_inverse_temperature
from histrs.prototypes._learned import LearnedPrototypes


class Asked(LearnedPrototypes):
    """Notes how it is trained, and warns."""

    fits: ClassVar[list] = []
    common: ClassVar[float] = 0.0
    """Is in all scores."""

    def __init__(
        self,
        compression=1,
        gamma="cv",
        random_state=None,
        verbose=1,
        class_weight=None,
        calibration="held_out",
    ):
        self.compression = compression
        self.gamma = gamma
        self.random_state = random_state
        self.verbose = verbose
        self.class_weight = class_weight
        self.calibration = calibration

    def fit(self, X, y, sample_weight=None):
        warnings.warn("it did not converge", ConvergenceWarning, stacklevel=2)
        self.fits.append({**self.get_params(), "rows": X[:, 0].astype(int)})
        self.classes_ = np.unique(y)
        return self

    def score(self, X, y, sample_weight=None):
        return -abs(np.log(self.gamma / 6.0))

    def _class_scores(self, X):
        return self.common - X[:, 1:]


@pytest.fixture
def asked(monkeypatch):
    monkeypatch.setattr(Asked, "fits", [])
    return Asked(class_weight={0: 3.0})


def training(n, n_classes=2):
    labels = np.arange(n) % n_classes
    distances = np.abs(labels[:, None] - np.arange(n_classes))
    # Every fifth row is nearer to another class.
    distances[::5] = distances[::5, ::-1]
    X = np.column_stack([np.arange(n), 3.0 * distances])
    return Training(None, X, labels, np.arange(n_classes))


def of_sizes(*sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return Training(None, labels, labels, np.arange(len(sizes)))


@pytest.mark.parametrize("compression", [1, 2, 3, 4, 0.3])
def test_every_fold_leaves_each_class_what_it_needs(compression):
    needed = compression if compression >= 1 else 1
    for smallest in range(1, 10):
        found = _possible_folds(of_sizes(9, smallest), compression)
        n_folds = min(3, smallest)
        # Folds of a class are as equal as can be.
        largest_fold = max(len(fold) for fold in np.array_split(np.arange(smallest), n_folds))
        enough = n_folds > 1 and smallest - largest_fold >= needed
        assert found == (n_folds if enough else 0), smallest


def test_the_temperature_is_that_of_rows_left_out(asked, monkeypatch):
    asked.set_params(gamma=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = held_out_inverse_temperature(asked, training(30), np.random.RandomState(0))
    assert few != 1.0
    for common in (-1e3, 1e3):
        monkeypatch.setattr(Asked, "common", common)
        again = held_out_inverse_temperature(asked, training(30), np.random.RandomState(0))
        assert again == pytest.approx(few, rel=1e-6)
    monkeypatch.setattr(Asked, "common", 0.0)
    del asked.fits[3:]
    assert [len(fit["rows"]) for fit in asked.fits] == [20, 20, 20]
    assert {fit["gamma"] for fit in asked.fits} == {2.0}
    assert all(fit["verbose"] == 0 and fit["class_weight"] is None for fit in asked.fits)
    # Of many rows one part tells enough.
    for many, n_fits in ((30, 3), (29, 1)):
        monkeypatch.setattr(_gamma, "_MANY_ROWS", many)
        asked.fits.clear()
        held_out_inverse_temperature(asked, training(30), np.random.RandomState(0))
        assert len(asked.fits) == n_fits
    # Of two rows of a class each is left out once, and of one none.
    asked.fits.clear()
    assert held_out_inverse_temperature(asked, training(4), np.random.RandomState(0)) != 1.0
    assert len(asked.fits) == 2
    asked.fits.clear()
    assert held_out_inverse_temperature(asked, training(3), np.random.RandomState(0)) == 1.0
    assert not asked.fits
