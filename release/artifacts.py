"""`python -m release.artifacts dist`: what is in the wheels and the sdist, before anyone installs
them."""

import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

from release import ROOT

LARGEST_WHEEL = 5_000_000
# What only the machine that built it knows.
LOCAL_PATH = re.compile(rb"file://|/home/|/root/|/Users/|[A-Z]:\\Users\\")
LICENCES = ["LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES.txt"]
# abi3, or the free-threaded Python that has no stable ABI yet.
TAGS = re.compile(r"-(cp311-abi3|cp3\d+-cp3\d+t)-[\w.]+\.whl$")


def of_wheel(path: Path, version: str) -> list[str]:
    """Return what is wrong with a wheel."""
    found = []
    if path.stat().st_size > LARGEST_WHEEL:
        found.append(f"{path.stat().st_size:,} bytes, more than {LARGEST_WHEEL:,}")
    if not path.name.startswith(f"histrs-{version}-") or not TAGS.search(path.name):
        found.append("not a wheel of this version for abi3 or free threads")
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    info = f"histrs-{version}.dist-info"
    wanted = [f"{info}/licenses/{name}" for name in LICENCES]
    wanted += [f"{info}/sboms/histrs.cyclonedx.json", "histrs/py.typed", "histrs/_histrs.pyi"]
    found += [f"{name} is missing" for name in wanted if name not in files]
    boms = [name for name in files if "/sboms/" in name]
    found += [f"{name} has a path of a machine" for name in boms if LOCAL_PATH.search(files[name])]
    strangers = [n for n in files if not n.startswith(("histrs/", f"{info}/", "histrs.libs/"))]
    return found + [f"{name} does not belong there" for name in strangers]


def of_sdist(path: Path, version: str) -> list[str]:
    """Return what is wrong with an sdist."""
    with tarfile.open(path) as archive:
        files = set(archive.getnames())
    wanted = ["Cargo.lock", "pyproject.toml", "rust/histrs/src/lib.rs", "python/histrs/_histrs.pyi"]
    wanted += ["release/histrs.cyclonedx.json", *LICENCES]
    found = [f"{name} is missing" for name in wanted if f"histrs-{version}/{name}" not in files]
    return found + [
        f"{name} was built" for name in files if name.endswith((".so", ".pyd", ".pyc", ".dylib"))
    ]


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the files of a folder."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"][
        "version"
    ]
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    found = []
    if not wheels and not sdists:
        found.append(f"{folder}: no wheel and no sdist")
    for path in wheels:
        found += [f"{path.name}: {problem}" for problem in of_wheel(path, version)]
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
    for path in sdists:
        found += [f"{path.name}: {problem}" for problem in of_sdist(path, version)]
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
    return found


def main() -> int:
    """Print what is wrong; return 1 when something is."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = problems(Path(sys.argv[1]))
    print("\n".join(found) or "artifacts are whole")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
