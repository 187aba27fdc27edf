"""Random programs over the public interface, each made from its seed alone."""

import functools
import hashlib
import importlib
import inspect
import io
import pickle
import pkgutil
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, Options

import histrs

# What a bad call may raise; the package's own errors are ValueErrors.
ALLOWED = (ValueError, TypeError, MemoryError, ImportError)
SIZES = [0, 1, 1, 2, 3, 5, 12, 12, 30, 30]
DTYPES = ["f4", "f8", "f8", "f8", "f2", "g", "i1", "i8", "u1", "?", "c16", "O", "U3", "M8[s]"]
CALLS = [
    "predict",
    "predict_proba",
    "decision_function",
    "transform",
    "kneighbors",
    "inverse_transform",
    "score_samples",
]
SKIPPED_MODULES = (
    "histrs._",
    "histrs.testing",
    "histrs.plotting",
    "histrs.gaussian_process.kernels",
)


@dataclass
class Finding:
    """One thing that should not have happened."""

    kind: str
    call: str
    text: str
    place: str = ""


@dataclass
class Program:
    """What is known of a program while it runs."""

    rng: np.random.Generator
    announce: Callable[[str], None]
    """Called with each step before it is taken."""
    steps: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@functools.cache
def public() -> dict[str, Any]:
    """Return the estimators and the functions that users see, by name."""
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(histrs.__path__, "histrs."):
        if module.name.startswith(SKIPPED_MODULES) or "._" in module.name:
            continue
        contents = importlib.import_module(module.name)
        for name in getattr(contents, "__all__", []):
            found[f"{module.name}.{name}"] = getattr(contents, name)
    return {
        name: value
        for name, value in found.items()
        if inspect.isfunction(value)
        or (inspect.isclass(value) and issubclass(value, BaseEstimator))
    }


# ---- arguments ---------------------------------------------------------------------------------


