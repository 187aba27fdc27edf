"""The additive model of R: ``mgcv::bam(discrete = TRUE)``, by way of files."""

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benches.quality.answers import Answer, Answers
from benches.quality.columns import dates_as_numbers, filled_words, words

# A column of fewer distinct values gets a line in place of a smooth function.
_FEWEST = 10
_SCRIPT = """
library(mgcv)
folder <- commandArgs(TRUE)[1]
A <- read.csv(file.path(folder, "train.csv"), stringsAsFactors = TRUE)
model <- bam(as.formula(readLines(file.path(folder, "formula.txt"))),
  family = if (file.exists(file.path(folder, "classes"))) binomial() else gaussian(),
  data = A, discrete = TRUE, nthreads = 1)
saveRDS(model, file.path(folder, "model.rds"))
"""
_PREDICT = """
library(mgcv)
folder <- commandArgs(TRUE)[1]
A <- read.csv(file.path(folder, "train.csv"), stringsAsFactors = TRUE)
B <- read.csv(file.path(folder, "test.csv"), stringsAsFactors = TRUE)
for (name in names(A)) if (is.factor(A[[name]])) B[[name]] <- factor(B[[name]], levels(A[[name]]))
model <- readRDS(file.path(folder, "model.rds"))
write.csv(data.frame(p = predict(model, B, type = "response")), file.path(folder, "p.csv"))
"""


@functools.cache
def version() -> str:
    """Return the version of mgcv, or nothing where it cannot be run."""
    if shutil.which("Rscript") is None:
        return ""
    asked = ["Rscript", "-e", 'cat(as.character(packageVersion("mgcv")))']
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return found.stdout if found.returncode == 0 else ""


def fit(X: pd.DataFrame, y: NDArray[Any], has_classes: bool) -> Answers:
    """Fit smooth functions of numbers and effects of categories, of a number or of two classes."""
    folder = tempfile.TemporaryDirectory()
    at = Path(folder.name)
    names = [f"x{i}" for i in range(X.shape[1])]
    medians = dates_as_numbers(X).drop(columns=words(X)).median()

    def read(X: pd.DataFrame) -> pd.DataFrame:
        return filled_words(dates_as_numbers(X).fillna(medians)).set_axis(names, axis=1)

    A = read(X)
    terms = [_term(A[name]) for name in names if A[name].nunique() > 1]
    A.assign(y=y).to_csv(at / "train.csv", index=False)
    (at / "formula.txt").write_text("y ~ " + " + ".join(terms or ["1"]) + "\n")
    if has_classes:
        (at / "classes").touch()
    _run(_SCRIPT, at)

    def answer(X: pd.DataFrame) -> Answer:
        # Keeps the folder as long as it is asked.
        there = Path(folder.name)
        read(X).to_csv(there / "test.csv", index=False)
        _run(_PREDICT, there)
        p = pd.read_csv(there / "p.csv")["p"].to_numpy()
        # Of categories that training had not there is no answer: the mean.
        p = np.where(np.isnan(p), np.mean(y), p)
        return Answer(P=np.column_stack([1 - p, p])) if has_classes else Answer(mean=p)

    return answer


def _term(column: pd.Series) -> str:
    n_values = column.nunique()
    if not pd.api.types.is_numeric_dtype(column) or n_values < _FEWEST:
        return str(column.name)
    return f"s({column.name})"


def _run(script: str, folder: Path) -> None:
    ended = subprocess.run(
        ["Rscript", "-e", script, str(folder)], capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        said = ended.stderr.strip().splitlines()
        raise RuntimeError(" ".join(said[-3:]).removesuffix("Execution halted").strip())
