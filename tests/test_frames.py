"""Every estimator for tables takes the frames of every library, and names the column it cannot."""

import datetime
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from histrs._frames import columns_of, frame_of, is_table, numbers_of
from histrs.feature_selection import SelectRelevant
from histrs.gaussian_process import (
    IntersectionGPClassifier,
    TabularGPClassifier,
    TabularGPRegressor,
)
from histrs.metrics import chi2_distances, emd_distances, intersection_kernel
from histrs.streaming import Moments, PCARidge
from tests.all_estimators import CASES, ROWS, data
from tests.contract import answers, assert_same, fitted

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

TAKES_CATEGORIES = (TabularGPClassifier, TabularGPRegressor)
TABULAR = [case for case in CASES if case.takes == ROWS]
NAMES = [type(case.make()).__name__ for case in TABULAR]
# A selector's columns stay what they are.
OF_NUMBERS = [case for case in TABULAR if not isinstance(case.make(), SelectRelevant)]
NAMES_OF_NUMBERS = [type(case.make()).__name__ for case in OF_NUMBERS]
COLUMNS = ["red", "green", "blue", "grey"]


def mixed(n: int = 60) -> dict[str, list]:
    """Return columns of every kind, with gaps."""
    rng = np.random.default_rng(0)
    start = datetime.datetime(2020, 1, 1)
    days = rng.integers(0, 300, n).tolist()
    columns = {
        "size": rng.normal(size=n).tolist(),
        "make": rng.choice(["VW", "Opel", "Kia"], n).tolist(),
        "old": (rng.random(n) > 0.5).tolist(),
        "sold": [(start + datetime.timedelta(days=d)).date() for d in days],
        "seen": [start + datetime.timedelta(hours=d) for d in days],
        "took": [datetime.timedelta(minutes=d) for d in days],
        "doors": rng.integers(2, 6, n).tolist(),
    }
    for place, name in enumerate(columns):
        columns[name][7 + place] = None
    return columns


def in_libraries(columns: dict[str, list]) -> dict[str, object]:
    """Return one table as the frames of several libraries, and as an array of objects."""
    frame = pl.DataFrame(columns)
    return {
        "polars": frame,
        "categorical": frame.with_columns(pl.col("make").cast(pl.Categorical)),
        "enum": frame.with_columns(pl.col("make").cast(pl.Enum(["Kia", "VW", "Opel"]))),
        "lazy": frame.lazy(),
        "pyarrow": frame.to_arrow(),
        "pandas": pd.DataFrame(columns),
        "pandas, categories": pd.DataFrame(columns).astype({"make": "category"}),
        "pandas, nullable": pd.DataFrame(columns).convert_dtypes(),
        "pandas, Arrow": frame.to_pandas(use_pyarrow_extension_array=True),
        "pandas, objects": pd.DataFrame(columns).astype(object),
        "array of objects": np.array(list(zip(*columns.values(), strict=True)), dtype=object),
        "lists": [list(row) for row in zip(*columns.values(), strict=True)],
    }


TABLES = in_libraries(mixed())


@pytest.fixture(scope="module")
def target():
    size = np.array([0.0 if v is None else v for v in mixed()["size"]])
    return size + np.array([v == "VW" for v in mixed()["make"]])


@pytest.fixture(scope="module")
def of_polars(target):
    return TabularGPRegressor(random_state=0).fit(TABLES["polars"], target)


@pytest.mark.parametrize("library", TABLES)
def test_a_table_is_the_same_in_every_library(library, target, of_polars):
    table = TABLES[library]
    expected = of_polars.predict(TABLES["polars"])
    model = TabularGPRegressor(random_state=0).fit(table, target)
    np.testing.assert_allclose(model.predict(table), expected, atol=1e-9)
    # What was fitted with one library is asked with another.
    with warnings.catch_warnings():
        # Arrays have no names.
        warnings.filterwarnings("ignore", "X (has|does not have valid) feature names")
        np.testing.assert_allclose(of_polars.predict(table), expected, atol=1e-9)
        np.testing.assert_allclose(model.predict(TABLES["polars"]), expected, atol=1e-9)
    dependence = model.partial_dependence(table, (1, 3), grid_resolution=4)
    assert dependence.grid[0].tolist() == ["Kia", "Opel", "VW"]
    assert dependence.grid[1].dtype == np.float64


