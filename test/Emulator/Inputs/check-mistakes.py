"""Runs kernels with mistakes on the emulator, and compares its reports.

usage: check-mistakes.py MISTAKES.toml GATED.mlir FOLDER

Kernels without a mistake must have the results of their layers. The emulator
must report each mistake. A mistake that it does not report is printed with the
output of its run.
"""

import pathlib
import re
import subprocess
import sys

import damage
import tomllib

RIGHT = r"V2 @gated has the results of its layers on fuse emulator ok"
WRONG = r"V2 @gated .* FAILED: .*"


def compile_kernel(module, tokens, folder):
    """An artifact of the kernel for a number of tokens."""
    source, artifact = folder / f"{tokens}.mlir", folder / f"{tokens}.fuse"
    source.write_text(module.read_text().replace("9x512", f"{tokens}x512"))
    subprocess.run(
        ["fuse-compile", source, "--chip=sm_90a", "--cpu=none"]
        + ["--assemble=never", "-o", artifact],
        check=True,
    )
    return artifact


def check(name, artifact, pattern, status):
    """Whether a run on the emulator ends with this status and line."""
    done = subprocess.run(
        ["fuse-compile", "--verify", "--emulate", artifact],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = re.sub(" +", " ", done.stdout)
    if done.returncode == status and re.search(pattern, output):
        return True
    print(f"{name}: expected status {status} and '{pattern}', got")
    print(f"status {done.returncode} and:\n{output}")
    return False


def main(table, module, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    mistakes = tomllib.loads(pathlib.Path(table).read_text())["mistake"]
    artifacts, good = {}, []
    for tokens in sorted({mistake["tokens"] for mistake in mistakes}):
        artifacts[tokens] = compile_kernel(pathlib.Path(module), tokens, folder)
        good.append(
            check(f"no mistake, {tokens} tokens", artifacts[tokens], RIGHT, 0)
        )
    wrong = folder / "wrong.fuse"
    for mistake in mistakes:
        damage.main(
            artifacts[mistake["tokens"]],
            wrong,
            mistake["pattern"],
            mistake["replacement"],
            mistake.get("number"),
        )
        pattern = WRONG + mistake["report"]
        good.append(check(mistake["name"], wrong, pattern, 1))
    print(f"{len(mistakes)} mistakes, {good.count(False)} wrong reports")
    return not all(good)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