def values(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Histograms, mostly; of odd scales or with a bad entry, sometimes."""
    X = rng.random(shape)
    if rng.random() < 0.5:
        X[rng.choice([0.3, 0.9]) > X] = 0.0
    X *= rng.choice([1.0, 1.0, 1.0, 1.0, 100.0, 1e-312, 1e-30, 1e30, 1e160, 1e300])
    if X.size and rng.random() < 0.25:
        X.flat[rng.integers(X.size)] = rng.choice([np.nan, np.inf, -np.inf, -1.0, 1e308, -0.0])
    if X.shape[:1] > (1,) and rng.random() < 0.2:
        X[-1] = X[0]
    return X


def damaged(rng: np.random.Generator, X: Any) -> Any:
    """A sparse matrix whose arrays do not belong together."""
    way = rng.integers(7)
    index = int(rng.choice([-1, max(X.shape), 2_000_000_000, -2_000_000_000]))
    if X.format == "coo":
        if len(X.row):
            (X.row if rng.random() < 0.5 else X.col)[rng.integers(len(X.row))] = index
    elif X.format in ("csr", "csc", "bsr"):
        if way <= 2 and len(X.indices):
            X.indices[rng.integers(len(X.indices))] = index
        elif way == 3:
            X.indptr[rng.integers(len(X.indptr))] = index
        elif way == 4:
            X.indptr = X.indptr[:-1]
        elif way == 5:
            X.data = X.data[: len(X.data) // 2]
        else:
            X.indices = X.indices.astype(rng.choice(["i8", "i4", "f8"]))[::-1]
    elif X.format == "dia":
        X.offsets[:1] = index
    return X


def matrix(rng: np.random.Generator, n: int, d: int) -> tuple[Any, str]:
    """Samples in some container, and what they are called."""
    kind = rng.choice(
        ["array", "array", "array", "F", "strided", "list", "sparse", "damaged", "stack", "odd"]
    )
    if kind == "stack":
        p = int(rng.choice([0, 1, 2, 3]))
        A = values(rng, (n, p, p + 2))
        with np.errstate(all="ignore"):
            return A @ A.swapaxes(1, 2), f"stack {n, p, p}"
    if kind == "odd":
        odd = [None, 3.0, "X", [], [[]], [["a"]], {}, np.zeros(d), np.zeros((n, d, 1, 1)),
               np.ma.masked_less(np.ones((n, d)), 2), np.zeros((n, d), "V4"), [[1.0], [1.0, 2.0]],
               object(), iter([1]), b"x"]  # fmt: skip
        k = int(rng.integers(len(odd)))
        return odd[k], f"odd {k}"
    X = values(rng, (n, d))
    dtype = str(rng.choice(DTYPES))
    if kind in ("sparse", "damaged"):
        name = str(rng.choice(["csr", "csr", "csc", "coo", "bsr", "dia", "lil", "dok"]))
        suffix = str(rng.choice(["matrix", "array"]))
        X = getattr(sparse, f"{name}_{suffix}")(X.astype(rng.choice(["f4", "f8", "f8", "i8"])))
        return (damaged(rng, X) if kind == "damaged" else X), f"{kind} {name} {n, d}"
    X = X.astype(dtype)
    if kind == "F":
        X = np.asfortranarray(X)
    elif kind == "strided":
        X = np.repeat(X, 2, axis=0)[::2]
    elif kind == "list":
        X = X.tolist()
    return X, f"{kind} {dtype} {n, d}"


def targets(rng: np.random.Generator, n: int) -> tuple[Any, str]:
    """Labels or targets of any kind."""
    classes = rng.integers(0, int(rng.choice([1, 2, 2, 3, 3, max(n, 1)])), n)
    kinds = {
        "int": classes,
        "int again": classes,
        "int once more": classes,
        "text": np.array(["a", "b", "c", *map(str, range(n))])[classes],
        "bool": classes > 0,
        "float": rng.normal(size=n),
        "huge": rng.normal(size=n) * 1e160,
        "tiny": rng.normal(size=n) * 1e-312,
        "nan": np.where(classes > 0, np.nan, 1.0),
        "large int": classes + 9007199254740991,
        "mixed": np.array([None, "a", 1], dtype=object)[classes % 3],
        "None": None,
        "long": np.r_[classes, 0],
        "columns": rng.normal(size=(n, 2)),
        "column": classes[:, None],
        "bytes": classes.astype("S1"),
        "list": classes.tolist(),
        "complex": classes + 1j,
        "scalar": 3,
    }
    kind = str(rng.choice(list(kinds)))
    return kinds[kind], kind


def parameter(rng: np.random.Generator, constraints: Any, default: Any) -> Any:
    """A value of a parameter: one of its options, a number of its range, or nonsense."""
    options: list[Any] = [default]
    for constraint in constraints if isinstance(constraints, list) else []:
        if isinstance(constraint, Options):
            options += sorted(constraint.options, key=str)
        elif isinstance(constraint, Interval):
            numbers = [0, 1, 2, 3, 7] if constraint.type is Integral else [0.0, 1e-3, 0.5, 1.0, 3.0]
            options += [number for number in numbers if number in constraint]
        elif constraint == "boolean":
            options += [True, False]
        elif constraint is None:
            options.append(None)
    if rng.random() < 0.25:
        numbers = [0, -1, 10**5, 2**63, 0.5, 1e-300, 1e300, np.nan, np.inf, np.float32(0.5)]
        others = [None, "x", True, [], {}, (1, 2), np.zeros(2), object(), [1, "a"], {0: 2.0}]
        options = numbers + others
    return options[int(rng.integers(len(options)))]


# ---- programs ----------------------------------------------------------------------------------


def state(model: BaseEstimator) -> bytes | None:
    """What a model is, apart from its cache."""
    try:
        contents = {k: v for k, v in vars(model).items() if k != "_cache"}
        for name, value in contents.items():
            # SciPy notes in a sparse matrix whether it is sorted, once somebody asks.
            if sparse.issparse(value):
                contents[name] = type(value), value.shape, value.tocsr().tocoo().coords, value.data
        return pickle.dumps(contents)
    except Exception:
        return None


def attempt(program: Program, name: str, call: Callable[[], Any], model: Any = None) -> bool:
    """Make a call and note what should not come of it; say whether it succeeded."""
    before = state(model) if model is not None else None
    program.steps.append(name)
    program.announce(name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            for category in (UserWarning, FutureWarning, DeprecationWarning):
                warnings.simplefilter("ignore", category)
            call()
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename.split('site-packages/')[-1]}:{frame.lineno}"
        text = f"{type(error).__name__}: {str(error)[:200]}"
        if not isinstance(error, ALLOWED) or isinstance(error, np.linalg.LinAlgError):
            program.findings.append(Finding("exception", name, text, place))
        elif place.startswith(("numpy/", "scipy/")) and not isinstance(error, MemoryError):
            program.findings.append(Finding("raw message", name, text, place))
        if before is not None and state(model) != before:
            program.findings.append(Finding("changed by an error", name, text, place))
        return False
    return True


def estimator(program: Program, kind: type) -> BaseEstimator | None:
    """An estimator with some of its parameters set."""
    rng = program.rng
    constraints = getattr(kind, "_parameter_constraints", {})
    given: dict[str, Any] = {}
    for name, parameter_ in inspect.signature(kind).parameters.items():
        required = parameter_.default is inspect.Parameter.empty
        if required or rng.random() < 0.25:
            default = 1 if required else parameter_.default
            given[name] = parameter(rng, constraints.get(name), default)
    # Small problems: neither time nor processes are what is looked for.
    for name, value in {"max_iter": 20, "n_jobs": 1}.items():
        if name in constraints and name not in given:
            given[name] = value
    for name, most in {"max_iter": 1000, "n_sweeps": 100}.items():
        if isinstance(given.get(name), int):
            # Whoever asks for more waits for more.
            given[name] = min(given[name], most)
    if str(given.get("gamma")) in ("cv", "optuna") and str(given.get("init")) == "rmhc":
        # A search of a thousand exchanges in each fit of another search takes its time.
        given["init"] = "subset"
    shown = ", ".join(f"{k}={v!r}" for k, v in given.items())
    made: list[BaseEstimator] = []
    attempt(program, f"{kind.__name__}({shown})", lambda: made.append(kind(**given)))
    return made[0] if made else None


def run_estimator(program: Program, kind: type) -> None:
    """Fit, and call what there is, with data of one shape or another."""
    rng = program.rng
    model = estimator(program, kind)
    if model is None:
        return
    n, d = (int(rng.choice(SIZES)) for _ in range(2))
    for _ in range(2):
        X, X_name = matrix(rng, n, d)
        y, y_name = targets(rng, n)
        method = "partial_fit" if hasattr(model, "partial_fit") and rng.random() < 0.4 else "fit"
        if not hasattr(model, method):
            return
        attempt(program, f"{method}({X_name}, y: {y_name})",
                lambda X=X, y=y, m=method: getattr(model, m)(X, y), model)  # fmt: skip
        for name in CALLS:
            if not hasattr(model, name) or rng.random() < 0.3:
                continue
            shape = (n, d) if rng.random() < 0.7 else (int(rng.choice(SIZES)), d)
            Z, Z_name = matrix(rng, *shape)
            attempt(program, f"{name}({Z_name})", lambda Z=Z, c=name: getattr(model, c)(Z), model)
        if rng.random() < 0.2:
            attempt(program, "pickle", lambda: pickle.loads(pickle.dumps(model)), model)
        if hasattr(model, "save") and rng.random() < 0.3:
            run_file(program, model, d)


def run_file(program: Program, model: Any, d: int) -> None:
    """Save a model, change some bytes of the file, with a checksum that fits or not, and use it."""
    rng = program.rng
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        if not attempt(program, "save", lambda: model.save(path), model):
            return
        content = bytearray(path.read_bytes())
        for place in rng.integers(len(content), size=rng.integers(4)):
            content[place] = rng.integers(256)
        if rng.random() < 0.7:
            content[34:42] = b"00000000"
            content[34:42] = f"{crc32(content):08x}".encode()
        path.write_bytes(content)
        loaded: list[Any] = []
        load = getattr(model, "load", histrs.load)
        if attempt(program, "load", lambda: loaded.append(load(path))):
            X, name = matrix(rng, int(rng.choice(SIZES)), d)
            call = "predict" if hasattr(model, "predict") else "transform"
            attempt(program, f"{call}({name}) of a file", lambda: getattr(loaded[0], call)(X))


def run_function(program: Program, function: Callable[..., Any]) -> None:
    """Call a function with matrices, and with anything for its options."""
    rng = program.rng
    n, d = (int(rng.choice(SIZES)) for _ in range(2))
    arguments: dict[str, Any] = {}
    names = []
    for name, parameter_ in inspect.signature(function).parameters.items():
        if parameter_.kind in (parameter_.VAR_POSITIONAL, parameter_.VAR_KEYWORD):
            continue
        required = parameter_.default is parameter_.empty
        if name.isupper() or (required and rng.random() < 0.7):
            if not required and rng.random() < 0.4:
                continue
            arguments[name], shown = matrix(rng, n, d)
        elif required or rng.random() < 0.25:
            arguments[name] = parameter(rng, None, 2 if required else parameter_.default)
            shown = repr(arguments[name])
        else:
            continue
        names.append(f"{name}={shown}")
    attempt(program, f"{function.__name__}({', '.join(names)})", lambda: function(**arguments))


def run(seed: int, announce: Callable[[str], None]) -> Program:
    """Run the program of a seed."""
    rng = np.random.default_rng(seed)
    # What is drawn from the global state must be the seed's as well.
    np.random.seed(seed % 2**32)  # noqa: NPY002
    program = Program(rng, announce)
    chosen = subject(seed, public())
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        if inspect.isclass(chosen):
            run_estimator(program, chosen)
        else:
            run_function(program, chosen)
    return program


def subject(seed: int, public: dict[str, Any]) -> Any:
    """Return what the program of a seed is about, estimators three times as often as functions.

    Whoever has the largest hash is chosen, so that a new one takes its share of the programs, and
    the others stay what they were.
    """

    def largest(name: str) -> bytes:
        draws = 3 if inspect.isclass(public[name]) else 1
        return max(hashlib.sha256(f"{seed} {name} {k}".encode()).digest() for k in range(draws))

    return public[max(public, key=largest)]
