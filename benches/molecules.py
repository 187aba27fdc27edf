"""Gaussian processes on count fingerprints of molecules: ``python -m benches.molecules``.

Unfolded Morgan counts of radius 2 by RDKit (``pip install rdkit``), five splits at random into 80%
to fit and 20% to predict. Printed are means over the splits, with their standard errors.
"""

import csv
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benches._data import data_folder
from histrs.gaussian_process import MinMaxGPRegressor
from histrs.gaussian_process.kernels import MinMax

FOLDER = data_folder() / "molecules"
TARGETS = {"ESOL": "measured log solubility in mols per litre", "FreeSolv": "expt"}
SPLITS = 5
MODELS: dict[str, Callable[[], Any]] = {
    "MinMax": lambda: MinMaxGPRegressor(MinMax(0), random_state=0),
    "weight learned": MinMaxGPRegressor,
    "intersection": lambda: MinMaxGPRegressor(MinMax(1), random_state=0),
    "Tanimoto of bits": lambda: MinMaxGPRegressor(MinMax(0), random_state=0),
}


def fingerprints(smiles: list[str]) -> sparse.csr_array:
    """Return the counts of fragments, a row a molecule."""
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2)
    fragments: dict[int, int] = {}
    indptr, indices, data = [0], [], []
    for text in smiles:
        found = generator.GetSparseCountFingerprint(Chem.MolFromSmiles(text))
        for fragment, count in found.GetNonzeroElements().items():
            indices.append(fragments.setdefault(fragment, len(fragments)))
            data.append(count)
        indptr.append(len(indices))
    return sparse.csr_array((data, indices, indptr), shape=(len(smiles), len(fragments)))


def molecules(name: str) -> tuple[sparse.csr_array, NDArray[np.float64]]:
    """Return fingerprints and property of the molecules of a set."""
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    y = np.array([float(row[TARGETS[name]]) for row in rows])
    return fingerprints([row["smiles"] for row in rows]), y


def errors(X: sparse.csr_array, y: NDArray[np.float64], make: Callable[[], Any]) -> Any:
    """Return the RMSE of each split, the part of rows in intervals of 95%, and seconds a fit."""
    rmse, inside, seconds = [], [], 0.0
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(y))
        n = int(0.8 * len(y))
        train, test = order[:n], order[n:]
        start = time.perf_counter()
        model = make().fit(X[train], y[train])
        seconds += time.perf_counter() - start
        mean, std = model.predict(X[test], return_std=True)
        rmse.append(np.sqrt(np.mean((mean - y[test]) ** 2)))
        inside.append(np.mean(np.abs(mean - y[test]) < 1.96 * std))
    return np.array(rmse), np.mean(inside), seconds / SPLITS


def main() -> None:
    """Print a table a set."""
    for name in TARGETS:
        X, y = molecules(name)
        print(f"{name}: {X.shape[0]} molecules, {X.shape[1]} fragments")
        for label, make in MODELS.items():
            rows = (X > 0).astype(np.float64) if label == "Tanimoto of bits" else X
            rmse, inside, seconds = errors(rows, y, make)
            spread = rmse.std(ddof=1) / np.sqrt(SPLITS)
            print(
                f"  {label:17} RMSE {rmse.mean():.3f} +- {spread:.3f}, {inside:.0%} inside, "
                f"{seconds:.1f} s a fit",
                flush=True,
            )


if __name__ == "__main__":
    main()
