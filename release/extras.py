"""`python -m release.extras`: extras that code, guides and errors name exist, and the reverse."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from release import ROOT

# Named in docs/installation.md alone.
FOR_TESTS = {"test"}


def named(root: Path = ROOT) -> Iterator[tuple[str, str, str]]:
    """Yield place, extra and line of every ``histrs[...]`` and ``.[...]`` of the texts."""
    texts = [root / "README.md", root / "CONTRIBUTING.md"]
    for folder in ("python", "docs", "examples", "demo", "benches"):
        texts += [
            path
            for pattern in ("*.py", "*.md", "*.rst", "*.toml")
            for path in sorted((root / folder).rglob(pattern))
            if not {"_build", "gallery", "generated"} & set(path.parts)
        ]
    for path in texts:
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            for extras in re.findall(r"(?:\bhistrs|[\"' ]\.)\[([a-z][a-z, ]*)\]", line):
                for extra in extras.split(","):
                    yield f"{path.relative_to(root)}:{number}", extra.strip(), line


def problems(root: Path = ROOT) -> list[str]:
    """Return extras that are named and missing, never named, or not quoted for a shell."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    found = []
    seen = set()
    for place, extra, line in named(root):
        seen.add(extra)
        if extra not in extras:
            found.append(f"{place}: pyproject.toml has no extra '{extra}'")
        if re.search(r"pip install (histrs|\.)\[", line):
            found.append(f"{place}: some shells read [{extra}] as a pattern: quote it")
    table = (root / "docs" / "installation.md").read_text(encoding="utf-8")
    for extra in extras:
        if f"| `{extra}` |" not in table:
            found.append(f"docs/installation.md: the table lacks the extra '{extra}'")
        if extra not in seen | FOR_TESTS:
            found.append(f"pyproject.toml: nothing names the extra '{extra}'")
    return found


def main() -> int:
    """Print what is wrong; return 1 when something is."""
    found = problems()
    print("\n".join(found) or "extras agree")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
