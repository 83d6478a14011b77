# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The package as pip installs it: `FUSE_TEST_PACKAGE=1` lets this run.

It needs an index of packages for the build backend. The libraries are those of
the tests, so that nothing is compiled twice. `scripts/wheel.sh` builds them
from sources instead.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
from pathlib import Path

from fuse_mlir import native
from tests.models import needs_library
from tests.support import ROOT
from tests.test_docs import blocks

CHECK = ROOT / "python/tests/package_check.py"
TUTORIAL = "tutorials/faster-tokens"


@unittest.skipUnless(
    os.environ.get("FUSE_TEST_PACKAGE"), "slow; FUSE_TEST_PACKAGE=1 runs it"
)
@needs_library
class Package(unittest.TestCase):
    def run_in(self, directory, *command, **environment):
        done = subprocess.run(
            [str(c) for c in command],
            cwd=directory,
            text=True,
            capture_output=True,
            check=False,
            env={
                k: v
                for k, v in os.environ.items()
                if k not in ("PYTHONPATH", native.LIBRARY_VARIABLE)
            }
            | environment,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_sdist_and_wheel_in_a_clean_environment(self):
        libraries = Path(native.library()._name).resolve().parent
        with tempfile.TemporaryDirectory() as directory:
            here = Path(directory)
            # The files of a fresh clone.
            names = self.run_in(ROOT, "git", "ls-files", "-z").split("\0")
            for name in filter(None, names):
                if (ROOT / name).is_file():
                    target = here / "clone" / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(ROOT / name, target)
            venv.create(here / "venv", with_pip=True)
            python = here / "venv/bin/python"
            self.run_in(here, python, "-m", "pip", "install", "build")
            self.run_in(
                here,
                python,
                "-m",
                "build",
                "--sdist",
                "-o",
                here / "dist",
                here / "clone",
            )
            sdist = next((here / "dist").glob("fuse_mlir-*.tar.gz"))
            # Dependencies are those of the environment of the tests.
            self.run_in(
                here,
                python,
                "-m",
                "pip",
                "install",
                "--no-deps",
                sdist,
                FUSE_PREBUILT=str(libraries),
            )
            packages = subprocess.run(
                [python, "-c", "import site; print(site.getsitepackages()[0])"],
                text=True,
                capture_output=True,
                check=True,
            ).stdout.strip()
            ours = [p for p in sys.path if p.endswith("-packages")]
            Path(packages, "tests.pth").write_text("\n".join(ours))
            out = self.run_in(here, python, CHECK)
            self.assertIn("1 fused", out)
            doctor = self.run_in(here, python, "-m", "fuse_mlir", "doctor")
            self.assertIn("[ok] fuse_call", doctor)
            script = here / "tutorial.py"
            script.write_text("\n".join(blocks(TUTORIAL, "python")))
            out = self.run_in(here, python, script)
            self.assertRegex(out, r"unfused: \d+ tokens/s")
            self.assertRegex(out, r"\nfused: \d+ tokens/s")


if __name__ == "__main__":
    unittest.main()
