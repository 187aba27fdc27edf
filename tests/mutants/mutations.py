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
    span: range
    """The lines of its statement, without those of the statements inside."""


def mutants_of(source: str, path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    text = Text(source)
    seen: Counter[str] = Counter()
    tree = ast.parse(source)
    spans = _spans(tree)
    unseen = set(_unseen(tree))
    for owner, node in _executed(tree, ""):
        if node in unseen:
            continue
        shown = node.test if isinstance(node, ast.If | ast.While) else node
        before = " ".join(text.of(shown).split())
        for after, short in _changes(node, text):
            changed = text.changed(shown, after)
            try:
                ast.parse(changed)
            except SyntaxError:
                continue
            name = f"{path.as_posix()}:{owner}: {before} -> {short}"
            seen[name] += 1
            number = f" ({seen[name]})" if seen[name] > 1 else ""
            yield Mutant(path, name + number, node.lineno, changed, spans[node])


class Text:
    """The source of a file, by nodes; `ast.get_source_segment` splits all of it each time."""

    def __init__(self, source: str) -> None:
        self._bytes = source.encode()
        self._starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def of(self, node: ast.expr | ast.stmt) -> str:
        """Return the source of a node."""
        return self._bytes[slice(*self._ends(node))].decode()

    def changed(self, node: ast.expr | ast.stmt, after: str) -> str:
        """Return the source of the file with something else for a node."""
        start, end = self._ends(node)
        return (self._bytes[:start] + after.encode() + self._bytes[end:]).decode()

    def _ends(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        return start, end


def _unseen(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what no result depends on.

    Checks that lengths agree and that entries are finite, what need not be copied, which
    negative number says that NumPy finds a length out, and which seed a generator has of its own.
    """
    for node in ast.walk(tree):
        match node:
            case ast.keyword("strict" | "overwrite_a" | "overwrite_b", ast.Constant(True)):
                yield node.value
            case ast.keyword("copy" | "check_finite", ast.Constant(False)):
                yield node.value
            case ast.Call(ast.Attribute(_, "default_rng"), [ast.Constant() as seed]):
                yield seed
            case ast.Call(ast.Attribute(_, "reshape")):
                for part in node.args:
                    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub):
                        yield part.operand


def _spans(tree: ast.AST) -> dict[ast.AST, range]:
    """Return the lines of the statement that each node belongs to."""
    spans = {}
    # Outer nodes come first, so that the innermost statement has the last word.
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            inside = [child.lineno for child in ast.iter_child_nodes(node)
                      if isinstance(child, ast.stmt | ast.excepthandler)]  # fmt: skip
            end = max(min([*inside, (node.end_lineno or node.lineno) + 1]), node.lineno + 1)
            spans |= dict.fromkeys(ast.walk(node), range(node.lineno, end))
        elif isinstance(node, ast.match_case) and node.guard is not None:
            lines = range(node.pattern.lineno, (node.guard.end_lineno or 0) + 1)
            spans |= dict.fromkeys(ast.walk(node.guard), lines)
    return spans


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


def _changes(node: ast.expr | ast.stmt, text: Text) -> Iterator[tuple[str, str]]:
    """Yield what may stand in place of a node, or of its condition, and how it is told.

    What it drops stays there unreached, so that a function closes over the same variables.
    """
    if isinstance(node, ast.If | ast.While):
        condition = f"({text.of(node.test)})"
        if isinstance(node, ast.If):
            yield f"(True or {condition})", "if True"
        yield f"(False and {condition})", "if False"
    else:
        whole = f"({text.of(node)})"
        for after in _replacements(node, text):
            short = " ".join(after.split())
            if isinstance(node, ast.Expr):
                yield f"False and {whole}", short
            elif isinstance(node, ast.IfExp):
                yield f"({after} if True else {whole})", short
            else:
                yield after, short


def _replacements(node: ast.AST, source: Text) -> Iterator[str]:
    def text(part: ast.expr) -> str:
        return f"({source.of(part)})"

    match node:
        case ast.Compare(left, [operator], [right]):
            yield f"({text(left)} {COMPARISONS[type(operator)]} {text(right)})"
        case ast.BinOp(left, operator, right) if type(operator) in OPERATORS:
            if not any(_is_text(side) for side in (left, right)):
                yield f"({text(left)} {OPERATORS[type(operator)]} {text(right)})"
        case ast.AugAssign(target, operator, value) if type(operator) in OPERATORS:
            after = OPERATORS[type(operator)]
            yield f"{source.of(target)} {after}= {text(value)}"
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
