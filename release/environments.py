"""`python -m release.environments [--only newest] dist/*`: install and use what users will.

Each wheel and sdist goes into two clean environments outside of the clone, with the oldest versions
of its dependencies that it allows and with the newest. There `release/smoke.py` runs. Of the newest
with a wheel, also: whether each extra can be installed as errors and guides write it, and, on
Linux, the time of its import.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from uv import find_uv_bin

from release import ROOT

UV = find_uv_bin()
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}


def try_out(artifact: Path, resolution: str, folder: Path) -> None:
    """Install an artifact into a new environment in `folder`, and use it there."""
    print(f"== {artifact.name}, {resolution} versions", flush=True)
    environment = folder / "environment"
    _run([UV, "venv", "--quiet", "--seed", "--python", sys.executable, environment], folder)
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = [UV, "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    _run([*install, "--resolution", RESOLUTIONS[resolution], artifact.resolve()], folder)
    _run([UV, "pip", "list", "--python", python], folder)
    _run([python, "-I", ROOT / "release" / "smoke.py"], folder)
    if resolution == "newest" and artifact.suffix == ".whl":
        if sys.platform == "linux":
            _run([python, "-I", ROOT / "release" / "import_time.py"], folder)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        named = f"histrs[{','.join(project['optional-dependencies'])}]"
        # The installed package answers for its name, wherever it came from.
        _run([python, "-m", "pip", "install", "--quiet", "--dry-run", named], folder)
        print(f"installable: {named}")


def _run(command: Sequence[str | Path], folder: Path) -> None:
    # Nothing of the clone, and of the machine only what every process needs.
    strange = ("PYTHON", "VIRTUAL_ENV", "CONDA")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(strange)}
    subprocess.run([str(word) for word in command], cwd=folder, env=kept, check=True)


def main(arguments: list[str] | None = None) -> int:
    """Try every artifact; return 1 when one fails."""
    parser = argparse.ArgumentParser(prog="python -m release.environments", description=__doc__)
    parser.add_argument("artifacts", nargs="+", type=Path)
    # Some platforms are younger than the oldest versions.
    parser.add_argument("--only", choices=RESOLUTIONS, help="versions of the dependencies")
    options = parser.parse_args(arguments)
    failed = []
    for artifact in options.artifacts:
        for resolution in [options.only] if options.only else RESOLUTIONS:
            with tempfile.TemporaryDirectory(prefix="histrs-release-") as folder:
                try:
                    try_out(artifact, resolution, Path(folder))
                except subprocess.CalledProcessError as error:
                    print(f"error: {error}", file=sys.stderr)
                    failed.append(f"{artifact.name}, {resolution} versions")
    print(f"failed: {'; '.join(failed)}" if failed else "every artifact works")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
