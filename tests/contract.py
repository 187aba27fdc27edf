"""What every estimator can do, found by trying: `python -m tests.contract` writes docs/contract.md.

A probe returns "yes", "no" or "–" (makes no sense there). It asserts what a "yes" promises, and of
a "no" that it is said: by a clear error, or by the absence of the method or parameter (a "no" of
float32 is an answer in float64).
"""

import warnings
from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import has_fit_parameter

from histrs.svm import BundleSVC
from tests.all_estimators import CASES, ROWS, Case, data
from tests.helpers import ROOT

PAGE = ROOT / "docs" / "contract.md"
YES, NO, NONE = "yes", "no", "–"
ANSWERS = ("predict", "predict_proba", "decision_function", "transform")


def fitted(case: Case, X: Any, y: Any, **parameters: Any) -> Any:
    """Return an estimator that has learned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return case.make().set_params(**parameters).fit(X, y)


def answers(model: Any, X: Any) -> dict[str, Any]:
    """Return what every method of a fitted model says."""
    found = {name: getattr(model, name)(X) for name in ANSWERS if hasattr(model, name)}
    if not found:
        found["kneighbors"], _ = model.kneighbors(X)
    return {k: v.toarray() if sparse.issparse(v) else v for k, v in found.items()}


def assert_same(one: dict[str, Any], other: dict[str, Any], rtol: float = 1e-7) -> None:
    """Assert that two models say the same."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        if isinstance(value, (list, tuple)):
            assert repr(value) == repr(other[name])
        elif np.asarray(value).dtype.kind == "f":
            scale = np.abs(value).max(initial=0.0)
            np.testing.assert_allclose(value, other[name], rtol, rtol * scale)
        else:
            assert np.mean(value == other[name]) > 1 - rtol


