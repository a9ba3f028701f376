"""The size and shape of the code: source files, lines, places that repeat each other, and public names.

python benchmarks/house.py [--src src] [--show] [--json house.json]

A line of code is one that holds anything but blanks, comments and docstrings. Two places repeat each other where six or
more lines of code in a row, within one function, class or other statement of a module, are the same; or have the same
shape, which is what is left without names and literals, provided that the six differ from each other in it: a table is
no repetition. Imports and `__all__` are boilerplate and do not count. Matches that overlap in both places count once.
`--show` lists the places.
"""

import argparse
import ast
import io
import json
import keyword
import os
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LEAST = 6  # lines of code that two places must have in common
LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT)


class Line(NamedTuple):
    """A line of code.

    Attributes:
        number: In its file.
        text: Without blanks at its ends.
        shape: Without names and literals.
        statement: Which statement of the module it belongs to; None for imports and `__all__`.
    """

    number: int
    text: str
    shape: str
    statement: int | None


class LineRange(NamedTuple):
    """Lines of one file, from the first to the last."""

    file: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file}:{self.first}-{self.last}"


def spans(nodes: Sequence[ast.stmt]) -> set[int]:
    return {line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def docstrings(tree: ast.Module) -> list[ast.stmt]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, owners) and node.body]
    return [
        body[0]
        for body in bodies
        if isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ]


def statements(tree: ast.Module) -> dict[int, int]:
    """Of each line the number of the statement of the module that it belongs to; imports and `__all__` are left out."""
    result: dict[int, int] = {}
    for number, node in enumerate(tree.body):
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        named = [getattr(target, "id", "") for target in getattr(node, "targets", ())]
        if "__all__" not in named:
            result |= dict.fromkeys(range(first, (node.end_lineno or first) + 1), number)
    imports = spans([node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)])
    return {line: number for line, number in result.items() if line not in imports}


def shape_of(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
        return "name"
    return token.string if token.type in (tokenize.NAME, tokenize.OP) else "literal"


def lines_of(source: str) -> list[Line]:
    """The lines of code of a file."""
    tree, shapes = ast.parse(source), defaultdict[int, list[str]](list)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            for number in range(token.start[0], token.end[0] + 1):
                shapes[number].append(shape_of(token))
    documented, owners, source_lines = spans(docstrings(tree)), statements(tree), source.split("\n")
    return [
        Line(number, source_lines[number - 1].strip(), " ".join(shapes[number]), owners.get(number))
        for number in sorted(set(shapes) - documented)
    ]


def repeated(files: dict[str, list[Line]], key: str) -> list[tuple[LineRange, LineRange]]:
    """Pairs of places whose lines are the same by `key`, each as long as it can be."""
    windows = defaultdict[tuple[str, ...], list[tuple[str, int]]](list)
    for name, lines in files.items():
        for start in range(len(lines) - LEAST + 1):
            part = lines[start : start + LEAST]
            values = tuple(getattr(line, key) for line in part)
            whole = len({line.statement for line in part}) == 1 and part[0].statement is not None
            if whole and (key == "text" or len(set(values)) == LEAST):
                windows[values].append((name, start))
    matches = {
        (one, other)
        for ranges in windows.values()
        for index, one in enumerate(ranges)
        for other in ranges[index + 1 :]
        if one[0] != other[0] or other[1] - one[1] >= LEAST
    }
    result = []
    for one, other in sorted(matches):
        if ((one[0], one[1] - 1), (other[0], other[1] - 1)) in matches:
            continue  # goes on from a match that begins a line earlier
        length = LEAST
        while ((one[0], one[1] + length - LEAST + 1), (other[0], other[1] + length - LEAST + 1)) in matches:
            length += 1
        result.append((_line_range(files, *one, length), _line_range(files, *other, length)))
    return result


def _line_range(files: dict[str, list[Line]], name: str, start: int, length: int) -> LineRange:
    lines = files[name][start : start + length]
    return LineRange(name, lines[0].number, lines[-1].number)


def overlaps(one: tuple[LineRange, LineRange], other: tuple[LineRange, LineRange]) -> bool:
    return all(a.file == b.file and a.first <= b.last and b.first <= a.last for a, b in zip(one, other, strict=True))


def repetitions(files: dict[str, list[Line]]) -> list[tuple[LineRange, LineRange]]:
    """Pairs of places with the same lines, then those of the same shape that are not among them."""
    result: list[tuple[LineRange, LineRange]] = []
    for pair in [*repeated(files, "text"), *repeated(files, "shape")]:
        if not any(overlaps(pair, known) for known in result):
            result.append(pair)
    return result


def measure(src: Path) -> tuple[dict[str, int], list[tuple[LineRange, LineRange]]]:
    """The figures by name, and the places that repeat each other."""
    files = {path.relative_to(src).as_posix(): lines_of(path.read_text()) for path in sorted(src.rglob("*.py"))}
    pairs = repetitions(files)
    count = "import manyhot; print(len(manyhot.__all__))"
    names = subprocess.check_output([sys.executable, "-c", count], env=os.environ | {"PYTHONPATH": str(src)})
    return {
        "source files": len(files),
        "lines of code": sum(map(len, files.values())),
        "pairs of repeated places": len(pairs),
        "public names": int(names),
    }, pairs


def append_record(path: Path, src: Path, figures: dict[str, object]) -> None:
    """Adds figures, with the commit that they are of, to those in a file."""
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=src, text=True).strip()
    records = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*records, {"commit": commit, **figures}], indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, default=Path(__file__).parent.parent / "src", help="folder of the package")
    parser.add_argument("--show", action="store_true", help="list the places that repeat each other")
    parser.add_argument("--json", type=Path, help="also add the figures to this file")
    options = parser.parse_args()
    figures, pairs = measure(options.src.resolve())
    for name, value in figures.items():
        print(f"{value:8,d}  {name}")
    if options.show:
        print(*(f"{one}  {other}" for one, other in pairs), sep="\n")
    if options.json:
        append_record(options.json, options.src, {"command": "python benchmarks/house.py", **figures})


if __name__ == "__main__":
    main()
