"""How good the answers are on EEG, beside pyRiemann: ``python -m benches.quality_spd``.

Trials are of steady-state visual evoked potentials (Kalunga et al., Neurocomputing 191, 2016; four
classes, twelve subjects). Trials that the authors excluded, and repeated sessions, are left out.
Each subject is predicted from all others, and each session of a subject from the subject's other
sessions. Both are repeated after each subject or session was recentred by its own mean, without
labels. Written are ``docs/quality_spd.md`` and ``benches/results/quality_spd.json``.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from benches._data import data_folder
from benches._harness import ROOT
from histrs.gaussian_process import SPDGPClassifier
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import CovarianceCompressor
from histrs.spd import CSP, MDM, TangentSpace, Whitening

PAGE = ROOT / "docs" / "quality_spd.md"
RESULTS = ROOT / "benches" / "results" / "quality_spd.json"

TASKS = ("sessions out", "subjects out")

Model = Callable[[], Any]


class Trials(NamedTuple):
    """Covariances with labels, and where they come from."""

    X: NDArray[Any]
    y: NDArray[Any]
    subject: NDArray[Any]
    session: NDArray[Any]


def _calibration_error(P: NDArray[np.float64], codes: NDArray[np.intp]) -> float:
    """Return the expected calibration error of the most probable class, in ten bins."""
    confidence, right = P.max(axis=1), P.argmax(axis=1) == codes
    bins = np.minimum((10 * confidence).astype(int), 9)
    gaps = [abs(np.sum(right[bins == b] - confidence[bins == b])) for b in range(10)]
    return float(np.sum(gaps) / len(P))


def load() -> Trials:
    """Return the trials that the authors kept, each once."""
    with np.load(data_folder() / "ssvep_exo" / "covariances.npz") as z:
        kept = ~(z["excluded_by_authors"].astype(bool) | z["duplicate_session"].astype(bool))
        y = np.unique(z["y"][kept], return_inverse=True)[1]
        return Trials(z["C"][kept], y, z["subject"][kept], z["session"][kept])


def _logistic() -> LogisticRegression:
    return LogisticRegression(max_iter=1000)


OURS: dict[str, Model] = {
    "SPDGP": SPDGPClassifier,
    "SPDGP, jbld": lambda: SPDGPClassifier("jbld", random_state=0),
    "TangentSpace + logistic": lambda: make_pipeline(TangentSpace(), _logistic()),
    "CSP + logistic": lambda: make_pipeline(CSP(), _logistic()),
    "CSP(12, airm) + logistic": lambda: make_pipeline(CSP(12, metric="airm"), _logistic()),
    "CSP(12, logeuclid) + logistic": lambda: make_pipeline(
        CSP(12, metric="logeuclid"), _logistic()
    ),
    "CSP(12) + SPDGP": lambda: make_pipeline(CSP(12, log=False), SPDGPClassifier()),
    "MDM": MDM,
    "MDM, jbld": lambda: MDM("jbld"),
    "SCC, 8%": lambda: CovarianceCompressor(0.08, random_state=0),
    "5 neighbours, jbld": lambda: MetricKNNClassifier(5, metric="jbld"),
}


def peers() -> dict[str, Model]:
    """Return what pyRiemann offers, where it is installed."""
    try:
        from pyriemann import classification, spatialfilters, tangentspace
    except ImportError:
        return {}

    def of_filters(n: int) -> Model:
        return lambda: make_pipeline(spatialfilters.CSP(n), _logistic())

    return {
        **{f"pyRiemann CSP({n}) + logistic": of_filters(n) for n in (4, 8, 12, 24)},
        "pyRiemann TS + logistic": lambda: make_pipeline(tangentspace.TangentSpace(), _logistic()),
        "pyRiemann SVC": lambda: classification.SVC(metric="riemann", probability=True),
        "pyRiemann MDM": lambda: classification.MDM("riemann"),
        "pyRiemann FgMDM": lambda: classification.FgMDM("riemann"),
    }


def splits(trials: Trials) -> Iterator[tuple[str, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Return the task, training and test indices, and the domain of each trial."""
    for subject in np.unique(trials.subject):
        out = trials.subject == subject
        yield "subjects out", np.flatnonzero(~out), np.flatnonzero(out), trials.subject
    for subject in np.unique(trials.subject):
        own = trials.subject == subject
        sessions = np.unique(trials.session[own])
        for session in sessions if len(sessions) > 1 else ():
            out = own & (trials.session == session)
            rest = np.flatnonzero(own & ~out)
            yield "sessions out", rest, np.flatnonzero(out), trials.session