@pytest.mark.parametrize("library", ["polars", "pyarrow", "lazy", "pandas, nullable", "lists"])
def test_rows_of_any_table_are_chosen(library, target):
    table = TABLES[library]
    weight = np.where(np.arange(len(target)) % 4, 1.0, 0.0)
    model = TabularGPRegressor(random_state=0)
    Y = np.column_stack([target, target])
    Y[:9, 1] = np.nan
    for y, weights in ((target, weight), (Y, None), (Y, weight)):
        expected = model.fit(TABLES["polars"], y, weights).predict(TABLES["polars"])
        found = model.fit(table, y, weights).predict(table)
        np.testing.assert_allclose(found, expected, atol=1e-9)
    classes = TabularGPClassifier(random_state=0)
    expected = classes.fit(TABLES["polars"], target > 0, weight).predict_proba(TABLES["polars"])
    found = classes.fit(table, target > 0, weight).predict_proba(table)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("case", TABULAR, ids=NAMES)
@pytest.mark.filterwarnings("ignore")
def test_every_estimator_takes_the_numbers_of_every_library(case):
    X, y = data(case)
    X = np.round(X * 8)
    plain = answers(fitted(case, X, y), X)
    frame = pl.DataFrame(X, schema=COLUMNS).with_columns(pl.col("grey").cast(pl.Int32))
    for table in (
        frame,
        frame.lazy(),
        frame.to_arrow(),
        frame.with_columns(pl.col("red").cast(pl.Decimal(10, 2))),
        frame.to_pandas(use_pyarrow_extension_array=True),
        frame.to_pandas().astype({"red": "Int64", "blue": "Float64"}),
        frame.to_pandas().astype({"red": object}),
    ):
        model = fitted(case, table, y)
        assert model.feature_names_in_.tolist()[:3] == COLUMNS[:3]
        assert_same(answers(model, table), plain)


@pytest.mark.parametrize("case", TABULAR, ids=NAMES)
def test_every_estimator_names_the_column_that_it_cannot_take(case):
    X, y = data(case)
    frame = pl.DataFrame(X, schema=COLUMNS)
    if not isinstance(case.make(), TAKES_CATEGORIES):
        text = frame.with_columns(blue=pl.lit("VW"))
        for table in (text, text.to_arrow(), text.to_pandas()):
            refused = r"Column 'blue' of X holds text \(dtype String\), such as 'VW'.*OneHotEncoder"
            with pytest.raises(ValueError, match=refused):
                case.make().fit(table, y)
        objects = X.astype(object)
        objects[:, 2] = "VW"
        with pytest.raises(
            ValueError, match=r"X\[:, 2\] holds text \(dtype object\), such as 'VW'"
        ):
            case.make().fit(objects, y)
        categories = frame.to_pandas().assign(blue=pd.Categorical(["VW"] * len(X)))
        with pytest.raises(ValueError, match=r"Column 'blue' of X.*Categorical.*'VW'"):
            case.make().fit(categories, y)
    with pytest.raises(ValueError, match=r"Column 'blue' of X.*List.*neither numbers nor cat"):
        case.make().fit(frame.with_columns(blue=pl.concat_list("red", "blue")), y)
    with pytest.raises(ValueError, match=r"X has 2 columns named 'red': give each column a name"):
        case.make().fit(pd.DataFrame(X, columns=["red", "red", "blue", "grey"]), y)


@pytest.mark.parametrize("case", OF_NUMBERS, ids=NAMES_OF_NUMBERS)
@pytest.mark.filterwarnings("ignore")
def test_times_are_the_same_numbers_in_frames_and_arrays(case):
    X, y = data(case)
    for kind in ("M8[D]", "M8[ns]", "m8[s]"):
        times = np.round(X * 8).astype(np.int64).astype("m8[D]").astype(kind.replace("M", "m"))
        times = times if kind[0] == "m" else np.datetime64(0, "D") + times
        frame = pd.DataFrame(times.astype(f"{kind[0]}8[ns]"), columns=COLUMNS)
        found = answers(fitted(case, times, y), times)
        assert_same(found, answers(fitted(case, frame, y), frame))
        seconds = np.round(X * 8) * 86400.0
        assert_same(found, answers(fitted(case, seconds, y), seconds))


