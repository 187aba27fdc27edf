"""`histrs demo`: the Gaussian process on real histograms, beside a linear model and Cholesky.

| module | what is in it |
|---|---|
| `_data` | scikit-learn's digits as histograms, and their split |
| `_models` | the models, the grids they are chosen from, a plain Cholesky Gaussian process |
| `_scores` | accuracy, log loss and calibration of probabilities |
| `_costs` | times and peak memory |
| `_experiment` | everything that is measured, in order |
| `_tables` | the numbers as text, the same for terminal and page |
| `_charts` | pictures: SVG written by hand |
| `_page` | the HTML page |
"""

from histrs._demo._charts import readme_picture
from histrs._demo._experiment import Experiment, run_experiment
from histrs._demo._page import page
from histrs._demo._tables import terminal_text

__all__ = ["Experiment", "page", "readme_picture", "run_experiment", "terminal_text"]
