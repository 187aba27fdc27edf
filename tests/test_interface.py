"""What a user sees of the package: modules, signatures, types, the command and warnings."""

import importlib
import inspect
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import histrs
from histrs import __main__, __version__, _estimator, _histrs
from histrs._warnings import warn
from histrs.kernel_approximation import AdditiveChi2Map
from histrs.metrics import sinkhorn_distances
from histrs.prototypes import CovarianceCompressor, HistogramCompressor
from histrs.spd import SPDProjection, jbld_mean
from histrs.streaming import MomentLasso, Moments, PCARidge
from histrs.svm import BundleSVC, IntersectionSVC
from histrs.transport import sinkhorn, sinkhorn_barycenter
from tests.fuzz.programs import public

# What a screen of `help` shows of one parameter.
LONGEST = 110


def documented():
    """Return the modules that the docstring of the package lists."""
    rows = [line.split("`") for line in histrs.__doc__.splitlines() if line.startswith("| `")]
    return [row[1].removeprefix("histrs.") for row in rows]


def _is_of_python(value):
    return inspect.isfunction(value) or inspect.ismethod(value)


def methods():
    """Return the public functions and methods, by name."""
    found = {}
    for name, value in public().items():
        found[name] = value
        if inspect.isclass(value):
            for method, function in inspect.getmembers(value, _is_of_python):
                if not method.startswith("_") and function.__module__.startswith("histrs"):
                    found[f"{name}.{method}"] = function
    return found


METHODS = methods()


@pytest.mark.parametrize("module", documented())
def test_modules_are_reached_from_the_package(module):
    assert getattr(histrs, module) is importlib.import_module(f"histrs.{module}")
    assert module in dir(histrs)


def test_modules_are_not_imported_before_they_are_asked_for():
    code = "import sys, histrs; assert 'sklearn' not in sys.modules; histrs.metrics.chi2_distances"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_not_there_is_said():
    with pytest.raises(AttributeError, match="module 'histrs' has no attribute 'metricks'"):
        histrs.metricks  # noqa: B018


@pytest.mark.parametrize("name", METHODS)
def test_signatures_are_short_enough_to_read(name):
    for parameter in inspect.signature(METHODS[name]).parameters.values():
        assert len(str(parameter)) <= LONGEST, str(parameter)


@pytest.mark.parametrize(
    "name", [n for n in METHODS if n.rpartition(".")[2].startswith(("predict", "transform"))]
)
def test_predictions_and_features_have_a_type(name):
    annotation = inspect.signature(METHODS[name]).return_annotation
    assert annotation not in (inspect.Signature.empty, "Any"), annotation


def test_no_description_is_left_out():
    for value in METHODS.values():
        assert not _estimator._LINE.search(value.__doc__ or "")
    with pytest.raises(KeyError, match="gamma"):
        _estimator.documented({})(type("Model", (), {"__doc__": "A model.\n\n{gamma}\n"}))


# ---- the command ---------------------------------------------------------------------------------


def test_version():
    command = [sys.executable, "-m", "histrs", "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == f"histrs {__version__}\n"


def test_info(capsys):
    assert __main__.main(["--info"]) == 0
    facts = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert facts["histrs"] == __version__
    assert facts["numpy"] == np.__version__
    assert facts["instructions"] == _histrs.instruction_set()


@pytest.mark.parametrize("arguments", [[], ["demo"]])
def test_anything_else_is_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        __main__.main(arguments)
    assert stop.value.code == 2
    assert "--info" in capsys.readouterr().err


# ---- warnings ------------------------------------------------------------------------------------


def rows(rng):
    X = rng.random((60, 6)) + 0.01
    return X / X.sum(axis=1, keepdims=True), np.arange(60) % 2


def stacks(rng):
    A = rng.standard_normal((30, 20, 3))
    return A.swapaxes(1, 2) @ A, np.arange(30) % 2


CALLS = {
    "BundleSVC": lambda X, y, P: BundleSVC(max_iter=1).fit(X, y),
    "BundleSVC in a pipeline": lambda X, y, P: make_pipeline(
        MaxAbsScaler(), BundleSVC(max_iter=1)
    ).fit(X, y),
    "BundleSVC in a search": lambda X, y, P: GridSearchCV(
        BundleSVC(max_iter=1), {"alpha": [1e-3]}, cv=2
    ).fit(X, y),
    "BundleSVC in a cross-validation": lambda X, y, P: cross_val_score(
        BundleSVC(max_iter=1), X, y, cv=2
    ),
    "IntersectionSVC": lambda X, y, P: IntersectionSVC(
        max_iter=1, early_stopping=True, random_state=0
    ).fit(X, y),
    "MomentLasso": lambda X, y, P: MomentLasso(1e-6, max_iter=1, tol=1e-14).fit(X, y),
    "MomentLasso of moments": lambda X, y, P: MomentLasso(1e-6, max_iter=1, tol=1e-14).fit_moments(
        Moments.of(X, y)
    ),
    "PCARidge": lambda X, y, P: PCARidge(alphas=[1e9, 1e8]).fit(X, X[:, 0]),
    "HistogramCompressor": lambda X, y, P: HistogramCompressor(
        2, max_iter=1, tol=1e-12, random_state=0
    ).fit(X, y),
    "CovarianceCompressor": lambda X, y, P: CovarianceCompressor(
        2, max_iter=1, tol=1e-12, random_state=0
    ).fit(P, y[:30]),
    "SPDProjection": lambda X, y, P: SPDProjection(2, max_iter=1, tol=1e-12).fit(P, y[:30]),
    "jbld_mean": lambda X, y, P: jbld_mean(P, max_iter=1, tol=1e-15),
    "sinkhorn": lambda X, y, P: sinkhorn(
        X[0], X[1], M=np.ones((6, 6)) - np.eye(6), reg=0.01, max_iter=1
    ),
    "sinkhorn_barycenter": lambda X, y, P: sinkhorn_barycenter(
        X[:3], M=np.ones((6, 6)) - np.eye(6), reg=0.05, max_iter=1
    ),
    "sinkhorn_distances": lambda X, y, P: sinkhorn_distances(
        X, M=np.ones((6, 6)) - np.eye(6), reg=0.01, max_iter=1
    ),
    "AdditiveChi2Map": lambda X, y, P: AdditiveChi2Map(1).fit(X).transform(1e9 * X),
}


@pytest.mark.parametrize("call", CALLS)
def test_warnings_name_the_line_of_the_caller(rng, call):
    (X, y), (P, _) = rows(rng), stacks(rng)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[call](X, y, P)
    assert caught
    assert {warning.filename for warning in caught} == {__file__}


def test_a_call_without_a_caller_warns_all_the_same():
    code = "from histrs._warnings import warn; warn('here')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "<string>:1: UserWarning: here" in done.stderr
    with pytest.warns(ConvergenceWarning, match="there"):
        warn("there", ConvergenceWarning)
