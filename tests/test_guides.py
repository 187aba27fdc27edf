"""The code of guide pages runs, and says what the page says."""

import re
import warnings

import numpy as np
import pytest

from tests.helpers import ROOT

PAGES = ["guide/eeg.md", "guide/covariance.md", "guide/detection.md", "errata.md"]


def run(page):
    """Run the blocks of a page one after the other; return what they leave behind."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return names


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_guide_runs(page):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(page)


def test_eeg_in_fifteen_lines_is_right_and_knows_how_sure_it_is():
    found = run("guide/eeg.md")
    assert found["accuracy"] > 0.8
    assert abs(found["confidence"] - found["accuracy"]) < 0.07
    np.testing.assert_array_equal(found["new"].shape, (60, 8, 8))
    assert found["model"][1].rank_ == 7