def test_times_have_one_unit_whatever_that_of_the_fit():
    days = pd.date_range("2020-01-01", periods=60, freq="D", tz="Europe/Berlin")
    y = np.arange(60.0)
    frame = pd.DataFrame({"day": days, "size": np.ones(60)})
    model = TabularGPRegressor(random_state=0).fit(frame, y)
    expected = model.predict(frame)
    for unit in ("s", "ms", "us", "ns"):
        other = frame.assign(day=days.as_unit(unit).tz_convert("UTC").tz_localize(None))
        np.testing.assert_allclose(model.predict(other), expected, rtol=1e-9)
    assert np.abs(expected - y).max() < 5


def test_a_column_keeps_its_kind(target, of_polars):
    frame = TABLES["polars"]

    def asked(**columns):
        return of_polars.predict(frame.with_columns(**columns))

    for name, column, message in (
        (
            "size",
            pl.lit("XL"),
            r"Column 'size' of X holds text \(dtype String\), such as 'XL', and ",
        ),
        ("size", pl.col("sold"), "'size' of X holds dates .dtype Date., and held numbers in the f"),
        ("make", pl.lit(1), r"'make' of X holds numbers \(dtype Int32\), and held text in the fit"),
        ("sold", pl.lit(1), "'sold' of X holds numbers .* and held dates in the fit"),
        ("took", pl.col("seen"), "'took' of X holds dates .* and held durations in the fit"),
    ):
        with pytest.raises(ValueError, match=message):
            asked(**{name: column})
    # Whole numbers become reals, truth values numbers, and what is missing may have any type.
    expected = of_polars.predict(frame)
    for same in (
        {"doors": pl.col("doors").cast(pl.Float32)},
        {"old": pl.col("old").cast(pl.Int8)},
        {"seen": pl.col("seen").cast(pl.Datetime("ns"))},
    ):
        np.testing.assert_allclose(asked(**same), expected, atol=1e-9)
    as_numbers = asked(doors=(pl.col("doors") > 3).cast(pl.Float64))
    np.testing.assert_allclose(asked(doors=pl.col("doors") > 3), as_numbers, atol=1e-9)
    for name in frame.columns:
        none = asked(**{name: pl.lit(None)})
        assert np.isfinite(none).all()
    # A category that the fit has not seen is none of those that it has.
    assert np.isfinite(asked(make=pl.lit("Fiat"))).all()
    with pytest.raises(ValueError, match=r"Column 'size' of X is infinite in row 0"):
        asked(size=pl.lit(np.inf))


def test_a_column_that_the_fit_knew_nothing_of_may_hold_anything(target):
    frame = TABLES["polars"].with_columns(note=pl.lit(None))
    model = TabularGPRegressor(random_state=0).fit(frame, target)
    expected = model.predict(frame)
    for note in (pl.lit("text"), pl.lit(1.5), pl.lit(None)):
        np.testing.assert_allclose(model.predict(frame.with_columns(note=note)), expected)


def test_text_of_arrays_is_a_category(target):
    makes = np.array([["VW" if v is None else v] for v in mixed()["make"]])
    model = TabularGPRegressor(random_state=0)
    expected = model.fit(pd.DataFrame(makes), target).predict(pd.DataFrame(makes))
    for rows in (makes, makes.astype(object), makes.tolist()):
        np.testing.assert_allclose(model.fit(rows, target).predict(rows), expected)
    # Text that was made of numbers is numbers.
    numbers = np.round(np.random.default_rng(0).random((60, 2)), 3)
    expected = model.fit(numbers, target).predict(numbers)
    np.testing.assert_allclose(model.fit(numbers.astype(str), target).predict(numbers), expected)


def test_functions_and_streams_read_frames_too():
    X = np.random.default_rng(0).random((30, 3))
    frame = pl.DataFrame(X, schema=COLUMNS[:3])
    objects = frame.to_pandas().convert_dtypes().astype({"red": object})
    text = frame.with_columns(blue=pl.lit("VW"))
    refused = r"Column 'blue' of [\w ]+ holds text \(dtype String\), such as 'VW'"
    for table in (frame, frame.to_arrow(), objects):
        np.testing.assert_array_equal(intersection_kernel(table), intersection_kernel(X))
        np.testing.assert_allclose(Moments.of(table).H, Moments.of(X).H)
        np.testing.assert_allclose(Moments(3).update(table).H, Moments.of(X).H)
        model = PCARidge().fit_rows(table, X[:, 0])
        assert model.feature_names_in_.tolist() == COLUMNS[:3]
        np.testing.assert_allclose(model.predict(table), PCARidge().fit(X, X[:, 0]).predict(X))
    for refuse in (intersection_kernel, Moments.of, Moments(3).update):
        with pytest.raises(ValueError, match=refused):
            refuse(text)
    with pytest.raises(ValueError, match=refused):
        PCARidge().fit_rows(text, X[:, 0])


