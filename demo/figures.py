"""The figures of the demonstration that a page repeats, as the demonstration writes them."""

from pathlib import Path

from demo.measure import BOOSTING, FOREST, LINEAR, OURS, Results, Table

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- demo: begin -->\n", "<!-- demo: end -->\n"


def _name(model: str, score: str) -> str:
    plain = {
        BOOSTING: "boosted trees",
        FOREST: "random forest",
        LINEAR: "logistic regression" if score == "log loss" else "ridge regression",
    }
    return plain.get(model) or f"`{model}`"


def _rows(results: Results) -> list[tuple[Table, str, str, str]]:
    """Return each table with its score, the best model of ours and the best of the others."""
    found = []
    for tables, score in ((results.classification, "log loss"), (results.regression, "RMSE")):
        for table in tables:
            others = [model for model in table.scores if model not in OURS]
            found.append((table, score, table.best(score, OURS), table.best(score, others)))
    return found


def lost(results: Results) -> str:
    """Return the tables on which another model is better, as rows of Markdown."""
    lines = "| table | score | best of histrs | best of the others |\n|---|---|--:|--:|\n"
    for table, score, ours, other in _rows(results):
        own, best = (table.mean(model, score) or 0.0 for model in (ours, other))
        if own > best:
            unit = "RMSE / sd" if score == "RMSE" else score
            lines += f"| {table.name} | {unit} | {own:.3f} {_name(ours, score)} | "
            lines += f"**{best:.3f}** {_name(other, score)} |\n"
    return lines


def write(results: Results) -> Path:
    """Write the figures into the page that repeats them; return this page."""
    path = ROOT / "docs" / "elsewhere.md"
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}{lost(results)}{END}{after}", encoding="utf-8")
    return path
