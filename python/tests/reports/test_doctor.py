# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examination of an installation, whole and broken."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from fuse_mlir import native
from fuse_mlir.cli.main import main
from fuse_mlir.fusion import stored_timings
from fuse_mlir.reports import doctor
from fuse_mlir.support.chips import CAPABILITIES, chip_name
from tests.cli.test_commands import run
from tests.models import needs_library
from tests.support import ROOT


def examine(name):
    """The findings of one probe."""
    return next(p for p in doctor.PROBES if p.name == name).findings()


def execute(script, **environment):
    """Output and status of a Python process; None removes a variable."""
    whole = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT / "python",
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in whole.items() if v is not None},
    )
    return done.returncode, done.stdout, done.stderr


#: The command in a process of its own.
DOCTOR = """
import sys
from fuse_mlir.cli.main import main
sys.exit(main(["doctor", "--json"]))
"""


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def script(self, name, text):
        """An executable in the folder."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path


@needs_library
class Whole(unittest.TestCase):
    def test_text_names_each_part(self):
        status, out, error = run("doctor")
        self.assertEqual((status, error), (0, ""))
        for part in (
            "[ok] fuse_mlir: 0.1.0 in '",
            "] PyTorch: ",
            "] CUDA driver: ",
            "[ok] libfuse: '",
            "] fuse_call: ",
            "[ok] cache of code: '",
            "[ok] cache of timings: '",
            "] ptxas: ",
            "] transformers: ",
            "] safetensors: ",
            "] threads: ",
        ):
            self.assertIn(part, out)
        self.assertTrue(out.endswith("\nModules can be fused here.\n"), out)

    def test_json_has_details(self):
        status, out, _ = run("doctor", "--json")
        found = json.loads(out)
        self.assertEqual((status, found["works"]), (0, True))
        parts = {f["name"]: f["details"] for f in found["findings"]}
        self.assertTrue(parts["libfuse"]["compiler"])
        self.assertEqual(
            parts["cache of code"]["path"], os.environ["FUSE_CACHE_DIR"]
        )
        self.assertEqual(
            parts["cache of timings"]["path"], str(stored_timings.folder())
        )

    def test_caches_are_counted(self):
        folder = stored_timings.folder()
        folder.mkdir(parents=True, exist_ok=True)
        (before,) = examine("cache of timings")
        file = folder / "one.json"
        file.write_text("{}")
        self.addCleanup(file.unlink)
        (after,) = examine("cache of timings")
        self.assertEqual(
            after.details["entries"], before.details["entries"] + 1
        )
        self.assertEqual(after.details["bytes"], before.details["bytes"] + 2)

    def test_a_runtime_without_compiler_fuses_nothing(self):
        path = Path(native.library()._name).with_name("libfuse-rt.so")
        if not path.exists():
            self.skipTest("no libfuse-rt.so")
        status, out, error = execute(DOCTOR, FUSE_LIBRARY=str(path))
        self.assertEqual(status, 1, error)
        found = {f["name"]: f for f in json.loads(out)["findings"]}
        self.assertEqual(found["libfuse"]["status"], "broken")
        self.assertIn("Artifacts run", found["libfuse"]["consequence"])
        self.assertIn("no compiler", found["cache of code"]["found"])


class Broken(Folder):
    def test_nothing_is_imported_early(self):
        script = (
            "import sys, fuse_mlir.reports.doctor, fuse_mlir.cli.main\n"
            "print({'torch', 'numpy', 'transformers'} & set(sys.modules))"
        )
        self.assertEqual(execute(script), (0, "set()\n", ""))

    def test_each_probe_fails_by_itself(self):
        for name in ("torch", "transformers"):
            (self.folder / f"{name}.py").write_text("raise SystemError('bad')")
        text = self.folder / "text.so"
        text.write_text("no library")
        self.script("ptxas", "exit 3")
        status, out, error = execute(
            DOCTOR,
            PYTHONPATH=f"{self.folder}:{ROOT / 'python'}",
            PATH=str(self.folder),
            FUSE_CUDA_LIBRARY=str(text),
            FUSE_LIBRARY=str(text),
            FUSE_CACHE_DIR=str(text),
        )
        self.assertEqual((status, error), (1, ""))
        found = json.loads(out)
        self.assertIs(found["works"], False)
        parts = {f["name"]: f for f in found["findings"]}
        for probe in doctor.PROBES[1:-1]:
            if probe.name != "safetensors":
                self.assertEqual(parts[probe.name]["status"], probe.status)
                self.assertEqual(
                    parts[probe.name]["consequence"], probe.consequence
                )
        self.assertEqual(parts["PyTorch"]["found"], "not usable: bad")

    def test_a_missing_library_is_the_only_cause(self):
        path = self.folder / "none.so"
        status, out, _ = execute(DOCTOR, FUSE_LIBRARY=str(path))
        self.assertEqual(status, 1)
        broken = [
            f for f in json.loads(out)["findings"] if f["status"] == "broken"
        ]
        self.assertEqual([f["name"] for f in broken], ["libfuse"])
        self.assertIn(f"no libfuse.so; looked at {path}", broken[0]["found"])

    def test_text_marks_the_cause(self):
        def fail():
            yield doctor.Finding("first", "there")
            raise KeyError("second")

        probe = doctor.Probe("part", fail, "Nothing works.", "broken")
        with mock.patch.object(doctor, "PROBES", (probe,)):
            self.assertEqual(
                str(doctor.diagnose()),
                "[ok] first: there\n"
                "[!!] part: not usable: 'second'\n"
                "     Nothing works.\n"
                "Modules cannot be fused here, because of the lines with "
                "[!!].\n",
            )
            with mock.patch("builtins.print"):
                self.assertEqual(main(["doctor"]), 1)

    def test_old_pytorch(self):
        import torch

        with mock.patch.object(torch, "__version__", "2.9.1+cu128"):
            (found,) = examine("PyTorch")
        self.assertEqual(found.status, "limited")
        self.assertIn("supports PyTorch 2.11 or later", found.consequence)

    def test_caches_that_cannot_be_written(self):
        file = self.folder / "file"
        file.write_text("")
        with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(file)):
            (found,) = examine("cache of timings")
        self.assertIn(f"cannot write to '{file}'", found.found)
        self.assertIn("measures again", found.consequence)
        with mock.patch.object(native, "cache_problem", lambda: "no folder"):
            if native.available():
                (found,) = examine("cache of code")
                self.assertEqual(found.found, "not usable: no folder")

    def test_threads(self):
        with mock.patch.object(native, "num_threads", lambda: 100000):
            (found,) = examine("threads")
        self.assertEqual(
            found.consequence, "Kernels on the CPU wait for processors."
        )

    def test_ptxas(self):
        with mock.patch.dict(os.environ, PATH=str(self.folder)):
            with mock.patch.object(doctor, "find_ptxas", return_value=None):
                (found,) = examine("ptxas")
            self.assertIn("there is none in PATH", found.found)
            self.script("ptxas", "echo 'compilation tools, release 12.8, V1'")
            (found,) = examine("ptxas")
            self.assertEqual(found.details["version"], "12.8")

    def test_variables(self):
        none = {k: v for k, v in os.environ.items() if k[:5] != "FUSE_"}
        with mock.patch.dict(os.environ, none, clear=True):
            (found,) = examine("environment")
            self.assertIn("no variable FUSE_* is set", found.found)
            os.environ.update(FUSE_AMX="0", FUSE_THREADS="4")
            known, unknown = examine("environment")
        self.assertEqual((known.name, known.status), ("FUSE_AMX", "ok"))
        self.assertEqual(
            (unknown.name, unknown.consequence),
            ("FUSE_THREADS", "No part of fuse reads this variable."),
        )


class Gpus(unittest.TestCase):
    def test_paths(self):
        for (major, minor), chip, paths in (
            ((9, 0), "sm_90a", ["scheduled", "portable"]),
            ((8, 6), "sm_86", ["scheduled", "portable"]),
            ((12, 0), "sm_120", ["scheduled", "portable"]),
            ((7, 5), "sm_75", []),
        ):
            with self.subTest(chip):
                found = doctor.describe_gpu(0, "name", major, minor, 64)
                self.assertEqual(
                    (found.details["chip"], found.details["paths"]),
                    (chip, paths),
                )
                self.assertEqual(found.status == "ok", len(paths) == 2)

    def test_emulated_driver(self):
        if not native.available():
            self.skipTest("no libfuse.so")
        folder = Path(native.library()._name).resolve().parent
        path = folder / "fuse-emulated/libcuda.so.1"
        if not path.exists():
            self.skipTest("no emulator")
        with mock.patch.dict(os.environ, FUSE_CUDA_LIBRARY=str(path)):
            driver, gpu = examine("CUDA driver")
        self.assertIn("PyTorch does not", driver.consequence)
        self.assertIn("fuse emulator, sm_90a, 132 SMs", gpu.found)


class Sources(Folder):
    def test_chips_are_those_of_the_compiler(self):
        text = (ROOT / "lib/Schedule/Chip.cpp").read_text()
        chips = set(re.findall(r'"sm_(\d+)"', text))
        self.assertEqual(sorted(map(int, chips)), list(CAPABILITIES))
        self.assertIn(f'"{chip_name(9, 0)}"', text)

    def test_variables_are_those_of_the_page(self):
        page = ROOT / "docs/reference/environment-variables.md"
        names = set(re.findall(r"^\| `(FUSE_\w+)`", page.read_text(), re.M))
        self.assertEqual(sorted(names), list(doctor.VARIABLES))

    @needs_library
    def test_the_folder_of_code_is_that_of_the_library(self):
        script = """
from fuse_mlir import native
folder = native.cache_folder()
assert not folder.exists() and not native.cache_problem(), folder
assert folder.is_dir(), folder
"""
        for names in (
            {"FUSE_CACHE_DIR": "a"},
            {"XDG_CACHE_HOME": "b"},
            {"HOME": "c"},
        ):
            with self.subTest(str(names)):
                base = {"FUSE_CACHE_DIR": None, "XDG_CACHE_HOME": "relative"}
                paths = {k: str(self.folder / v) for k, v in names.items()}
                status, _, error = execute(script, **base | paths)
                self.assertEqual(status, 0, error)


if __name__ == "__main__":
    unittest.main()
