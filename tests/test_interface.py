"""What a user sees of the package before the first call: modules, signatures, types."""

import importlib
import inspect
import subprocess
import sys

import pytest

import histrs
from histrs import _estimator
from tests.fuzz.programs import public

# What a screen of `help` shows of one parameter.
LONGEST = 110


def documented():
    """Return the modules that the docstring of the package lists."""
    rows = [line.split("`") for line in histrs.__doc__.splitlines() if line.startswith("| `")]
    return [row[1].removeprefix("histrs.") for row in rows]


def methods():
    """Return the public functions and methods, by name."""
    found = {}
    for name, value in public().items():
        found[name] = value
        if inspect.isclass(value):
            for method, function in inspect.getmembers(value, inspect.isfunction):
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


def test_shared_descriptions_stand_where_they_are_named():
    @_estimator.documented({"alpha": "\nalpha : float\n    Strength.\n"}, {"beta": "beta : int"})
    class Model:
        """A model.

        Parameters
        ----------
        {alpha}
        {beta}

        Notes
        -----
        In a line {alpha} stays, as does {} alone.
        """

    text = inspect.getdoc(Model)
    assert "----------\nalpha : float\n    Strength.\nbeta : int\n\nNotes" in text
    assert "In a line {alpha} stays" in text


def test_no_description_is_left_out():
    for value in public().values():
        assert not _estimator._LINE.search(value.__doc__ or "")
    with pytest.raises(KeyError, match="gamma"):
        _estimator.documented({})(type("Model", (), {"__doc__": "A model.\n\n{gamma}\n"}))
