"""One small change of a Python source at a time."""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "/",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.MatMult: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}


@dataclass(frozen=True)
class Mutant:
    """A file with one change."""

    path: Path
    name: str
    """File, function and change, with a number where that is not unique."""
    line: int
    source: str


def mutants_of(source: str, path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    seen: Counter[str] = Counter()
    for owner, node in _executed(ast.parse(source), ""):
        shown = node.test if isinstance(node, ast.If | ast.While) else node
        before = " ".join((ast.get_source_segment(source, shown) or "").split())
        for after, short in _changes(node, source):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
            changed = source.encode()[:start] + after.encode() + source.encode()[end:]
            try:
                compile(changed, str(path), "exec")
            except SyntaxError:
                continue
            name = f"{path.as_posix()}:{owner}: {before} -> {short}"
            seen[name] += 1
            number = f" ({seen[name]})" if seen[name] > 1 else ""
            yield Mutant(path, name + number, node.lineno, changed.decode())


def _executed(tree: ast.AST, owner: str) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    """Yield what runs in functions: no annotation, default, decorator or docstring."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            inside = f"{owner}.{node.name}" if owner else node.name
            for statement in node.body:
                wrapper = ast.Module([statement], [])
                if isinstance(node, ast.FunctionDef) or isinstance(
                    statement, ast.FunctionDef | ast.ClassDef
                ):
                    yield from _executed(wrapper, inside)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None and owner:
                yield owner, node.value
                yield from _executed(node.value, owner)
        elif isinstance(node, ast.expr | ast.stmt):
            if owner:
                yield owner, node
                yield from _executed(node, owner)
        else:
            yield from _executed(node, owner)


def _changes(node: ast.expr | ast.stmt, source: str) -> Iterator[tuple[str, str]]:
    """Yield what may stand in place of a node, and how it is told."""
    if isinstance(node, ast.If | ast.While):
        whole = ast.get_source_segment(source, node) or ""
        condition = ast.get_source_segment(source, node.test) or ""
        for value in ("False",) if isinstance(node, ast.While) else ("True", "False"):
            yield whole.replace(condition, value, 1), f"if {value}"
    else:
        for after in _replacements(node, source):
            yield after, " ".join(after.split())


def _replacements(node: ast.AST, source: str) -> Iterator[str]:
    def text(part: ast.AST) -> str:
        return f"({ast.get_source_segment(source, part)})"

    match node:
        case ast.Compare(left, [operator], [right]):
            yield f"({text(left)} {COMPARISONS[type(operator)]} {text(right)})"
        case ast.BinOp(left, operator, right) if type(operator) in OPERATORS:
            if not any(_is_text(side) for side in (left, right)):
                yield f"({text(left)} {OPERATORS[type(operator)]} {text(right)})"
        case ast.AugAssign(target, operator, value) if type(operator) in OPERATORS:
            after = OPERATORS[type(operator)]
            yield f"{ast.get_source_segment(source, target)} {after}= {text(value)}"
        case ast.BoolOp(operator, values):
            word = "or" if isinstance(operator, ast.And) else "and"
            yield "(" + f" {word} ".join(text(value) for value in values) + ")"
        case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand):
            yield text(operand)
        case ast.IfExp(_, body, otherwise):
            yield text(body)
            yield text(otherwise)
        case ast.Constant(bool(value)):
            yield str(not value)
        case ast.Constant(int(value)):
            yield str(value + 1)
        case ast.Constant(float(value)):
            yield repr(2.0 * value) if value else "1.0"
        case ast.Expr(ast.Call()):
            yield "pass"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