def test_sparse_columns_stay_sparse():
    X = np.random.default_rng(0).integers(0, 2, (30, 3)).astype(float)
    frame = pd.DataFrame(X).astype(pd.SparseDtype(float, 0.0))
    assert numbers_of(frame).nnz == np.count_nonzero(X)
    y = np.arange(30) % 2
    model = IntersectionGPClassifier(random_state=0).fit(frame, y)
    np.testing.assert_allclose(model.predict_proba(frame), model.fit(X, y).predict_proba(X))
    some = pd.DataFrame(X).astype({0: pd.SparseDtype(float, 0.0)})
    np.testing.assert_array_equal(numbers_of(some), X)


def test_tables_are_told_from_what_looks_a_little_like_them():
    numbers = pd.DataFrame({"a": [1.0], "b": [2]})
    assert frame_of(numbers).columns == ["a", "b"]
    for other in (numbers["a"], SimpleNamespace(columns=["a"]), np.ones((2, 2)), [[1, 2]]):
        assert frame_of(other) is None
        assert not is_table(other)
    assert is_table(numbers)
    assert not is_table(np.array([[1, None]], dtype=object))
    assert not is_table(np.array([[{}, 1]], dtype=object))
    assert is_table([[1, "a"]])
    assert not is_table(["a"])


def test_what_can_be_no_category_is_refused():
    for value in (1j, datetime.time(3), [1], {"a": 1}, (1, [2])):
        column = np.empty((2, 1), dtype=object)
        column[:, 0] = [value, None]
        with pytest.raises(ValueError, match=r"X\[:, 0\] holds \w+ objects .*, such as"):
            columns_of(column)
    with pytest.raises(ValueError, match=r"Column 'when' of X .*period\[Y-DEC\]|Column 'when'"):
        columns_of(pd.DataFrame({"when": pd.period_range("2020", "2021", freq="Y")}))
    with pytest.raises(ValueError, match=r"Column 'z' of X holds complex128 objects"):
        columns_of(pd.DataFrame({"z": [1j, 2j]}))
    # Intervals of numbers are categories.
    (cut,) = columns_of(pd.DataFrame({"size": pd.cut([1.0, 2.0, 3.0], 2)}))
    assert cut.kind == "categories"


@pytest.mark.parametrize("distances", [intersection_kernel, chi2_distances, emd_distances])
def test_two_frames_are_matched_by_name(distances):
    X = pd.DataFrame(np.random.default_rng(0).dirichlet(np.ones(3), 5), columns=list("abc"))
    more = {"M": 1.0 - np.eye(3)} if distances is emd_distances else {}
    expected = distances(X.to_numpy(), X.to_numpy(), **more)
    other = X[["c", "a", "b"]]
    for Y in (other, pl.from_pandas(other), X.to_numpy()):
        np.testing.assert_array_equal(distances(X, Y, **more), expected)
    with pytest.raises(ValueError, match="Y has no column 'b', unlike X"):
        distances(X, X.rename(columns={"b": "B"}), **more)
    with pytest.raises(ValueError, match="Y has a column 'd', unlike X"):
        distances(X, X.assign(d=0.0), **more)


def test_frames_of_numbers_are_read_as_their_columns_are():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "double": rng.normal(size=5),
            "single": rng.normal(size=5).astype(np.float32),
            "whole": np.array([2**53, -1, 0, 1, 2]),
            "bytes": np.arange(5, dtype=np.uint8),
            "gaps": [np.nan, 1.0, np.nan, 2.0, 3.0],
            "nothing": np.full(5, np.nan),
        }
    )
    # Text beside them: each column is read by itself.
    one_by_one = columns_of(frame.assign(text="a"))[:-1]
    for whole, alone in zip(columns_of(frame), one_by_one, strict=True):
        assert (whole.title, whole.dtype, whole.kind) == (alone.title, alone.dtype, alone.kind)
        np.testing.assert_array_equal(whole.values, alone.values)
        assert whole.values.dtype == np.float64
    frame.columns = range(6)
    assert [column.title for column in columns_of(frame)][:2] == [
        column.title for column in columns_of(frame.assign(text="a"))
    ][:2]
