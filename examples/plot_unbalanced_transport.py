"""
Transport between histograms of different mass
==============================================

Two signals share a peak, which has drifted by a few bins. Each also has a peak of its own. Balanced
transport must move all mass, however far. In unbalanced transport, created and destroyed mass has a
cost. Mass then moves over short distances, and the rest is created or destroyed.
"""

import matplotlib.pyplot as plt
import numpy as np

from histrs.transport import grid_ground_distance, sinkhorn, unbalanced_sinkhorn

bins = np.arange(60)


def peak(centre, height):
    """Return a peak of some height."""
    return height * np.exp(-((bins - centre) ** 2) / 8)


a = peak(15, 1.0) + peak(40, 0.6)
b = peak(18, 1.0) + peak(54, 0.35)
M = grid_ground_distance(60)
plans = {
    "balanced, both of mass 1": sinkhorn(a / a.sum(), b / b.sum(), M=M, reg=0.5),
    "a unit of mass costs 5": unbalanced_sinkhorn(a, b, M=M, reg=0.5, reg_m=5.0),
}
fig, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
axes[0].plot(bins, a, label="a")
axes[0].plot(bins, b, label="b")
axes[0].set(title="two signals", xlabel="bin")
axes[0].legend()
for ax, (name, plan) in zip(axes[1:], plans.items(), strict=True):
    share = plan.sum() / max(a.sum(), b.sum()) if plan.sum() > 1.5 else 1.0
    far = plan[np.abs(bins[:, None] - bins) > 8].sum() / plan.sum()
    print(f"{name}: {share:.0%} of the larger mass moves, {far:.0%} of that more than 8 bins")
    ax.imshow(np.sqrt(plan), origin="lower", cmap="magma_r")
    ax.plot(bins, bins, color="0.7", linewidth=0.8)
    ax.set(title=name, xlabel="bin of b", ylabel="bin of a")
plt.show()
