"""`python -m release.conda dist/histrs-0.2.0.tar.gz MAINTAINER`: the recipe for conda-forge."""

import hashlib
import sys
from pathlib import Path

RECIPE = Path(__file__).with_name("recipe.yaml")


def filled_in(sdist: Path, maintainer: str) -> str:
    """Return the recipe with the version and checksum of an sdist, and its maintainer on GitHub."""
    version = sdist.name.removeprefix("histrs-").removesuffix(".tar.gz")
    values = {
        "version: VERSION": f'version: "{version}"',
        "sha256: SHA256": f"sha256: {hashlib.sha256(sdist.read_bytes()).hexdigest()}",
        "- MAINTAINER": f"- {maintainer}",
    }
    text = RECIPE.read_text(encoding="utf-8")
    for place, value in values.items():
        text = text.replace(place, value)
    return text


def main() -> int:
    """Print the recipe."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    print(filled_in(Path(sys.argv[1]), sys.argv[2]), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
