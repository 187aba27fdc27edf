"""The page that compares answers on EEG with pyRiemann's."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benches import quality_spd
from histrs.spd import MDM, TangentSpace


@pytest.fixture
def trials(rng):
    n = 60
    y = np.arange(n) % 3
    A = rng.standard_normal((n, 3, 30))
    A[np.arange(n), y] *= 2
    session = np.repeat([0, 1, 2, 3], 15)
    A *= (1 + session)[:, None, None]
    return quality_spd.Trials(A @ A.transpose(0, 2, 1) / 30, y, session // 2, session)


def test_splits_leave_out_subjects_and_sessions(trials):
    found = list(quality_spd.splits(trials))
    assert [task for task, *_ in found] == ["subjects out"] * 2 + ["sessions out"] * 4
    for task, train, test, domain in found:
        assert not set(domain[train]) & set(domain[test])
        if task == "sessions out":
            assert len(set(trials.subject[train])) == 1
            assert set(trials.subject[train]) == set(trials.subject[test])


def test_scores_and_page(trials):
    models = {
        "MDM": MDM,
        "tangent": lambda: make_pipeline(TangentSpace(), LogisticRegression()),
    }
    found = quality_spd.measure(trials, models, lambda line: None)
    assert set(found) == {
        f"{task}{end}" for task in quality_spd.TASKS for end in ("", ", recentred")
    }
    for scores in found.values():
        for runs in scores.values():
            for run in runs:
                assert 0.5 < run["accuracy"] <= 1.0
                assert 0.0 < run["log loss"] < 1.2
    text = quality_spd.page(found)
    assert "## Subjects out, recentred" in text
    mean = np.mean([run["accuracy"] for run in found["sessions out"]["MDM"]])
    assert f"| MDM | {mean:.3f} ± " in text


def test_classes_that_training_lacks_have_no_probability(trials):
    X, y = trials.X, trials.y
    some = y < 2
    scores = quality_spd.judge(MDM(), X[some], y[some], X, y)
    assert scores["accuracy"] < 0.7
    assert scores["log loss"] > 5.0


def test_the_real_trials_are_those_that_the_authors_kept():
    try:
        trials = quality_spd.load()
    except FileNotFoundError:
        pytest.skip("HISTRS_DATA has no ssvep_exo")
    assert trials.X.shape == (864, 24, 24)
    assert len(np.unique(trials.subject)) == 12
    np.testing.assert_array_equal(np.bincount(trials.y), 216)
