"""Configuration of the lit test suite of fuse."""

import os
import pathlib
import platform
import shutil
import subprocess
import sys

import lit.formats

config.name = "fuse"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".py", ".c", ".test"]
config.excludes = ["lit.cfg.py", "Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.fuse_obj_root, "test")

fuse_bin = os.path.join(config.fuse_obj_root, "bin")
# Tools that are scripts run from where they are.
scripts = os.path.join(config.fuse_src_root, "tools", "fuse-bisect")
path = [fuse_bin, scripts, config.llvm_tools_dir, os.environ.get("PATH", "")]
config.environment["PATH"] = os.pathsep.join(path)
config.environment["FILECHECK_OPTS"] = "--dump-input=fail"
# scripts/mutants.py chooses a mutant by it.
if "FUSE_MUTANT" in os.environ:
    config.environment["FUSE_MUTANT"] = os.environ["FUSE_MUTANT"]

# With FUSE_CHECK_ROUNDTRIP=1 every fuse-opt of the suite also prints and
# parses its input, as text and as bytecode, and compares.
fuse_opt = os.path.join(fuse_bin, "fuse-opt")
if os.environ.get("FUSE_CHECK_ROUNDTRIP") == "1":
    fuse_opt += " --verify-roundtrip"
    # Tests without it would do the same again. Lit excludes by name alone, so
    # that a name stays where any test of that name has one.
    names = {}
    for path in pathlib.Path(config.test_source_root).rglob("*"):
        if path.suffix in config.suffixes and "Inputs" not in path.parts:
            names.setdefault(path.name, []).append(path)
    config.excludes += [
        name
        for name, paths in names.items()
        if not any("fuse-opt" in path.read_text() for path in paths)
    ]
config.substitutions.append((r"(?<![\w/.-])fuse-opt(?![\w/.-])", fuse_opt))
config.substitutions.append(("%fuse_src_root", config.fuse_src_root))
config.substitutions.append(("%fuse_obj_root", config.fuse_obj_root))
# Runs a table of commands that must fail, and compares their messages.
check_errors = os.path.join(
    config.test_source_root, "Inputs", "check-errors.py"
)
config.substitutions.append(
    ("%check_errors", f"{sys.executable} {check_errors}")
)
config.substitutions.append(("%cxx", config.cxx))
# Libraries with sanitizers leave their functions to the program.
flags = "-fsanitize=" + config.sanitizers if config.sanitizers else ""
if flags:
    config.environment["CFLAGS"] = config.environment["CXXFLAGS"] = flags
config.substitutions.append(("%cflags", flags))
config.substitutions.append(("%cc", config.cc))
config.substitutions.append(("%mlir_dir", config.mlir_dir))
plugin = os.path.join(config.fuse_obj_root, "lib", "libFusePlugin.so")
config.substitutions.append(("%plugin", plugin))
# A program without a sanitizer cannot load a library with one.
if os.path.exists(plugin) and not config.sanitizers:
    config.available_features.add("plugin")
config.substitutions.append(("%llvm_lib_dir", config.llvm_lib_dir))

config.available_features.add(platform.machine())
if shutil.which("ptxas"):
    config.available_features.add("ptxas")
# LLVM leaves out the statistics of passes where it leaves out assertions.
if config.llvm_assertions.upper() in ("ON", "TRUE", "YES", "1"):
    config.available_features.add("statistics")

# Tests of the Python side need the packages that scripts/setup.sh installs.
venv = os.path.join(config.fuse_src_root, ".venv", "bin", "python")
python = os.environ.get("FUSE_PYTHON", venv)
config.substitutions.append(("%python", python))
config.environment["PYTHONPATH"] = os.path.join(config.fuse_src_root, "python")
if os.path.exists(python) and not subprocess.call(
    [
        python,
        "-c",
        "import importlib.util as u, sys;"
        "sys.exit(not (u.find_spec('torch') and u.find_spec('transformers')))",
    ]
):
    config.available_features.add("torch")
