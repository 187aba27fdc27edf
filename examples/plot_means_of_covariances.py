"""
Four means of covariance matrices
=================================

The arithmetic mean of long ellipses with different directions is nearly round. Its determinant is
larger than theirs (swelling). Geometric means of covariances keep the determinant.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse

from histrs.spd import airm_mean, jbld_mean, log_euclidean_mean


def ellipse(C, **style):
    """Return the ellipse of a matrix, of one standard deviation."""
    values, vectors = np.linalg.eigh(C)
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    width, height = 2 * np.sqrt(values[::-1])
    return Ellipse((0, 0), width, height, angle=angle, fill=False, **style)


def turned(angle, long=9.0, short=0.25):
    """Return a covariance whose long axis has an angle."""
    c, s = np.cos(angle), np.sin(angle)
    R = np.array([[c, -s], [s, c]])
    return R @ np.diag([long, short]) @ R.T


X = np.stack([turned(0.25), turned(np.pi / 2 + 0.25), turned(0.55)])
means = {
    "arithmetic": X.mean(axis=0),
    "log-Euclidean": log_euclidean_mean(X),
    "Riemannian": airm_mean(X),
    "JBLD (Stein)": jbld_mean(X),
}
fig, axes = plt.subplots(1, 4, figsize=(11, 3.1), sharey=True, layout="constrained")
for ax, (name, mean) in zip(axes, means.items(), strict=True):
    for C in X:
        ax.add_patch(ellipse(C, color="0.7"))
    ax.add_patch(ellipse(mean, color="tab:red", linewidth=2))
    ax.set(title=f"{name}\ndeterminant {np.linalg.det(mean):.2f}", aspect="equal")
    ax.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2))
print("determinants of the three:", np.linalg.det(X).round(2))
plt.show()
