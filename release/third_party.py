"""`python -m release.third_party [--check]`: what the compiled extension is made of.

Writes the texts of the licences of every crate that is compiled into it, and a software bill of
materials (CycloneDX 1.5) without a path of this machine. Both are committed, and are parts of the
wheel and the sdist.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from release import ROOT

LICENCES = ROOT / "THIRD-PARTY-LICENSES.txt"
BILL = ROOT / "release" / "histrs.cyclonedx.json"
EXTENSION = "histrs-python"
# The names that files with licences have.
NAMES = re.compile(r"(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)
RULE = "=" * 80


def crates() -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """Return the crates that are compiled into the extension, and what each depends on."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    metadata = json.loads(text)
    packages = {package["id"]: package for package in metadata["packages"]}
    needs = {
        node["id"]: [
            dep["pkg"] for dep in node["deps"] if any(k["kind"] is None for k in dep["dep_kinds"])
        ]
        for node in metadata["resolve"]["nodes"]
    }
    ahead = [key for key, package in packages.items() if package["name"] == EXTENSION]
    met: set[str] = set()
    while ahead:
        key = ahead.pop()
        if key not in met:
            met.add(key)
            ahead += needs[key]
    chosen = sorted((packages[key] for key in met), key=lambda p: (p["name"], p["version"]))
    return chosen, {key: sorted(set(needs[key]) & met) for key in met}


def allowed() -> set[str]:
    """Return the licences that deny.toml allows."""
    return set(tomllib.loads((ROOT / "deny.toml").read_text("utf-8"))["licenses"]["allow"])


def is_allowed(expression: str, accepted: set[str]) -> bool:
    """Whether an SPDX expression of names, AND, OR and parentheses can be met."""
    expression = expression.replace(" WITH ", "-WITH-")
    words = re.findall(r"\(|\)|[^\s()/]+|/", expression)
    code = " ".join(
        {"AND": "and", "OR": "or", "/": "or", "(": "(", ")": ")"}.get(w, str(w in accepted))
        for w in words
    )
    return bool(eval(code, {"__builtins__": {}}))


def refused(packages: list[dict[str, Any]]) -> list[str]:
    """Return the crates whose licence deny.toml does not allow."""
    accepted = allowed()
    return [
        f"{package['name']} {package['version']}: {package['license']} is not in deny.toml"
        for package in packages
        if not package["license"] or not is_allowed(package["license"], accepted)
    ]


def texts_of(package: dict[str, Any]) -> list[str]:
    """Return the texts of the licence files of a crate."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(f for f in folder.iterdir() if f.is_file() and NAMES.search(f.name))
    return ["\n".join(f.read_text("utf-8").strip().splitlines()) for f in files]


def licences(packages: list[dict[str, Any]]) -> str:
    """Return every text once, below the crates that it belongs to."""
    shared: dict[str, list[str]] = {}
    without = []
    for package in packages:
        if package["source"] is None:
            continue
        title = f"{package['name']} {package['version']} ({package['license']})"
        texts = texts_of(package)
        for text in texts:
            shared.setdefault(text, []).append(title)
        if not texts:
            without.append(f"{title}, {package['repository']}")
    head = (
        "The compiled extension of histrs contains the crates below, and the standard library of\n"
        "Rust (MIT OR Apache-2.0, https://github.com/rust-lang/rust). Made by\n"
        "`python -m release.third_party`.\n"
    )
    parts = [head]
    if without:
        parts.append("Crates that come without a text of their licence:\n\n" + "\n".join(without))
    for text, titles in sorted(shared.items(), key=lambda item: item[1]):
        parts.append("\n".join(sorted(titles)) + "\n\n" + text)
    return f"\n\n{RULE}\n".join(part.strip() for part in parts) + "\n"


def bill(packages: list[dict[str, Any]], needs: dict[str, list[str]]) -> str:
    """Return the bill of materials; the same on every machine, so that builds can be repeated."""
    names = {p["id"]: f"pkg:cargo/{p['name']}@{p['version']}" for p in packages}
    (root,) = (p for p in packages if p["name"] == EXTENSION)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": _component(root, names)},
        "components": [_component(p, names) for p in packages if p is not root],
        "dependencies": [
            {"ref": names[p["id"]], "dependsOn": sorted(names[key] for key in needs[p["id"]])}
            for p in packages
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _component(package: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    name = names[package["id"]]
    return {
        "type": "library",
        "bom-ref": name,
        "name": package["name"],
        "version": package["version"],
        "purl": name,
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
        "externalReferences": [{"type": "vcs", "url": package["repository"]}],
    }


def main(arguments: list[str] | None = None) -> int:
    """Write both files, or compare them; return 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m release.third_party", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; are they current?")
    check = parser.parse_args(arguments).check
    packages, needs = crates()
    found = refused(packages)
    for path, text in ((LICENCES, licences(packages)), (BILL, bill(packages, needs))):
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text("utf-8") != text:
            found.append(
                f"{path.name} is not of this Cargo.lock: run python -m release.third_party"
            )
    print("\n".join(found) or f"third parties: {len(packages)} crates, licences allowed")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
