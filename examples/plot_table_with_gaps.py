"""
Categories and missing values
=============================

A table as it comes: numbers of different units, a column of words, and gaps. A blend of Gaussian
processes takes it as it is, and says of each prediction how sure it is.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from histrs.gaussian_process import TabularGPRegressor

rng = np.random.default_rng(0)
n = 900
table = pd.DataFrame(
    {
        "area": rng.lognormal(4.5, 0.4, n),
        "age": rng.integers(0, 90, n).astype(float),
        "distance": rng.exponential(5.0, n),
        "district": rng.choice(["north", "south", "harbour"], n),
    }
)
premium = table["district"].map({"north": 1.0, "south": 1.2, "harbour": 1.8})
rent = 8 * table["area"] ** 0.9 * premium * np.exp(-0.03 * table["distance"])
rent += 0.05 * (table["age"] - 45) ** 2 + 30 * rng.normal(size=n)
table.loc[rng.random(n) < 0.25, "district"] = None
table["district"] = table["district"].astype("category")
table.loc[rng.random(n) < 0.1, "age"] = np.nan
X_train, X_test, y_train, y_test = train_test_split(table, rent, random_state=0)

model = TabularGPRegressor(random_state=0).fit(X_train, y_train)
trees = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
trees.fit(X_train, y_train)
for name, fitted in (("TabularGP", model), ("boosted trees", trees)):
    error = np.sqrt(np.mean((fitted.predict(X_test) - y_test) ** 2))
    print(f"{name:14} error {error:.0f} of {y_test.std():.0f}")

mean, ends = model.predict(X_test, return_quantiles=[0.025, 0.975])
known = X_test["district"].notna().to_numpy()
inside = (ends[:, 0] < y_test) & (y_test < ends[:, 1])
print(f"in the intervals of 95 %: {np.mean(inside):.0%}")

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for here, name, color in ((known, "district known", "tab:blue"), (~known, "missing", "tab:orange")):
    wide = np.abs(ends[here] - mean[here, None]).T
    left.errorbar(mean[here], y_test[here], xerr=wide, fmt=".", color=color, alpha=0.5, label=name)
left.plot([200, 1600], [200, 1600], color="0.3")
left.set(xlabel="prediction, with interval", ylabel="rent", xlim=(0, 2000), ylim=(0, 2000))
left.legend()
right.barh(table.columns, model.feature_importances_)
right.set(title="importances")
plt.show()
