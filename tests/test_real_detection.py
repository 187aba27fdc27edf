"""Pedestrians in a few photographs of streets (Penn-Fudan; Wang, Shi, Song and Shen 2007).

They are looked for in the folder that HISTRS_DATA names, by default beside the repository.
"""

import io

import numpy as np
import pytest

from histrs.detection import PartDetector
from histrs.quantization import ProductQuantizer
from tests.test_real_data import DATA

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def photographs():
    """Two of three to learn from, at half the size."""
    path = DATA / "penn_fudan" / "pedestrians.npz"
    if not path.is_file():
        pytest.skip(f"no {path}; set HISTRS_DATA to the folder of the real data")
    with np.load(path) as stored:
        jpeg, offsets, boxes = (stored[name] for name in ("jpeg", "offsets", "boxes"))
    images, own = [], []
    for i in range(100, 118):
        file = io.BytesIO(jpeg[offsets[i] : offsets[i + 1]].tobytes())
        image = Image.open(file).convert("RGB")
        images.append(np.asarray(image.resize((image.width // 2, image.height // 2))))
        own.append(boxes[boxes[:, 0] == i, 1:] / 2)
    return (images[:12], own[:12]), (images[12:], own[12:])


@pytest.mark.parametrize("quantizer", [ProductQuantizer(4, 128, random_state=0), None], ids=str)
def test_pedestrians_are_found_by_codes_as_by_features(photographs, quantizer):
    train, test = photographs
    detector = PartDetector(
        n_components=1,
        n_parts=0,
        quantizer=quantizer,
        levels_per_octave=4,
        n_root_rounds=1,
        mirror=False,
        random_state=0,
    )
    assert detector.fit(*train).score(*test) > 0.5
