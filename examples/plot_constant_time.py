"""
Predictions whose time does not depend on the training rows
===========================================================

The posterior mean is a sum of one function of each feature. With `n_bins`, these functions are
tabulated. A prediction is then one look-up for each feature, for any number of training rows. Its
error is below a bound that is known after the fit.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from histrs.gaussian_process import IntersectionGPRegressor

rng = np.random.default_rng(0)
X = rng.random((3000, 6))
y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=3000)
model = IntersectionGPRegressor(random_state=0).fit(X, y)
rows = rng.random((2000, 6))
exact = model.predict(rows)

bins = [4, 8, 16, 32, 64, 128, 256, 512]
errors, bounds = [], []
for n_bins in bins:
    model.set_params(n_bins=n_bins)
    errors.append(np.abs(model.predict(rows) - exact).max())
    bounds.append(model.quantization_error_bound_[0])

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.loglog(bins, bounds, ".--", label="certified bound")
left.loglog(bins, errors, ".-", label="largest error of 2,000 rows")
left.axhline(np.sqrt(model.noise_) * model.y_std_[0], color="0.6", label="noise of the targets")
left.set(xlabel="cells per feature", ylabel="error of a prediction")
_ = left.legend()

# %%
# A look-up table is exact if a feature has no more values than cells, such as grey levels.
images = load_digits()
of_images = IntersectionGPRegressor(random_state=0).fit(images.data[:500], images.target[:500])
exact = of_images.predict(images.data[500:])
errors = []
for n_bins in bins:
    of_images.set_params(n_bins=n_bins)
    errors.append(np.abs(of_images.predict(images.data[500:]) - exact).max())
right.loglog(bins, np.maximum(errors, 1e-15), ".-", color="tab:green")
right.set(xlabel="cells per feature", ylabel="largest error", title="digits, 17 grey levels")
plt.show()