def assert_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Assert that two models do not say the same, by more than rounding."""
    with pytest.raises(AssertionError):
        assert_same(one, other, rtol=1e-3)


def favouring(y: Any, n_samples: int) -> Any:
    """Return weights that differ: of one class where there are classes, of the first rows else."""
    no_classes = y is None or np.asarray(y).dtype.kind == "f"
    return np.where((np.arange(n_samples) < n_samples // 2) if no_classes else y == 0, 20.0, 1.0)


# ---- probes -----------------------------------------------------------------------------------


def sample_weight(case: Case) -> str:
    """`fit(sample_weight=)`: a row of weight 0 is not there, and weights change answers."""
    if not hasattr(case.make(), "predict") and not has_fit_parameter(case.make(), "sample_weight"):
        return NONE
    X, y = data(case)
    if not has_fit_parameter(case.make(), "sample_weight"):
        with pytest.raises(TypeError, match="sample_weight"):
            case.make().fit(X, y, sample_weight=np.ones(len(X)))
        return NO
    weight = np.ones(len(X))
    weight[::4] = 0.0
    with_zeros = case.make().fit(X, y, sample_weight=weight)
    without = case.make().fit(X[weight > 0], None if y is None else y[weight > 0])
    # BundleSVC learns to a certified gap.
    rtol = 0.2 if isinstance(with_zeros, BundleSVC) else 1e-6
    assert_same(answers(with_zeros, X), answers(without, X), rtol)
    weighted = case.make().fit(X, y, sample_weight=favouring(y, len(X)))
    assert_other(answers(weighted, X), answers(case.make().fit(X, y), X))
    with pytest.raises(ValueError, match=r"(?i)weight|samples"):
        case.make().fit(X, y, sample_weight=np.ones(3))
    return YES


def class_weight(case: Case) -> str:
    """`class_weight`: more weight, more rows said to be of that class."""
    if not is_classifier(case.make()):
        return NONE
    if "class_weight" not in case.make().get_params():
        with pytest.raises(ValueError, match="class_weight"):
            case.make().set_params(class_weight="balanced")
        return NO
    X, y = data(case)
    y = np.random.default_rng(1).permutation(y)
    light, heavy = (
        np.mean(fitted(case, X, y, class_weight={0: w, 1: 1, 2: 1}).predict(X) == 0)
        for w in (1e-3, 1e3)
    )
    assert light < heavy
    return YES


def predict_proba(case: Case) -> str:
    """`predict_proba`: sums to one, and agrees with `predict`."""
    if not is_classifier(case.make()):
        return NONE
    if not hasattr(case.make(), "predict_proba"):
        return NO
    for n_classes in (2, 3):
        X, y = data(case, n_classes=n_classes)
        names = np.array(["b", "a", "c"])[y]
        model = fitted(case, X, names)
        new, _ = data(case, n_classes=n_classes, seed=1)
        proba = model.predict_proba(new)
        assert proba.shape == (len(new), n_classes)
        assert proba.min() >= 0
        np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
        np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(new))
    return YES


def decision_function(case: Case) -> str:
    """`decision_function`: (n,) of two classes, (n, k) of more; agrees with `predict`."""
    if not is_classifier(case.make()):
        return NONE
    if not hasattr(case.make(), "decision_function"):
        return NO
    for n_classes in (2, 3):
        X, y = data(case, n_classes=n_classes)
        model = fitted(case, X, y)
        scores = model.decision_function(X)
        assert scores.shape == ((len(X),) if n_classes == 2 else (len(X), n_classes))
        chosen = (scores > 0).astype(int) if n_classes == 2 else scores.argmax(axis=1)
        np.testing.assert_array_equal(model.classes_[chosen], model.predict(X))
    return YES


def several_outputs(case: Case) -> str:
    """Several targets, or several labels per row."""
    estimator = case.make()
    if not is_classifier(estimator) and not is_regressor(estimator):
        return NONE
    X, y = data(case)
    tags = estimator.__sklearn_tags__()
    several = np.eye(3)[y] if is_classifier(estimator) else np.column_stack([y, -y])
    takes = tags.target_tags.multi_output
    if is_classifier(estimator):
        takes = tags.classifier_tags.multi_label
    if not takes:
        # Nothing is learned of the first column alone.
        with pytest.raises(ValueError, match=r"(?i)1d|multilabel|shape"):
            case.make().fit(X, several)
        return NO
    assert fitted(case, X, several).predict(X).shape == several.shape
    return YES


def missing_targets(case: Case) -> str:
    """NaN in a table of targets: each learns from the rows that have it."""
    if not is_regressor(case.make()):
        return NONE
    X, y = data(case)
    several = np.column_stack([y, -y])
    several[: len(X) // 3, 1] = np.nan
    blends = hasattr(case.make(), "predict_interval")
    if not (blends or hasattr(case.make(), "_of_targets")):
        with pytest.raises(ValueError, match=r"NaN|1d|shape"):
            fitted(case, X, several)
        return NO
    model = fitted(case, X, several)
    alone = fitted(case, X[len(X) // 3 :], -y[len(X) // 3 :]).predict(X)
    # Columns of a blend are in the units of all rows.
    tolerance = {"atol": 0.1 * y.std()} if blends else {"rtol": 1e-7, "atol": 1e-9}
    np.testing.assert_allclose(model.predict(X)[:, 1], alone, **tolerance)
    return YES


def partial_fit(case: Case) -> str:
    """`partial_fit`: learns a chunk at a time, and says something else after each."""
    if not hasattr(case.make(), "partial_fit"):
        return NO
    X, y = data(case)
    model = case.make()
    found = []
    for chunk in (slice(0, 24), slice(24, None)):
        more = {"classes": np.unique(y)} if is_classifier(model) else {}
        model.partial_fit(X[chunk], *([] if y is None else [y[chunk]]), **more)
        found.append(answers(model, X))
        assert found[-1]
        assert all(len(value) == len(X) for value in found[-1].values())
        if hasattr(model, "inverse_transform"):
            # The codes of a quantizer may stay where what they stand for moves.
            found[-1]["inverse_transform"] = model.inverse_transform(model.transform(X))
    assert_other(*found)
    return YES


def warm_start(case: Case) -> str:
    """`warm_start`: a second fit to the same data says the same; the lassos take fewer steps."""
    if "warm_start" not in case.make().get_params():
        return NO
    X, y = data(case)
    model = fitted(case, X, y, warm_start=True)
    before, n_iter = answers(model, X), np.max(model.n_iter_)
    # BundleSVC learns to a certified gap, and goes on within it.
    rtol = 0.2 if isinstance(model, BundleSVC) else 1e-3
    assert_same(answers(model.fit(X, y), X), before, rtol)
    # The few rows of a Gaussian process are solved in one step from anywhere.
    assert np.max(model.n_iter_) < n_iter or n_iter == 1
    return YES


def verbose(case: Case) -> str:
    """`verbose`: changes no answer."""
    if "verbose" not in case.make().get_params():
        return NO
    X, y = data(case)
    assert_same(answers(fitted(case, X, y, verbose=1), X), answers(fitted(case, X, y), X))
    return YES


def n_jobs(case: Case) -> str:
    """`n_jobs`: changes no bit of an answer, as test_every_estimator.py tries."""
    return YES if "n_jobs" in case.make().get_params() else NO


def float32(case: Case) -> str:
    """Answers to float32 are float32, or else float64."""
    X, y = data(case)
    if not isinstance(X, np.ndarray):
        return NONE
    y = y.astype(np.float32) if is_regressor(case.make()) else y
    model = fitted(case, X.astype(np.float32), y)
    dtypes = {
        name: value.dtype
        for name, value in answers(model, X.astype(np.float32)).items()
        if value.dtype.kind == "f"
    }
    if set(dtypes.values()) <= {np.dtype(np.float32)}:
        return YES
    assert set(dtypes.values()) == {np.dtype(np.float64)}
    return NO


def sparse_input(case: Case) -> str:
    """SciPy's sparse matrices and arrays, with the same answers."""
    if case.takes != ROWS:
        return NONE
    X, y = data(case)
    X[X < 0.5] = 0.0
    if not case.make().__sklearn_tags__().input_tags.sparse:
        with pytest.raises(TypeError, match=r"(?i)sparse"):
            case.make().fit(sparse.csr_array(X), y)
        return NO
    model = fitted(case, sparse.csr_array(X), y)
    expected = answers(fitted(case, X, y), X)
    # BundleSVC learns to a certified gap.
    assert_same(answers(model, sparse.csc_matrix(X)), expected, rtol=1e-2)
    return YES


