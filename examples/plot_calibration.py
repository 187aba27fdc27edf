"""
Are nine of ten rows right where the model says 90%?
====================================================

Four classifiers with their defaults learn from 400 handwritten digits. A reliability diagram shows
the fraction of right predictions against the predicted probability. The log loss measures both
accuracy and calibration, and smaller is better.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from histrs.gaussian_process import IntersectionGPClassifier
from histrs.plotting import plot_calibration

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=400, random_state=0)
models = {
    "intersection GP": IntersectionGPClassifier(random_state=0),
    "5 neighbours": KNeighborsClassifier(),
    "random forest": RandomForestClassifier(random_state=0),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}
fig, axes = plt.subplots(1, 4, figsize=(14, 4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X_train, y_train)
    loss = log_loss(y_test, model.predict_proba(X_test))
    accuracy = model.score(X_test, y_test)
    print(f"{name:20} log loss {loss:.3f}, accuracy {accuracy:.3f}")
    plot_calibration(model, X_test, y_test, ax=ax)
    ax.legend(loc="lower right", fontsize="x-small")
    ax.set_title(f"{name}\nlog loss {loss:.2f}, {accuracy:.1%} right")
plt.show()
