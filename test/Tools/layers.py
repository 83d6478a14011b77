# RUN: python3 %s %fuse_src_root
# RUN: rm -rf %t && mkdir -p %t/lib/Analysis %t/lib/Slots %t/test/Slots \
# RUN:   %t/include/fuse/Slots %t/lib/Transforms/Raise %t/emulator/ptx
# RUN: echo '#include "fuse/Slots/Passes.h"' > %t/lib/Analysis/Equivalence.cpp
# RUN: echo '#include "../Transforms/Raise/Raise.h"' > %t/lib/Analysis/Near.cpp
# RUN: echo '#include "fuse/IR/FuseOps.h"' > %t/emulator/ptx/Ptx.cpp
# RUN: echo '#include "machine/Machine.h"' > %t/emulator/ptx/Threads.cpp
# RUN: echo 'def LostPass : Pass<"fuse-lost", "::mlir::ModuleOp"> {' > %t/include/fuse/Slots/Passes.td
# RUN: echo 'def FoundPass : Pass<"fuse-found"> {' >> %t/include/fuse/Slots/Passes.td
# RUN: touch %t/lib/Slots/Found.cpp %t/test/Slots/found-errors.mlir \
# RUN:   %t/lib/Transforms/Raise/Raise.h
# RUN: not python3 %s %t | FileCheck %s
# CHECK: lib/Analysis/Equivalence.cpp includes fuse/Slots/Passes.h of a later layer
# CHECK: lib/Analysis/Near.cpp includes ../Transforms/Raise/Raise.h of a later
# CHECK: emulator/ptx/Ptx.cpp includes fuse/IR/FuseOps.h, which is not its own
# CHECK: emulator/ptx/Threads.cpp includes machine/Machine.h of a later layer
# CHECK: fuse-lost has no lib/Slots/Lost.cpp
# CHECK: fuse-lost has no test/Slots/lost.mlir
# CHECK-NOT: fuse-found
"""Layers include those before them only, and passes are where they belong.

A pass `fuse-form-kernels` of a layer is in FormKernels.cpp there, and its tests
begin with its name: `form-kernels.mlir`, `form-kernels-errors.mlir`. Those of
the dialects and conversions lie in a folder of the same name.
"""

import pathlib
import re
import sys

# Layers of one line do not include each other.
ORDER = (
    ("Support", "fuse-c"),
    ("dialects",),
    ("Analysis",),
    ("Schedule",),
    ("Codegen",),
    ("Transforms", "Conversion", "Slots"),
    ("Pipelines", "Target", "Runtime"),
    ("Artifact", "InitAllDialects.h", "InitAllPasses.h"),
    ("IO", "Measure"),
    ("Interpreter",),
    ("Execution",),
    ("CAPI", "Plugin", "Python"),
    ("tools",),
)
RANK = {layer: i for i, layers in enumerate(ORDER) for layer in layers}
# The runtime is also a library of its own, for hosts without MLIR.
WITHOUT_MLIR = (
    "include/fuse/Runtime/",
    "lib/Runtime/",
    "include/fuse/Measure/",
    "lib/Measure/",
    "include/fuse-c/",
    "emulator/",
)
# Handles of dialects are for hosts with MLIR.
FOR_MLIR = "include/fuse-c/Dialects.h"
# All that the emulator has of fuse: the declarations of what it stands in for.
EMULATED = "fuse/Runtime/CUDA/CudaDriverApi.h"
EMULATOR_ORDER = ("ptx", "machine", "instructions", "driver", "unittests")


def layer_of_file(name):
    parts = name.split("/")
    if parts[0] == "include":
        return parts[1] if parts[1] == "fuse-c" else parts[2]
    return parts[1] if parts[0] == "lib" else parts[0]


def layer_of_include(name):
    parts = name.split("/")
    if parts[0] in ("fuse", "nn", "stage", "tile") and parts[1] == "IR":
        return "dialects"
    return parts[1] if parts[0] == "fuse" else parts[0]


def layer_of_relative(root, path, name):
    """The layer of a header that is named from the folder of its user."""
    header = (path.parent / name).resolve()
    if header.exists() and header.is_relative_to(root.resolve()):
        return layer_of_file(header.relative_to(root.resolve()).as_posix())
    return layer_of_include(name)


def look_at_includes(root):
    for folder in ("dialects", "include", "lib", "emulator", "tools"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".c", ".cpp", ".h", ".hpp", ".td"):
                continue
            name = path.relative_to(root).as_posix()
            own = layer_of_file(name)
            for found in re.finditer(
                r'^#?include "([^"]+)"', path.read_text(), re.MULTILINE
            ):
                other = layer_of_relative(root, path, found[1])
                if own == "emulator":
                    if other in RANK and found[1] != EMULATED:
                        yield f"{name} includes {found[1]}, which is not its own"
                    if other in EMULATOR_ORDER and EMULATOR_ORDER.index(
                        other
                    ) > EMULATOR_ORDER.index(name.split("/")[1]):
                        yield f"{name} includes {found[1]} of a later layer"
                elif own != other and RANK.get(other, -1) >= RANK.get(own, 99):
                    yield f"{name} includes {found[1]} of a later layer"
                if (
                    name.startswith(WITHOUT_MLIR)
                    and name != FOR_MLIR
                    and other in ("mlir", "llvm", "mlir-c")
                ):
                    yield f"{name} includes {found[1]}, but has no MLIR"


def look_at_passes(root):
    for path in sorted(root.glob("include/fuse/*/*.td")):
        layer = path.parent.name
        for name, argument in re.findall(
            r'^def (\w+)Pass\s*:\s*\w*Pass<\s*"([\w-]+)"',
            path.read_text(),
            re.MULTILINE,
        ):
            if layer == "Conversion":
                name = name.removeprefix("Convert")
                source, tests = f"{name}/{name}.cpp", f"{name}/*"
                test = f"{name}/"
            else:
                base = argument.removeprefix("fuse-")
                source, tests, test = f"{name}.cpp", f"{base}*", f"{base}.mlir"
            if not any((root / "lib" / layer).glob(f"**/{source}")):
                yield f"{argument} has no lib/{layer}/{source}"
            if not any((root / "test" / layer).glob(f"**/{tests}")):
                yield f"{argument} has no test/{layer}/{test}"


def main(root):
    root = pathlib.Path(root)
    problems = [*look_at_includes(root), *look_at_passes(root)]
    print("\n".join(problems))
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
