"""What a fit learns of an additive kernel, and where it looks for it."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from histrs import _histrs
from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._bound.pairs import PairKernel
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning import additive
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._learning.learner import Learner
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process.kernels import Interactions, Intersection
from tests.helpers import of_terms

each = pytest.mark.parametrize
PAIRED = {"interactions": [(0, 1)]}
PAIRS = {"pairs": PairKernel.of(np.eye(4), [(0, 1)], 3)}
CUBIC = {"smoothness": "cubic"}
BOTH = {"smoothness": "both"}


def start_of(kernel):
    return Hyperparameters(np.array([0.1]), np.array([1.0]), kernel)


def columns_of(X):
    return _histrs.SortedColumns(np.ascontiguousarray(X), 1)


def problem_of(model, X, Y):
    model._drawn_seed = np.array([-1])
    return model._problem(X, Y, None)


# ---- where hyper-parameters are searched -------------------------------------------------------


@each(
    ("parameters", "parts", "more"),
    [
        ({}, {}, []),
        ({"feature_weights": [1.0, 2.0, 3.0, 4.0]}, {}, []),
        ({"feature_transform": "power"}, {}, ["exponent"]),
        ({"feature_weights": "ard"}, {}, ["feature_weights"]),
        ({"feature_weights": "scale"}, {}, []),
        (PAIRED, PAIRS, ["interaction_weight"]),
        (CUBIC, CUBIC, ["slope_weight"]),
        (BOTH, BOTH, ["slope_weight", "rough_weight"]),
    ],
)
def test_parameters_that_the_kernel_has_are_searched(parameters, parts, more):
    def names_of(**given):
        model = IntersectionGPRegressor(**of_terms(**given))
        kernel = replace(model._asked.terms.start(columns_of(np.eye(4)), 1), **parts)
        return set(model._learner().space(start_of(kernel)).names)

    free = ["noise", "amplitude", *more]
    assert names_of(**parameters) == set(free)
    for name in free:
        if name != "feature_weights":
            fixed = names_of(**parameters, **{f"{name}_bounds": "fixed"})
            assert fixed == set(free) - {name}


def test_weights_of_features_start_within_their_bounds():
    kernel = GeneralizedKernel(bounds={"feature_weights": (0.5, 4.0)})
    given = replace(kernel, weights=np.array([0.1, 1.0, 3.0, 9.0]))
    np.testing.assert_allclose(additive._within_bounds(given, 4).weights, [0.5, 1.0, 3.0, 4.0])
    np.testing.assert_array_equal(additive._within_bounds(kernel, 4).weights, np.ones(4))
    fixed = GeneralizedKernel(bounds={"feature_weights": "fixed"})
    assert additive._within_bounds(fixed, 4) is fixed


@each("parameters", [{"feature_weights_bounds": "fixed"}, {"optimizer": None}])
def test_relevance_is_learned_or_not_asked_for(rng, parameters):
    model = IntersectionGPRegressor(**of_terms(feature_weights="ard", **parameters))
    with pytest.raises(ValueError, match="feature_weights='ard' learns them"):
        model.fit(rng.random((20, 3)), rng.random(20))


# ---- where a fit starts --------------------------------------------------------------------------


@each(
    ("parameters", "expected"),
    [
        ({"smoothness": "cubic", "slope_weight": 3.0}, (3.0, 0.0)),
        ({"smoothness": "both", "slope_weight": 3.0, "rough_weight": 5.0}, (3.0, 5.0)),
    ],
)
def test_smooth_kernels_have_the_weights_that_were_given(parameters, expected):
    terms = IntersectionGPRegressor(**of_terms(**parameters))._asked.terms
    kernel = additive._with_smoothness(GeneralizedKernel(), terms)
    assert kernel.smoothness == parameters["smoothness"]
    assert (kernel.slope_weight, kernel.rough_weight) == expected


@each(
    ("parameters", "parts", "expected"),
    [
        ({}, {}, None),
        ({"intercept_variance": 0.25}, {}, 0.25),
        ({"intercept_variance": 0.0}, {}, 0.0),
        ({"solver": "coordinate-descent"}, {}, 0.0),
        (CUBIC, CUBIC, 0.0),
    ],
)
def test_an_intercept_is_vague_unless_it_was_given_or_cannot_be(rng, parameters, parts, expected):
    model = IntersectionGPRegressor(**of_terms(**parameters))
    problem = problem_of(model, rng.random((9, 4)), np.ones((9, 1)))
    system = problem.system(problem.bind(GeneralizedKernel(**parts)), Scales(1.0, 1.0))
    if expected is None:
        expected = additive.VAGUE_INTERCEPT * system.mean_variance
        assert expected > 0.0
    assert additive._variance_of_intercept(system, model._asked.terms) == expected


# ---- units of columns ----------------------------------------------------------------------------


@each(
    ("spreads", "told"),
    [
        ([1.0, 2000.0], "feature 1 has a spread 2.0e[+]03 times"),
        ([3000.0, 0.25, 0.25], "feature 0 has a spread 6.0e[+]03 times"),
        ([1.0, 999.0], None),
        ([1.0, 1.0, 1.0], None),
        # Others that do not vary are none.
        ([0.0, 5.0], None),
        ([5.0], None),
        ([], None),
    ],
)
def test_a_column_beside_which_others_hardly_count_is_named(spreads, told):
    columns = SimpleNamespace(spreads=lambda n_threads: np.array(spreads))
    process = SimpleNamespace(name="IntersectionGPRegressor")
    if told is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            additive._warn_of_units(columns, 1, process)
    else:
        with pytest.warns(UserWarning, match=told):
            additive._warn_of_units(columns, 1, process)


@each(
    ("n_rows", "feature_weights", "looks"),
    [(49, None, False), (50, None, True), (50, [1.0, 1.0], False), (50, "scale", False)],
)
def test_spreads_are_of_enough_rows_that_are_not_weighted(
    rng, monkeypatch, n_rows, feature_weights, looks
):
    seen = []
    monkeypatch.setattr(
        additive, "_warn_of_units", lambda columns, *_: seen.append(columns.n_columns)
    )
    model = IntersectionGPRegressor(Intersection(feature_weights=feature_weights), optimizer=None)
    model.fit(rng.random((n_rows, 2)), rng.random(n_rows))
    assert seen == ([2] if looks else [])


# ---- weights of features -------------------------------------------------------------------------


@each("feature_weights", [None, [1.0, 2.0], "scale", "ard", "auto", "relevance"])
@each("fixed", [{}, {"optimizer": None}, {"noise_bounds": "fixed"}, {"amplitude_bounds": "fixed"}])
def test_weights_are_chosen_where_they_are_asked_for(monkeypatch, rng, feature_weights, fixed):
    steps = []

    def likelier(problem, start, intercept):
        steps.append("likelier")
        return replace(start, kernel=replace(start.kernel, weights=np.array([3.0, 4.0])))

    def relevant(X, Y, weights, intercept, random, n_threads, *, are_classes):
        steps.append("relevant")
        assert intercept is None
        assert are_classes
        np.testing.assert_array_equal(weights, [3.0, 4.0] if not fixed else [1.0, 1.0])
        return 2.0 * weights

    monkeypatch.setattr(additive, "likelier_weights", likelier)
    monkeypatch.setattr(additive, "relevant_weights", relevant)
    model = IntersectionGPClassifier(
        **of_terms(feature_weights=feature_weights, random_state=0, **fixed)
    )
    X, Y = rng.random((20, 2)), np.ones((20, 1))
    start = start_of(GeneralizedKernel())

    def chosen():
        given = problem_of(model, X, Y), model._asked.terms, start, model._learner()
        return additive._with_chosen_weights(*given)

    found = chosen()
    expected = []
    if feature_weights in ("auto", "relevance") and not fixed:
        expected.append("likelier")
    if feature_weights == "relevance":
        expected.append("relevant")
    assert steps == expected
    if not expected:
        assert found is start
    model.set_params(**of_terms(feature_weights=feature_weights, intercept_variance=0.5, **fixed))
    if feature_weights == "relevance":
        monkeypatch.setattr(
            additive,
            "relevant_weights",
            lambda X, Y, weights, intercept, *_, are_classes: np.full(2, intercept),
        )
        np.testing.assert_array_equal(chosen().kernel.weights, [0.5, 0.5])


def test_weights_that_are_an_array_are_taken_as_they_are(rng):
    X, weights = rng.random((20, 2)), np.array([1.0, 2.0])
    model = IntersectionGPRegressor(Intersection(feature_weights=weights)).fit(X, rng.random(20))
    np.testing.assert_array_equal(model.feature_weights_, weights)


# ---- which rows tell what ------------------------------------------------------------------------


@pytest.fixture(name="learned")
def searches(monkeypatch):
    """Searches that find what they start from: of how many rows each is, and for what."""
    learned = []

    def learn(learner, start, likelihood, names=None):
        learned.append((likelihood.shape[0], None if names is None else list(names)))
        return start

    monkeypatch.setattr(Learner, "best", learn)
    return learned


@each(
    ("smoothness", "solver", "expected"),
    [
        ("linear", "cholesky", [(60, None)]),
        ("linear", "cg", [(60, None)]),
        # A factor is made anew for each weight, ...
        ("both", "cholesky", [(60, None)]),
        # ... and iterations take long: some rows tell the weights, all tell noise and amplitude.
        ("both", "cg", [(20, None), (60, ["noise", "amplitude"])]),
    ],
)
def test_weights_of_smooth_functions_are_told_by_some_of_many_rows(
    monkeypatch, rng, learned, smoothness, solver, expected
):
    monkeypatch.setattr(
        Problem, "some_rows", lambda self, most: np.arange(0, len(self.Y), 60 // min(most, 20))
    )
    model = IntersectionGPRegressor(
        **of_terms(smoothness=smoothness, solver=solver), random_state=0
    )
    model.fit(rng.random((60, 3)), rng.normal(size=60))
    assert learned == expected
    if len(expected) > 1:
        np.testing.assert_allclose(model.theta_, np.log([model.noise, 1.0, 1.0, 1.0]))


@each(
    ("parameters", "n_rows", "by_some"),
    [
        ({"interactions": [(0, 1)]}, 60, False),
        ({"interactions": [(0, 1), (1, 2)]}, 20, True),
        ({"n_interactions": 1}, 60, True),
        ({"n_interactions": 1}, 20, True),
    ],
)
def test_pairs_are_weighed_by_rows_that_did_not_choose_them(
    monkeypatch, rng, learned, parameters, n_rows, by_some
):
    of_pairs = type("OfPairs", (), {"shape": (n_rows, 1)})
    monkeypatch.setattr(additive, "likelihood_of_pairs", lambda *_: of_pairs())
    X = rng.random((60, 3))
    model = IntersectionGPRegressor(
        **of_terms(**parameters, interaction_weight=0.7, random_state=0)
    )
    model.fit(X, X[:, 0] * X[:, 1] + 0.01 * rng.normal(size=60))
    first, *others = learned
    assert first == (60, None)
    if not by_some:
        # Pairs that were given are learned with all else.
        assert others == [(60, None)]
        return
    # All rows tell noise and amplitude, in turn with the weight, and last.
    turn = [(n_rows, ["interaction_weight"]), (60, ["noise", "amplitude"])]
    assert others == turn * (len(others) // 2)
    assert len(others) >= 2
    np.testing.assert_allclose(model.theta_, np.log([model.noise, 1.0, 0.7]))


def test_what_cannot_be_solved_is_refused_before_anything_is_learned(learned):
    with pytest.raises(ValueError, match="entries of row 0 of X sum to"):
        IntersectionGPRegressor(Intersection(feature_weights=None)).fit(
            np.full((3, 4), 1e300), [1.0, 2.0, 3.0]
        )
    assert learned == []


def test_no_pairs_leave_the_kernel_as_it_is(rng, learned):
    model = IntersectionGPRegressor(Intersection() + Interactions(0), random_state=0)
    model.fit(rng.random((30, 1)), rng.normal(size=30))
    assert learned == [(30, None)]
    assert model._posterior.system.kernel.pairs is None
