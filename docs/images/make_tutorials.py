"""Make the pictures of the tutorials, by their own code: `python -m docs.images.make_tutorials`."""

import os
import tempfile
from pathlib import Path

import matplotlib as mpl

from tests.test_readme import fenced_blocks

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"
# The same bytes whenever it is run.
os.environ["SOURCE_DATE_EPOCH"] = "0"
IMAGES = Path(__file__).resolve().parent

for page in sorted((IMAGES.parent / "tutorials").glob("*.md")):
    names: dict[str, object] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for block in fenced_blocks(page.read_text(encoding="utf-8")):
            if block.language == "python":
                exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), names)
        for picture in Path().glob(f"{page.stem}.*"):
            picture.replace(IMAGES / picture.name)
        os.chdir(IMAGES)