def data_frames(case: Case) -> str:
    """pandas and polars: names are kept, and checked afterwards."""
    if case.takes != ROWS:
        return NONE
    polars = pytest.importorskip("polars")
    X, y = data(case)
    plain = answers(fitted(case, X, y), X)
    names = ["red", "green", "blue", "grey"]
    for frame in (pd.DataFrame(X, columns=names), polars.DataFrame(X, schema=names)):
        model = fitted(case, frame, y)
        assert_same(answers(model, frame), plain)
        np.testing.assert_array_equal(model.feature_names_in_, names)
        for name in plain:
            with pytest.raises(ValueError, match="feature names"):
                getattr(model, name)(frame[names[::-1]])
    return YES


def set_output(case: Case) -> str:
    """`set_output`: frames with the names of the features."""
    if not hasattr(case.make(), "transform"):
        return NONE
    X, y = data(case)
    if not hasattr(case.make(), "get_feature_names_out"):
        return NO
    pytest.importorskip("polars")
    for library in ("pandas", "polars"):
        model = case.make().set_output(transform=library).fit(X, y)
        if sparse.issparse(case.make().fit(X, y).transform(X)):
            with pytest.raises(ValueError, match=r"(?i)sparse"):
                model.transform(X)
            continue
        frame = model.transform(X)
        assert type(frame).__module__.split(".")[0] == library
        assert list(frame.columns) == list(model.get_feature_names_out())
    return YES


def inverse_transform(case: Case) -> str:
    """`inverse_transform`: back to samples of the same shape."""
    if not hasattr(case.make(), "transform"):
        return NONE
    if not hasattr(case.make(), "inverse_transform"):
        return NO
    X, y = data(case)
    model = fitted(case, X, y)
    assert model.inverse_transform(model.transform(X)).shape == X.shape
    return YES


def metadata_routing(case: Case) -> str:
    """`set_fit_request`: weights given to a pipeline reach `fit`."""
    estimator = case.make()
    if not has_fit_parameter(estimator, "sample_weight"):
        return NONE
    with config_context(enable_metadata_routing=True):
        asked = clone(estimator).set_fit_request(sample_weight=True)
        assert asked.get_metadata_routing().fit.requests["sample_weight"] is True
        X, y = data(case)
        weight = favouring(y, len(X))
        routed = make_pipeline("passthrough", asked).fit(X, y, sample_weight=weight)[-1]
    assert_same(answers(routed, X), answers(clone(estimator).fit(X, y, sample_weight=weight), X))
    assert_other(answers(routed, X), answers(clone(estimator).fit(X, y), X))
    return YES


