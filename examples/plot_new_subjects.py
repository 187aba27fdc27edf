"""
EEG of subjects that were left out
==================================

The head and the cap of each subject mix the sources differently, so a model of other subjects fits
a new subject badly. `Whitening` recentres the covariance matrices of each subject by their mean,
without labels. With ``unseen="own mean"`` this includes subjects that were not in the training set.
Artefacts are left out first, by their distance from the mean of their subject.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline

from histrs.spd import CSP, Covariances, Potato, Whitening

rng = np.random.default_rng(0)
n_subjects, n, n_channels = 6, 80, 8
y = np.arange(n_subjects * n) % 3
subject = np.repeat(np.arange(n_subjects), n)
sources = rng.standard_normal((len(y), n_channels, 160))
sources[np.arange(len(y)), y] *= 1.4
common = rng.standard_normal((n_channels, n_channels))
own = 0.5 * rng.standard_normal((n_subjects, n_channels, n_channels))
trials = (common + own)[subject] @ sources
loose = rng.choice(len(y), 30, replace=False)
trials[loose, 3] += 30 * np.cumsum(rng.standard_normal((30, 160)), axis=1) / 12  # a loose electrode

# %%
# The z-scores of the logarithms of the distances; 3 is the threshold.
C = Covariances().fit_transform(trials)
z = np.concatenate([Potato().fit(C[subject == s]).transform(C[subject == s]) for s in range(6)])
kept = z < 3
print(f"{np.sum(~kept)} trials left out, {np.sum(~kept[loose])} of them with a loose electrode")

# %%
# Each subject is predicted from the others. Routing passes the subjects on to `Whitening`.
steps = [CSP(4), LogisticRegression(max_iter=1000)]
scores = {}
with config_context(enable_metadata_routing=True):
    recentring = Whitening(unseen="own mean")
    recentring.set_fit_request(domain=True).set_transform_request(domain=True)
    for name, first in {"as recorded": [], "recentred": [recentring]}.items():
        params = {"groups": subject[kept]}
        if first:
            params["domain"] = subject[kept]
        model, cv = make_pipeline(*first, *steps), LeaveOneGroupOut()
        scores[name] = cross_val_score(model, C[kept], y[kept], cv=cv, params=params)
        print(f"{name}: accuracy {scores[name].mean():.2f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
clean = np.setdiff1d(np.arange(len(y)), loose)
left.hist([z[clean], z[loose]], bins=30, stacked=True, label=["clean", "loose electrode"])
left.axvline(3, color="0.3", linestyle=":")
left.set(xlabel="z-score", ylabel="trials", title="Artefacts")
left.legend()
right.plot([0, 1], list(scores.values()), "o-", color="0.7")
right.plot([0, 1], [s.mean() for s in scores.values()], "ko-", label="mean")
right.axhline(1 / 3, color="0.3", linestyle=":")
right.set_xticks([0, 1], list(scores))
right.set(xlim=(-0.3, 1.3), ylabel="accuracy", title="Each subject left out")
right.legend()
plt.show()