def judge(model: Any, A: Any, a: Any, B: Any, b: Any) -> dict[str, float]:
    """Return scores and times of a model; probabilities of classes that training lacks are 0."""
    start = time.perf_counter()
    model.fit(A, a)
    fitted = time.perf_counter()
    found = model.predict_proba(B)
    end = time.perf_counter()
    labels = model.predict(B)
    P = np.zeros((len(B), int(max(a.max(), b.max())) + 1))
    P[:, np.asarray(model.classes_)] = found
    return {
        "accuracy": float(np.mean(labels == b)),
        "log loss": float(log_loss(b, np.clip(P, 1e-15, 1), labels=range(P.shape[1]))),
        "calibration error": _calibration_error(P, b),
        "fit": fitted - start,
        "predict": (end - fitted) / len(B),
    }


def measure(
    trials: Trials,
    models: dict[str, Model],
    log: Callable[[str], None],
    tasks: Collection[str] = TASKS,
) -> dict[str, Any]:
    """Return the scores of every model on every split."""
    found: dict[str, Any] = {}
    for task, train, test, domain in splits(trials):
        if task not in tasks:
            continue
        for recentred in (False, True):
            X = trials.X[np.concatenate([train, test])]
            if recentred:
                where = domain[np.concatenate([train, test])]
                X = Whitening().fit_transform(X, domain=where)
            A, B = X[: len(train)], X[len(train) :]
            a, b = trials.y[train], trials.y[test]
            name = f"{task}, recentred" if recentred else task
            scores = found.setdefault(name, {})
            for model, make in models.items():
                with warnings.catch_warnings():
                    # Of the peers; ours would be a finding.
                    warnings.filterwarnings("ignore", module="sklearn|pyriemann")
                    scores.setdefault(model, []).append(judge(make(), A, a, B, b))
    for name, scores in found.items():
        means = {m: np.mean([s["accuracy"] for s in runs]) for m, runs in scores.items()}
        log(f"{name}: " + ", ".join(f"{k} {v:.3f}" for k, v in means.items()))
    return found


def page(found: dict[str, Any]) -> str:
    """Return the page of all scores."""
    lines = [
        "# Quality of predictions on EEG",
        "",
        "The data are steady-state visual evoked potentials of twelve subjects (Kalunga et al., "
        "2016). Rows are 24 x 24 covariances of four classes.",
        "",
        "* **Sessions out.** Each session is predicted from the other sessions of its subject.",
        "* **Subjects out.** Each subject is predicted from all others.",
        "* **Recentred.** The matrices of each session or subject are first whitened by their "
        "mean, without labels (`spd.Whitening`).",
        "",
        "Models have their defaults, except for the parameters that a row names. Scores are means "
        "over left-out sessions or subjects, with standard errors. Times are medians of single "
        "fits and predictions, on two cores that ran other programs too. For pipelines with CSP, "
        "BLAS had one thread (`OPENBLAS_NUM_THREADS=1`). SCC is `CovarianceCompressor`. "
        "`python -m benches.quality_spd` measures all of this again.",
        "",
    ]
    for task, scores in found.items():
        lines += [f"## {task.capitalize()}", ""]
        lines.append(
            "| | accuracy | log loss | calibration error | fit, ms | predict, us per trial |"
        )
        lines.append("|---|--:|--:|--:|--:|--:|")
        for model, runs in scores.items():
            cells = [_with_error(runs, s) for s in ("accuracy", "log loss", "calibration error")]
            fit = 1e3 * np.median([run["fit"] for run in runs])
            answer = 1e6 * np.median([run["predict"] for run in runs])
            lines.append(f"| {model} | " + " | ".join(cells) + f" | {fit:.1f} | {answer:.1f} |")
        lines.append("")
    return "\n".join(lines)


def _with_error(runs: list[dict[str, float]], score: str) -> str:
    values = np.array([run[score] for run in runs])
    return f"{values.mean():.3f} ± {values.std() / max(len(values) - 1, 1) ** 0.5:.3f}"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", action="store_true", help="make the page from the results")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--models", nargs="+", help="rows to measure; others stay as they are")
    options = parser.parse_args()
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if not options.render:
        every = OURS | peers()
        models = {name: every[name] for name in options.models or every}
        new = measure(load(), models, lambda line: print(line, flush=True), options.tasks)
        for task, scores in new.items():
            found[task] = found.get(task, {}) | scores
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
