"""Writes `flats.csv`: 400 flats that are made up, with words, dates and missing values."""

from pathlib import Path

import numpy as np
import pandas as pd

# Rent of a square metre in the middle of each district.
DISTRICTS = {"Centre": 19.0, "Harbour": 17.0, "Hill": 15.0, "Mills": 13.0, "North": 11.0}


def flats(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Return flats, whose rents vary more the larger they are."""
    rng = np.random.default_rng(seed)
    area = np.round(rng.gamma(8.0, 9.0, n) + 18.0)
    district = rng.choice(list(DISTRICTS), n)
    built = rng.integers(1880, 2024, n)
    heating = rng.choice(["gas", "district", "electric"], n, p=[0.5, 0.35, 0.15])
    listed = pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 365, n), unit="D")
    metre = np.array([DISTRICTS[name] for name in district])
    metre = metre + 4.0 * (built > 2000) - 1.5 * (heating == "electric")
    rent = 150.0 + metre * area**0.95 * np.exp(0.1 * rng.standard_normal(n))
    frame = pd.DataFrame(
        {
            "area": area,
            "rooms": np.clip(np.round(area / 25.0 + 0.5 * rng.standard_normal(n)), 1, 7),
            "district": district,
            "built": pd.array(built, dtype="Int64"),
            "heating": heating,
            "listed": listed,
            "rent": np.round(rent),
        }
    )
    frame.loc[rng.random(n) < 0.15, "built"] = pd.NA
    frame.loc[rng.random(n) < 0.1, "heating"] = None
    return frame


if __name__ == "__main__":
    flats().to_csv(Path(__file__).with_name("flats.csv"), index=False)
