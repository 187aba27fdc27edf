"""What every test shares: Hypothesis' profile, threads of BLAS, the random generator."""

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# How long an example takes says nothing here; the first one may start threads. Every run meets
# the same examples, so that a change is what makes a test fail; `--hypothesis-profile=fuzz` looks
# for new ones.
settings.register_profile(
    "histrs", settings.default, deadline=None, max_examples=25, derandomize=True
)
# Where only versions of packages differ.
settings.register_profile("few", settings.default, deadline=None, max_examples=5, derandomize=True)
settings.register_profile("fuzz", settings.default, deadline=None, max_examples=400)
settings.load_profile("histrs")


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    """Threads of BLAS wait in busy loops; on matrices as small as here that is all they do."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(0)
