"""No circle of imports among the modules of the package, nor among the files of the crate."""

import ast
import re

from tests.helpers import ROOT

PACKAGE = ROOT / "python" / "histrs"
CRATE = ROOT / "rust" / "histrs" / "src"

USE = re.compile(r"^ *(pub(?:\([^)]*\))? )?use\s+([^;]+);", re.MULTILINE)


def circles(graph):
    """Return the sets of nodes that reach each other."""
    found = set()
    reached = {node: reachable(graph, node) for node in graph}
    for node, nodes in reached.items():
        together = frozenset(other for other in nodes if node in reached[other])
        if node in nodes and len(together) > 1:
            found.add(together)
    return [sorted(nodes) for nodes in found]


def reachable(graph, start):
    seen, pending = set(), [start]
    while pending:
        for node in graph[pending.pop()] - seen:
            seen.add(node)
            pending.append(node)
    return seen


def owner(origin, graph, name):
    """Return the module that defines a dotted name, through any re-exports."""
    while True:
        parts = name.split(".")
        module = next(
            (".".join(parts[:k]) for k in range(len(parts), 0, -1) if ".".join(parts[:k]) in graph),
            None,
        )
        if module is None or module == name:
            return module
        rest = name[len(module) + 1 :].split(".")
        defined = origin.get((module, rest[0]))
        if defined is None:
            return module
        name = ".".join([defined, *rest[1:]])


def resolved(imports, origin):
    return {
        module: {owner(origin, imports, name) for name in names} - {None, module}
        for module, names in imports.items()
    }


def package_graph(folder, root):
    imports, origin = {}, {}
    for path in sorted(folder.rglob("*.py")):
        parts = [root, *path.relative_to(folder).with_suffix("").parts]
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        imports[module] = set()
        for node in at_run_time(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    imports[module].add(name)
                    if path.name == "__init__.py":
                        origin[module, alias.asname or alias.name] = name
            elif isinstance(node, ast.Import):
                imports[module] |= {alias.name for alias in node.names}
    return resolved(imports, origin)


def at_run_time(tree):
    """Yield the nodes of a module, but for those below `if TYPE_CHECKING`."""
    yield tree
    if not (isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING"):
        for child in ast.iter_child_nodes(tree):
            yield from at_run_time(child)


def spread(tree):
    """Return the paths of a `use` tree: `a::{b, c::d}` is `a::b` and `a::c::d`."""
    head, brace, body = tree.partition("{")
    if not brace:
        return [tree.partition(" as ")[0].strip()]
    parts, depth, part = [], 0, ""
    for letter in body[: body.rindex("}")]:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [path for p in [*parts, part] if p.strip() for path in spread(head + p.strip())]


def absolute(path, module, children):
    """Return the dotted name of a path in a file, or None for what is of another crate."""
    parts, here = path.replace(" ", "").split("::"), module.split(".")
    if parts[0] == "super":
        while parts[0] == "super":
            parts, here = parts[1:], here[:-1]
    elif parts[0] == "crate":
        parts, here = parts[1:], here[:1]
    elif parts[0] == "self":
        parts = parts[1:]
    elif parts[0] not in children:
        return None
    return ".".join([*here, *parts])


def crate_graph(folder):
    """Return which file takes what from which.

    What the files of a folder take from its `mod.rs`, which lies around them, is not counted.
    """
    sources = {}
    for path in sorted(folder.rglob("*.rs")):
        parts = ["crate", *path.relative_to(folder).with_suffix("").parts]
        module = ".".join(parts[:-1] if parts[-1] in ("mod", "lib") else parts)
        source = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
        sources[module] = re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", source)[0]
    imports, origin = {}, {}
    for module, source in sources.items():
        children = set(re.findall(r"^(?:pub )?mod (\w+);", source, re.MULTILINE))
        imports[module] = set()
        for public, tree in re.findall(USE, source):
            for path in spread(" ".join(tree.split())):
                name = absolute(path, module, children)
                if name and public:
                    origin[module, name.rpartition(".")[2]] = name
                elif name:
                    imports[module].add(name)
        for path in re.findall(r"\b(?:crate|super)(?:::\w+)+", source):
            imports[module].add(absolute(path, module, children))
    return {
        module: {other for other in others if not f"{module}.".startswith(f"{other}.")}
        for module, others in resolved(imports, origin).items()
    }


def test_the_package_has_no_circle_of_imports():
    graph = package_graph(PACKAGE, "histrs")
    assert graph["histrs.metrics"]
    assert circles(graph) == []


def test_modules_at_the_root_are_few_and_each_of_several_folders():
    graph = package_graph(PACKAGE, "histrs")
    shared = {f"histrs.{path.stem}" for path in PACKAGE.glob("_*.py") if path.stem[1] != "_"}
    assert len(shared) <= 10
    for module in shared:
        users = {user.split(".")[1] for user, names in graph.items() if module in names}
        assert len({user for user in users if f"histrs.{user}" not in shared}) >= 2, module


def test_the_crate_has_no_circle_of_files():
    graph = crate_graph(CRATE)
    assert "crate.simd.aligned" in graph["crate.pairwise.packed"]
    assert circles(graph) == []


def test_a_circle_of_modules_is_seen(tmp_path):
    sources = {
        "low/__init__.py": "from p.low._deep import y\n",
        "low/_deep.py": "from p.top import x\n",
        "top.py": "from p.low import y\n",
        "other.py": "from p.low import y\n",
    }
    write(tmp_path, sources)
    # `low` itself only hands `y` on.
    assert circles(package_graph(tmp_path, "p")) == [["p.low._deep", "p.top"]]


def test_a_circle_of_files_is_seen(tmp_path):
    sources = {
        "lib.rs": "mod low;\nmod top;\nmod other;\npub use low::y;\n",
        "low/mod.rs": "mod deep;\npub(crate) use deep::{y, z};\nuse deep::z;\n",
        "low/deep.rs": "use super::K;\nfn z() { crate::top::x() }\n",
        "top.rs": "use crate::{\n    low::{y, z},\n};\n",
        "other.rs": "use crate::y;\n#[cfg(test)]\nmod tests {\n    use crate::top;\n}\n",
    }
    write(tmp_path, sources)
    assert circles(crate_graph(tmp_path)) == [["crate.low.deep", "crate.top"]]


def write(folder, sources):
    for path, text in sources.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
