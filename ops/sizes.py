"""Measure code lines, functions and nesting, and say what is over the caps: sizes.py FOLDER..."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 300
FUNCTION_LINES = 50
PARAMETERS = 6
NESTING = 3
PACKAGE_LINES = 27_000

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match)
BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
COMMENT_OR_STRING = re.compile(
    r"""#[^\n]*|("{3}|'{3})(?:\\.|.)*?\1|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL
)


def solid(found: re.Match[str]) -> str:
    """Return what counts of a comment or a string: nothing, or every line of it."""
    text = found[0]
    return "" if text.startswith("#") else "\n".join("s" * (text.count("\n") + 1))


def children(node: ast.AST) -> list[ast.AST]:
    """Return the statements in a node's blocks, with the handlers and cases among them."""
    return [child for block in BLOCKS for child in getattr(node, block, ())]


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and every statement in it; expressions hold none, and are most of a tree."""
    yield node
    for child in children(node):
        yield from walk(child)


def code_lines(source: str, tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that hold code: no blanks, comments or docstrings."""
    text = COMMENT_OR_STRING.sub(solid, source)
    lines = {number for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    for node in walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return lines


def count_parameters(function: FunctionNode) -> int:
    """Count what a caller may pass; `self` and `cls` are not passed by a caller."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(argument.arg not in {"self", "cls"} for argument in given)


def depth(node: ast.AST) -> int:
    """Return how deep branches, loops and try blocks nest in a node; `elif` adds nothing."""
    deepest = 0
    for child in children(node):
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        if isinstance(child, FunctionNode | ast.ClassDef):
            continue
        deepest = max(deepest, depth(child) + (isinstance(child, BRANCHES) and not is_elif))
    return deepest


def measure(path: Path) -> tuple[int, list[str]]:
    """Return a file's code lines and a sentence for everything in it over a cap."""
    source = path.read_text()
    tree = ast.parse(source)
    lines = code_lines(source, tree)
    excesses = [f"{path}: {len(lines)} code lines"] if len(lines) > FILE_LINES else []
    for node in walk(tree):
        if isinstance(node, FunctionNode):
            where = f"{path}:{node.lineno}: {node.name}"
            length = len(lines & set(range(node.lineno, (node.end_lineno or 0) + 1)))
            found = (
                (length, FUNCTION_LINES, "code lines"),
                (count_parameters(node), PARAMETERS, "parameters"),
                (depth(node), NESTING, "levels of nesting"),
            )
            excesses += [f"{where}: {n} {what}" for n, cap, what in found if n > cap]
    return len(lines), excesses


def report(folders: list[Path]) -> Iterator[str]:
    """Yield everything over a cap in the folders; print each folder's size."""
    for folder in folders:
        measured = {path: measure(path) for path in sorted(folder.rglob("*.py"))}
        total = sum(size for size, _ in measured.values())
        largest = max(measured, key=lambda path: measured[path][0], default=folder)
        print(f"{folder}: {total} code lines, largest file {largest.relative_to(folder)}")
        if folder.name == "appliance" and total > PACKAGE_LINES:
            yield f"{folder}: {total} code lines"
        for _, excesses in measured.values():
            yield from excesses


def main() -> int:
    """Print sizes and excesses; return 1 if there are any excesses."""
    excesses = list(report([Path(name) for name in sys.argv[1:]]))
    for excess in excesses:
        print(f"over the cap: {excess}")
    return bool(excesses)


if __name__ == "__main__":
    sys.exit(main())
