"""The figures of the demonstration that other pages repeat, as the demonstration writes them."""

from pathlib import Path

from demo.measure import BOOSTING, FOREST, LINEAR, OURS, TABULAR, Results, Table

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


def comparison(results: Results, *, only_lost: bool = False) -> str:
    """Return the tables of the demonstration as rows of Markdown, the better score in bold."""
    lines = "| table | score | best of histrs | best of the others |\n|---|---|--:|--:|\n"
    for table, score, ours, other in _rows(results):
        values = [table.mean(model, score) or 0.0 for model in (ours, other)]
        if only_lost and values[0] <= values[1]:
            continue
        shown = [f"**{v:.3f}**" if v == min(values) else f"{v:.3f}" for v in values]
        unit = "RMSE / sd" if score == "RMSE" else score
        lines += f"| {table.name} | {unit} | {shown[0]} {_name(ours, score)} | "
        lines += f"{shown[1]} {_name(other, score)} |\n"
    return lines


def coverage(results: Results) -> str:
    """Say how many test rows lie in the intervals of our model and of boosted trees."""
    spans = []
    for model in (TABULAR, BOOSTING):
        shares = [100 * (table.mean(model, "coverage") or 0.0) for table in results.regression]
        spans.append(f"{min(shares):.0f} to {max(shares):.0f}%")
    return (
        f"On the four tables of numbers, {spans[0]} of the test rows lie in the 95% intervals of\n"
        f"`{TABULAR}`, and {spans[1]} in those of boosted trees with quantile loss.\n"
    )


def write(results: Results) -> list[Path]:
    """Write the figures into the pages that repeat them; return these pages."""
    pages = {
        ROOT / "README.md": f"{comparison(results)}\n{coverage(results)}",
        ROOT / "docs" / "elsewhere.md": comparison(results, only_lost=True),
    }
    for path, figures in pages.items():
        text = path.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        path.write_text(f"{before}{BEGIN}{figures}{END}{after}", encoding="utf-8")
    return list(pages)
