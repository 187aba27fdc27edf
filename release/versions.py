"""`python -m release.versions [--tag v0.2.0]`: one version, wherever it is written.

With a tag, also: the tag is that version, and the changelog gives it a date and leaves nothing
unreleased.
"""

import argparse
import datetime
import re
import sys
import tomllib
from pathlib import Path

from release import ROOT

# Where the changelog has the date of a version that is yet to be published.
NO_DATE = "unreleased"


def problems(root: Path = ROOT, tag: str | None = None) -> list[str]:
    """Return what disagrees with the version of the Cargo workspace, and with the tag if any."""
    workspace = tomllib.loads(_read(root, "Cargo.toml"))["workspace"]
    version = workspace["package"]["version"]
    written = {
        "Cargo.toml, dependency histrs": workspace["dependencies"]["histrs"]["version"],
        "CITATION.cff": _first(r"^version: (\S+)$", _read(root, "CITATION.cff")),
    }
    for package in tomllib.loads(_read(root, "Cargo.lock"))["package"]:
        if package["name"].startswith("histrs"):
            written[f"Cargo.lock, {package['name']}"] = package["version"]
    found = [
        f"{place}: version {other}, but Cargo.toml has {version}"
        for place, other in written.items()
        if other != version
    ]
    found += _of_the_changelog(_read(root, "CHANGELOG.md"), version, dated=tag is not None)
    if tag is not None and tag != f"v{version}":
        found.append(f"the tag is {tag}, but Cargo.toml has version {version}: v{version}")
    return found


def _of_the_changelog(text: str, version: str, dated: bool) -> list[str]:
    first, *rest = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    if not first.startswith("[Unreleased]\n"):
        return ["CHANGELOG.md: the first section is not [Unreleased]"]
    if not rest:
        return [f"CHANGELOG.md: there is no section [{version}]"]
    headings = [section.splitlines()[0] for section in rest]
    form = rf"\[\d+\.\d+\.\d+\] - (\d{{4}}-\d{{2}}-\d{{2}}|{NO_DATE})"
    found = [
        f"CHANGELOG.md: '{heading}' is not '[1.2.3] - 2026-01-31'"
        for heading in headings
        if not re.fullmatch(form, heading)
    ]
    if found:
        return found
    dates = [heading.split(" - ")[1] for heading in headings]
    if headings[0] != f"[{version}] - {dates[0]}":
        found.append(f"CHANGELOG.md: the newest section is {headings[0]}, not [{version}]")
    if NO_DATE in dates[1:]:
        found.append("CHANGELOG.md: only the newest version can be without a date")
    if dated and dates[0] == NO_DATE:
        found.append(f"CHANGELOG.md: [{version}] has no date yet, only '{NO_DATE}'")
    if dated and first.removeprefix("[Unreleased]").strip():
        found.append(f"CHANGELOG.md: [Unreleased] is not empty; move it to [{version}]")
    # A release is tagged somewhere east of here at most.
    tomorrow = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=1)
    future = [date for date in dates if date != NO_DATE and not _past(date, tomorrow)]
    return found + [f"CHANGELOG.md: {date} is no day up to today" for date in future]


def _past(date: str, last: datetime.date) -> bool:
    try:
        return datetime.date.fromisoformat(date) <= last
    except ValueError:
        return False


def _read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, flags=re.MULTILINE)
    return match[1] if match else None


def main(arguments: list[str] | None = None) -> int:
    """Print what is wrong; return 1 when something is."""
    parser = argparse.ArgumentParser(prog="python -m release.versions", description=__doc__)
    parser.add_argument("--tag", help="the tag that is to be published, such as v0.2.0")
    found = problems(tag=parser.parse_args(arguments).tag)
    print("\n".join(found) or "versions agree")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
