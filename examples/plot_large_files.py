"""
Files larger than memory
========================

Two data sets are on disk: a CSV file with classes, and eight Parquet files of measurements. A
classifier reads the one in chunks, and the lasso the other. `MomentLassoCV` keeps the sums of five
folds apart, so one pass is enough to choose the penalty by cross-validation.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import calibration_curve

from histrs.kernel_approximation import SparseAdditiveMap
from histrs.streaming import MomentLassoCV, PCARidgeClassifier, Table

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
X = rng.random((60_000, 8))
p = 1 / (1 + np.exp(-6 * np.sin(6 * X[:, 0]) - 8 * X[:, 1] ** 2 + 4))
frame = pd.DataFrame(X.round(4), columns=[f"x{k}" for k in range(8)])
frame = frame.assign(label=np.where(rng.random(len(X)) < p, "yes", "no"), id=np.arange(len(X)))
frame[:50_000].to_csv(folder / "train.csv", sep=";", index=False)
frame[50_000:].to_csv(folder / "test.csv", sep=";", index=False)

# %%
# The columns and the separator are named. The pass finds the classes.
train, test = (Table(folder / f"{k}.csv", drop=["id"], separator=";") for k in ("train", "test"))
bends = SparseAdditiveMap(n_knots=16).fit(frame[:1000].drop(columns=["label", "id"]))
classifier = PCARidgeClassifier().fit_rows(train, "label", feature_map=bends)
accuracy = classifier.score(test, "label", feature_map=bends)
P = classifier.predict_proba(test, feature_map=bends)[:, 1]
print(f"accuracy {accuracy:.3f}, with the true probabilities {np.maximum(p, 1 - p).mean():.3f}")

# %%
# A folder of Parquet files is one table.
(folder / "days").mkdir()
names = [f"sensor {k}" for k in range(60)]
coef = np.where(np.arange(60) < 6, rng.uniform(0.5, 1.5, 60), 0)
for day in range(8):
    Z = rng.standard_normal((5_000, 60)) + rng.standard_normal((5_000, 1))
    y = Z @ coef + 20 * rng.standard_normal(5_000)
    pd.DataFrame(Z, columns=names).assign(y=y).to_parquet(folder / "days" / f"{day}.parquet")
lasso = MomentLassoCV().fit_rows(folder / "days", "y")
print(f"alpha {lasso.alpha_:.3f}: {np.flatnonzero(lasso.coef_).tolist()} are not zero")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
fraction, mean = calibration_curve(frame.label[50_000:] == "yes", P, n_bins=10)
left.plot([0, 1], [0, 1], color="0.6", linestyle=":")
left.plot(mean, fraction, "o-")
left.set(xlabel="probability", ylabel="fraction of yes", title="classes from a CSV file")
right.semilogx(lasso.alphas_, lasso.mse_path_, color="0.8")
right.semilogx(lasso.alphas_, lasso.mse_path_.mean(axis=1), "k", label="mean of five folds")
right.axvline(lasso.alpha_, color="0.3", linestyle=":", label="chosen")
right.set(xlabel="alpha", ylabel="squared error", title="the lasso from Parquet files")
right.legend()
plt.show()
