# RUN: python3 %s %fuse_src_root/python/fuse_mlir
# RUN: rm -rf %t && mkdir -p %t/support %t/native %t/fusion %t/shop
# RUN: touch %t/shop/__init__.py
# RUN: echo 'def late(): from fuse_mlir.native import library' > %t/support/a.py
# RUN: echo 'from fuse_mlir.fusion import d' > %t/fusion/c.py
# RUN: echo 'from fuse_mlir.fusion import c' > %t/fusion/d.py
# RUN: echo 'from fuse_mlir import fuse_modules' > %t/native/b.py
# RUN: echo 'from fuse_mlir.fusion import no_module' > %t/native/library.py
# RUN: not python3 %s %t | FileCheck %s
# CHECK: shop is not in the order of packages
# CHECK: native/b.py imports the public fuse_mlir; import the module that defines the name
# CHECK: native/library.py imports fuse_mlir.fusion of a later package
# CHECK: support/a.py imports fuse_mlir.native of a later package
# CHECK: fusion.c, fusion.d import each other
"""Packages of fuse_mlir import those before them only.

Imports inside of functions and those for type checkers count: where a reader
has to follow a name, the order has to hold. Modules of one package do not
import each other in a circle.
"""

import ast
import pathlib
import sys

ORDER = (
    "errors",
    "support",
    "ir",
    "native",
    "quantized",
    "calibration",
    "frontend",
    "matching",
    "compiler",
    "checkpoint",
    "fusion",
    "slots",
    "deploy",
    "reports",
    "cli",
)
RANK = {name: i for i, name in enumerate(ORDER)}


def list_modules(root):
    """Files by the dotted name of their module."""
    modules = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if path.name == "__init__.py":
            parts = parts[:-1]
        if parts and parts[0] != "__main__":
            modules[".".join(parts)] = path
    return modules


def list_imports(path, modules):
    """Modules and packages of fuse_mlir that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level:
            package, names = node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("fuse_mlir."):
                    yield alias.name.removeprefix("fuse_mlir.")
            continue
        else:
            continue
        if package == "fuse_mlir":
            yield from names
        elif package.startswith("fuse_mlir."):
            package = package.removeprefix("fuse_mlir.")
            for name in names:
                whole = f"{package}.{name}"
                yield whole if whole in modules else package


def find_circle(start, imports):
    """Modules on a way from one back to itself, or nothing."""
    ways = [[start]]
    seen = set()
    while ways:
        way = ways.pop()
        for name in sorted(imports.get(way[-1], ())):
            if name == start:
                return sorted(way)
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return None


def look_at_imports(root):
    modules = list_modules(root)
    imports = {}
    for name in sorted({name.split(".")[0] for name in modules}):
        if name not in RANK:
            yield f"{name} is not in the order of packages"
    for name, path in modules.items():
        own = name.split(".")[0]
        where = path.relative_to(root).as_posix()
        imports[name] = set(list_imports(path, modules))
        for other in sorted(imports[name]):
            package = other.split(".")[0]
            if package not in RANK:
                yield (
                    f"{where} imports the public fuse_mlir; import the "
                    "module that defines the name"
                )
            elif RANK[package] > RANK.get(own, len(ORDER)):
                yield f"{where} imports fuse_mlir.{package} of a later package"
    circles = {
        tuple(circle)
        for name in modules
        if (circle := find_circle(name, imports))
    }
    for circle in sorted(circles):
        yield f"{', '.join(circle)} import each other"


def main(root):
    problems = list(look_at_imports(pathlib.Path(root)))
    print("\n".join(problems))
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
