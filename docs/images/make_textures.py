"""Make textures.svg, the picture of the guide: `python docs/images/make_textures.py`."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from skimage import data
from skimage.feature import local_binary_pattern
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from histrs.gaussian_process import SPDGPClassifier
from histrs.spd import TangentSpace, covariance_descriptors

NAMES = ["brick", "grass", "gravel"]
PHOTOGRAPHS = [data.brick(), data.grass(), data.gravel()]
NOISES, SHOWN, DRAWS = [0.0, 5.0, 10.0, 15.0, 20.0], 15.0, 10


def windows(rng, first_column, n, noise, size=24):
    y = np.arange(n) % 3
    top, left = rng.integers(512 - size, size=n), rng.integers(256 - size, size=n) + first_column
    cut = [PHOTOGRAPHS[k][i : i + size, j : j + size] for k, i, j in zip(y, top, left, strict=True)]
    light = rng.uniform(0.5, 1.5, size=(n, 1, 1))
    return light * np.stack(cut) + rng.normal(scale=noise, size=(n, size, size)), y


def covariances(images):
    images = images - images.mean(axis=(1, 2), keepdims=True)
    images /= images.std(axis=(1, 2), keepdims=True)
    down, right = np.gradient(images, axis=(1, 2))
    second = [np.gradient(down, axis=1), np.gradient(right, axis=2)]
    pixels = np.stack([images, down, right, abs(down), abs(right), *second], axis=-1)
    return covariance_descriptors(pixels.reshape(len(images), -1, 7), shrinkage="oas")


def patterns(images):
    """Histograms of the ten uniform local binary patterns."""
    # They compare whole numbers.
    codes = [local_binary_pattern(np.round(w).astype(int), 8, 1, "uniform") for w in images]
    return np.array([np.bincount(c.astype(int).ravel(), minlength=10) / c.size for c in codes])


def pixels(images):
    return images.reshape(len(images), -1)


def tangent():
    return make_pipeline(TangentSpace(), StandardScaler(), LogisticRegression(max_iter=2000))


WAYS = {
    "covariances, SPDGPClassifier": (covariances, SPDGPClassifier),
    "covariances, tangent space + logistic": (covariances, tangent),
    "local binary patterns, SVC": (patterns, lambda: make_pipeline(StandardScaler(), SVC())),
    "pixels, random forest": (pixels, lambda: RandomForestClassifier(random_state=0)),
}
ours = next(iter(WAYS))
accuracies = {name: np.zeros((len(NOISES), DRAWS)) for name in WAYS}
probabilities, truths = [], []
for i, noise in enumerate(NOISES):
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        (X, y), (X_test, y_test) = windows(rng, 0, 90, noise), windows(rng, 256, 300, noise)
        for name, (describe, make) in WAYS.items():
            model = make().fit(describe(X), y)
            described = describe(X_test)
            accuracies[name][i, draw] = model.score(described, y_test)
            if name == ours and noise == SHOWN:
                probabilities.append(model.predict_proba(described))
                truths.append(y_test)
P, truth = np.concatenate(probabilities), np.concatenate(truths)

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
confusion = confusion_matrix(truth, P.argmax(axis=1), normalize="true")
left.imshow(confusion, cmap="Blues", vmin=0, vmax=1)
for i, row in enumerate(confusion):
    for j, share in enumerate(row):
        left.text(j, i, f"{share:.0%}", ha="center", va="center", color="k" if share < 0.6 else "w")
left.set(xlabel="predicted", ylabel="true", title=f"SPDGPClassifier, noise {SHOWN:g}")
left.set_xticks(range(3), NAMES)
left.set_yticks(range(3), NAMES)

# Of the probabilities of all classes, in ten bins.
given, came = P.ravel(), (np.arange(3) == truth[:, None]).ravel()
bins = np.minimum((given * 10).astype(int), 9)
full = [b for b in range(10) if np.sum(bins == b) >= 30]
middle.plot([0, 1], [0, 1], color="0.7")
middle.plot(
    [given[bins == b].mean() for b in full],
    [came[bins == b].mean() for b in full],
    "o-",
    color="C0",
)
middle.set(xlabel="probability of a class", ylabel="how often it is right", title="reliability")
middle.set_aspect("equal")

for name, found in accuracies.items():
    right.errorbar(NOISES, found.mean(axis=1), found.std(axis=1, ddof=1), capsize=2, label=name)
right.axhline(1 / 3, color="0.7", ls=":")
right.set(xlabel="noise of the sensor, grey levels", ylabel="accuracy", ylim=(0.25, 1.25))
right.set_yticks(np.arange(0.3, 1.01, 0.1))
right.legend(fontsize=8, loc="upper right")
right.set_title("right halves of the photographs")
for name, found in accuracies.items():
    print(name, found.mean(axis=1).round(3), found.std(axis=1, ddof=1).round(3))
print("mean confidence", P.max(axis=1).mean(), "accuracy", np.mean(P.argmax(axis=1) == truth))
fig.savefig(Path(__file__).with_name("textures.svg"), metadata={"Date": None})
