"""Mutants of Rust sources, all of them in one program that a number chooses from.

A binary expression becomes a choice between itself and itself with another operator, so that a
crate is compiled once for all of its mutants. What stands in macros, constants, patterns and unit
tests stays as it is.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

# The operators that take the place of one: by value, by reference, and where the right side is
# evaluated or not.
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "<<": ">>", ">>": "<<"}
ARITHMETIC |= {"&": "|", "|": "&", "^": "&"}
COMPARISONS = {"<": ("<=", ">"), ">": (">=", "<"), "<=": ("<", ">"), ">=": (">", "<")}
COMPARISONS |= {"==": ("!=",), "!=": ("==",)}
LOGICAL = {"&&": "||", "||": "&&"}
ASSIGNMENTS = {f"{old}=": f"{new}=" for old, new in ARITHMETIC.items()}

# Evaluated at compile time, or no expressions.
_LEFT_ALONE = {
    *("const_item", "static_item", "attribute_item", "inner_attribute_item", "array_type"),
    *("type_arguments", "macro_definition", "macro_invocation", "const_block", "match_pattern"),
}
_EXPRESSIONS = {"binary_expression", "compound_assignment_expr"}
_NAME_LENGTH = 60
_PARSER = Parser(Language(tree_sitter_rust.language()))


@dataclass(frozen=True)
class Site:
    """An expression, and the operators that take the place of its own."""

    line: int
    names: tuple[str, ...]
    """One for each mutant: file, function, expression and its operator."""


class Source:
    """A file and its sites."""

    def __init__(self, path: Path, text: bytes) -> None:
        self.path, self._text = path, text
        self.digest = hashlib.sha256(text).hexdigest()[:16]
        self._root = _PARSER.parse(text).root_node
        seen = Counter[str]()
        found = sorted(self._nodes(self._root, ""), key=lambda pair: _key(pair[0]))
        self.sites = {_key(node): self._site(node, scope, seen) for node, scope in found}

    def rewritten(self, first: dict[int, int]) -> tuple[bytes, list[tuple[int, int, int]]]:
        """Return the source with mutants, and where in it each site begins and ends.

        Parameters
        ----------
        first : dict of int to int
            The number of the first mutant of each site that is to have any, by its start.
        """
        parts, spans, length = list[bytes](), list[tuple[int, int, int]](), 0

        def put(text: bytes) -> None:
            nonlocal length
            parts.append(text)
            length += len(text)

        def copy(node: Node) -> None:
            at = node.start_byte
            for child in node.children:
                put(self._text[at : child.start_byte])
                render(child)
                at = child.end_byte
            put(self._text[at : node.end_byte])

        def render(node: Node) -> None:
            if node.type not in _EXPRESSIONS or _key(node) not in first:
                copy(node)
                return
            start, key = length, _key(node)
            before, operator, after = node.children[0], _operator(node), node.children[-1]
            # By the numbers of the mutants, and its own operator for all others.
            numbered = [(b"%d" % k, other) for k, other in enumerate(_others(node), first[key])]
            arms = [(arm, other.encode()) for arm, other in [*numbered, (b"_", operator)]]
            choice = b"match crate::mutant::chosen() { "
            if operator in LOGICAL:
                put(b"(" + choice)
                for arm, other in arms:
                    put(b"%s => " % arm)
                    render(before)
                    put(b" %s " % other)
                    render(after)
                    put(b", ")
                put(b"})")
            elif operator in ASSIGNMENTS:
                put(b"{ let r = ")
                render(after)
                put(b"; " + choice)
                for arm, other in arms:
                    put(b"%s => " % arm)
                    render(before)
                    put(b" %s r, " % other)
                put(b"} }")
            else:
                by = b"&" if operator in COMPARISONS else b""
                put(b"(match (%s(" % by)
                render(before)
                put(b"), %s(" % by)
                render(after)
                put(b")) { (l, r) => " + choice)
                for arm, other in arms:
                    put(b"%s => l %s r, " % (arm, other))
                put(b"} })")
            spans.append((start, length, key))

        put(self._text[: self._root.start_byte])
        render(self._root)
        put(self._text[self._root.end_byte :])
        return b"".join(parts), spans

    def _site(self, node: Node, scope: str, seen: Counter[str]) -> Site:
        expression = " ".join(self._text[node.start_byte : node.end_byte].decode().split())
        if len(expression) > _NAME_LENGTH:
            expression = expression[:_NAME_LENGTH] + "..."
        names = []
        for other in _others(node):
            name = f"{self.path}:{scope}: {expression}: {_operator(node)} -> {other}"
            seen[name] += 1
            names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
        return Site(node.start_point[0] + 1, tuple(names))

    def _nodes(self, node: Node, scope: str) -> Iterator[tuple[Node, str]]:
        if node.type in _LEFT_ALONE or _is_of_tests(node) or _is_constant(node):
            return
        if node.type in {"function_item", "impl_item", "trait_item", "mod_item"}:
            name = node.child_by_field_name("name") or node.child_by_field_name("type")
            if name is not None and name.text is not None:
                part = name.text.decode().partition("<")[0]
                scope = f"{scope}::{part}" if scope else part
        length = node.child_by_field_name("length") if node.type == "array_expression" else None
        for child in node.children:
            if length is None or child != length:
                yield from self._nodes(child, scope)
        if node.type in _EXPRESSIONS and _others(node):
            yield node, scope


def _key(node: Node) -> int:
    """Return what tells an expression from those that begin where it does: its operator."""
    return node.children[1].start_byte


def _operator(node: Node) -> str:
    return node.children[1].type


def _others(node: Node) -> tuple[str, ...]:
    operator = _operator(node)
    if operator in LOGICAL:
        # A pattern of a condition cannot be evaluated by itself.
        chained = any(child.type.startswith("let_") for child in node.children)
        return () if chained else (LOGICAL[operator],)
    if operator in COMPARISONS:
        return COMPARISONS[operator]
    one = ASSIGNMENTS.get(operator) or ARITHMETIC.get(operator)
    return () if one is None else (one,)


def _is_of_tests(node: Node) -> bool:
    if node.type == "source_file":
        attributes = [child for child in node.children if child.type == "inner_attribute_item"]
        return any(attribute.text == b"#![cfg(test)]" for attribute in attributes)
    name = node.child_by_field_name("name")
    return node.type == "mod_item" and name is not None and name.text == b"tests"


def _is_constant(node: Node) -> bool:
    modifiers = [child for child in node.children if child.type == "function_modifiers"]
    return node.type == "function_item" and any(b"const" in (m.text or b"") for m in modifiers)