def array_api(case: Case) -> str:
    """Arrays of other libraries are converted where they enter."""
    X, y = data(case)
    if not isinstance(X, np.ndarray):
        return NONE
    other = array_api_strict.asarray(X)
    labels = y if y is None else array_api_strict.asarray(y)
    model = fitted(case, other, labels)
    found = answers(model, other)
    assert all(isinstance(value, np.ndarray) for value in found.values())
    assert_same(found, answers(fitted(case, X, y), X))
    return YES


COLUMNS: dict[str, Callable[[Case], str]] = {
    "`sample_weight`": sample_weight,
    "`class_weight`": class_weight,
    "`predict_proba`": predict_proba,
    "`decision_function`": decision_function,
    "several outputs": several_outputs,
    "missing targets": missing_targets,
    "`partial_fit`": partial_fit,
    "`warm_start`": warm_start,
    "`verbose`": verbose,
    "`n_jobs`": n_jobs,
    "float32": float32,
    "sparse": sparse_input,
    "pandas, polars": data_frames,
    "`set_output`": set_output,
    "`inverse_transform`": inverse_transform,
    "metadata routing": metadata_routing,
    "array API": array_api,
}


# ---- the page ---------------------------------------------------------------------------------

INTRODUCTION = """# What every estimator can do

A test tries each ability on every estimator, and compares its findings with this capability matrix.
"–" means that the ability does not apply. "no" means that there is no such method or parameter, or
that its use raises a clear error. For float32, "no" means that predictions are float64.

All estimators can be cloned, pickled and searched with `GridSearchCV`. Their diagrams in notebooks
link to this manual.

"""

NOTES = """
* `sample_weight`: a row of weight 0 has no effect, and a row of weight 3 is like three equal rows.
  There are exceptions. Neighbours are counted as rows, and weights multiply their votes. When rows
  are chosen as prototypes, only `RandomMutationNN` counts weights; probabilities always do.
  `IntersectionSVC` makes one step per row, with a length proportional to the weight.
* `class_weight`: condensing rules go on until every sample is classified correctly, so they have
  no `class_weight`. `RandomSubset` has none either.
* `warm_start`: the parameter exists, and a second fit to the same data gives the same predictions.
  For the lassos, the test also checks that the second fit takes fewer steps.
* missing targets: with several targets, each learns from the rows in which it is not NaN.
* `predict_proba` agrees with `predict`. `decision_function` returns one score per row for two
  classes.
* float32: predictions are float32 if the rows, and the targets of a regression, are float32.
* pandas, polars: the names of columns are kept. Later rows with other names or another order are
  refused. The same holds for all frames that narwhals reads, such as pyarrow tables. Columns hold
  numbers, Booleans, dates or durations. Only `TabularGP` takes text and categories.
* `set_output`: a transformer with sparse features raises an error, because frames cannot hold them.
* array API: arrays of other libraries in main memory, such as PyTorch's, are converted to NumPy
  arrays.

`CalibratedClassifierCV` adds probabilities to a classifier. Metadata routing passes weights through
a pipeline:

```python
import numpy as np
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from histrs.svm import IntersectionSVC

X, y = load_wine(return_X_y=True)
with sklearn.config_context(enable_metadata_routing=True):
    svm = IntersectionSVC(random_state=0).set_fit_request(sample_weight=True)
    model = CalibratedClassifierCV(make_pipeline(MinMaxScaler(clip=True), svm))
    model.fit(X, y, sample_weight=np.where(y == 0, 2.0, 1.0))
print(model.predict_proba(X[:1]).round(1))
```
"""


def row(case: Case) -> list[str]:
    """Return the answers of the probes about one estimator."""
    return [probe(case) for probe in COLUMNS.values()]


def rendered(rows: dict[str, list[str]]) -> str:
    """Return the page."""
    lines = [f"| | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    lines += [f"| `{name}` | {' | '.join(answers)} |" for name, answers in rows.items()]
    return INTRODUCTION + "\n".join(lines) + "\n" + NOTES


def written() -> dict[str, list[str]]:
    """Return the rows of the page as it is."""
    text = PAGE.read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {name.strip("`"): answers for name, *answers in lines if len(answers) == len(COLUMNS)}


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = {type(case.make()).__name__: row(case) for case in CASES}
    PAGE.write_text(rendered(table), encoding="utf-8")
