"""Finds modules that reach into the private names of others: `python -m tools.private_names` (part of make check).

A name with one leading underscore belongs to the module that defines it. A module may use such a name of an object only
where it defines that name itself, and may not import one from another module.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "fencepost"
_OF_TUPLES = {"_replace", "_asdict", "_fields", "_make"}
"""What every NamedTuple has."""
_FOREIGN = {
    "compiled.py": "Numba has no public way to keep machine code under a digest of all sources",
    "indexes/kernels/addresses.py": "Numba has no public name for the value of an array that an intrinsic makes",
    "pipeline/runtime/sinks.py": "Spark for Python has no public way to the plan that it made of a frame",
}
"""Modules that need private names of a library, and why."""


def is_private(name: str) -> bool:
    """Whether a name has one leading underscore."""
    return name.startswith("_") and not name.startswith("__") and name not in _OF_TUPLES


def defined_names(tree: ast.Module) -> set[str]:
    """The names that a module defines, or uses of its own objects: functions, classes, variables, attributes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and _is_own(node.value):
            names.add(node.attr)
    return names


def _is_own(value: ast.expr) -> bool:
    """Whether an object is the one whose method this is."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def reaches(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a module that reach into another's private names, and what they reach for."""
    tree = ast.parse(path.read_text())
    own = defined_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if is_private(alias.name) and not _is_module(node.module, alias.name):
                    yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            yield node.lineno, ast.unparse(node)


def _is_module(package: str, name: str) -> bool:
    folder = SOURCE.parent.joinpath(*package.split("."), name)
    return folder.is_dir() or folder.with_suffix(".py").exists()


def main(root: Path = SOURCE) -> int:
    """Print what was found; 1 if there is anything."""
    found = 0
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).as_posix() in _FOREIGN:
            continue
        for line, name in reaches(path):
            print(f"{path.relative_to(root.parent.parent)}:{line}: {name} is private to another module")
            found += 1
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
