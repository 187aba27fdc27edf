"""Make digits.svg, the picture of the README: `.venv/bin/python -m docs.images.make_digits`."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from demo.draw import readme_picture
from demo.measure import least_certain
from histrs.gaussian_process import TabularGPClassifier

X, y = load_digits(return_X_y=True)
train, test = train_test_split(np.arange(len(X)), test_size=1 / 3, random_state=0, stratify=y)
P = TabularGPClassifier(random_state=0).fit(X[train], y[train]).predict_proba(X[test])
picture = readme_picture(P.max(axis=1), P.argmax(axis=1) == y[test], least_certain(X, y, test, P))
Path(__file__).with_name("digits.svg").write_text(picture, encoding="utf-8")
