"""What a release has to be: `make release-check` runs these modules, and so does CI."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
