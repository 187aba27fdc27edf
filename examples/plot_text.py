"""
Texts: words and hashed words
=============================

Each text documents a function, and its class is the module of the function. `LinearSVC` on tf-idf
is the usual model. `BundleSVC` with the logistic loss and the Gaussian process have probabilities
too. Hashing needs no vocabulary, and leaves most of its 131,072 columns empty. The time of a fit
depends on the words of the texts, not on the number of columns.
"""

import importlib
import inspect
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC

from histrs.gaussian_process import IntersectionGPClassifier
from histrs.kernel_approximation import ExpChi2Sampler
from histrs.svm import BundleSVC

modules = ["scipy.stats", "scipy.signal", "scipy.linalg", "scipy.special", "sklearn.metrics"]
texts, labels = [], []
for module in map(importlib.import_module, modules):
    for name in sorted(module.__all__):
        texts.append(" ".join((inspect.getdoc(getattr(module, name)) or "").split()[:30]))
        labels.append(module.__name__)
train, test, y, y_test = train_test_split(texts, labels, test_size=0.4, random_state=0)
words = TfidfVectorizer(sublinear_tf=True)


def hashed(n_bits):
    counts = HashingVectorizer(n_features=2**n_bits, alternate_sign=False, norm=None)
    return make_pipeline(counts, TfidfTransformer(sublinear_tf=True))


features = ExpChi2Sampler(500, random_state=0)
models = {
    "words: LinearSVC": (words, LinearSVC()),
    "words: BundleSVC": (words, BundleSVC(alpha=1e-4, loss="logistic")),
    "words: IntersectionGP": (words, Normalizer("l1"), IntersectionGPClassifier()),
    "2^17: LinearSVC": (hashed(17), LinearSVC()),
    "2^17: BundleSVC": (hashed(17), BundleSVC(alpha=1e-4, loss="logistic")),
    "2^14: ExpChi2Sampler": (hashed(14), Normalizer("l1"), features, LogisticRegression(C=100)),
}
fig, axes = plt.subplots(1, 3, figsize=(11, 3), sharey=True, layout="constrained")
for name, steps in models.items():
    start = time.perf_counter()
    model = make_pipeline(*steps).fit(train, y)
    seconds = time.perf_counter() - start
    values = [model.score(test, y_test), np.nan, seconds]
    if hasattr(model, "predict_proba"):
        values[1] = log_loss(y_test, model.predict_proba(test))
    print(f"{name}: accuracy {values[0]:.3f}, log loss {values[1]:.3f}")
    for ax, value in zip(axes, values, strict=True):
        ax.plot(value, name, "o")
for ax, title in zip(axes, ("accuracy", "log loss", "seconds to fit"), strict=True):
    ax.set(xlabel=title)
    ax.grid(alpha=0.3)
axes[0].invert_yaxis()
axes[2].set_xscale("log")
plt.show()
