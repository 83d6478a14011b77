#!/usr/bin/env python3
#===- inject.py - Show that the tests notice bugs --------------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
"""Switch on one wrong transformation after the other and run tests.

    cmake --preset inject && cmake --build build/inject
    scripts/inject.py --output build/inject/inject.json

Each bug of include/fuse/Support/Inject.h stands here with what it does and the
tests that are to notice it. Without a bug these must pass; with it, one of them
or fuse-fuzz must fail, or else this script fails: a test is missing.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIT = "/usr/lib/llvm-22/bin/lit"

# Name: what is wrong, which lit tests or unit tests have to see it.
BUGS = {
    "match-other-users": ("fuses although an intermediate has other users",
                          "match-modules"),
    "match-hooks": ("fuses modules with hooks", "match-modules"),
    "match-side-input": ("mixes up inputs from outside the chain",
                         "match-modules|unfuse-modules"),
    "glob-star": ("'*' matches any number of names", "match-modules"),
    "glob-range": ("a range of numbers ends one early",
                   "list-modules|fuse-models"),
    "inline-latest": ("a member reads the latest value, not its own",
                      "inline-modules|Integration/CPU/models"),
    "form-relaxed": ("skips roundings unasked", "form-kernels"),
    "form-overlap": ("kernels overlap those of earlier runs", "form-kernels"),
    "unfuse-place": ("leaves members where the kernel stood", "unfuse"),
    "unfuse-order": ("undoes kernels first to last", "unfuse"),
    "unfuse-attributes": ("loses attributes of calls",
                          "unfuse-modules|fuse-models"),
    "decompose-gate-up": ("exchanges gate and up", "form-kernels"),
    "decompose-scale": ("quantizes the hidden layer by the input's scale",
                        "form-kernels"),
    "scales-stale": ("keeps a scale after requantizing", "repair-scales"),
    "scales-smaller": ("requantizes to the smaller scale", "repair-scales"),
    "quantize-inverse": ("multiplies by the scale", "quantize"),
    "quantize-unclamped": ("lets stored values overflow",
                           "quantize|saturation"),
    "linear-bias-place": ("adds every bias before rounding", "linear.mlir"),
    "linear-alpha": ("multiplies sums with one scale after the other",
                     "dynamic-quantize"),
    # Both lowerings share it, and no test has an odd number of features.
    "norm-odd": ("leaves the last of an odd number of features out of a mean",
                 "norm|Integration/CPU"),
    "norm-epsilon": ("leaves epsilon out", "norm"),
    "norm-cast": ("rounds a norm behind its weight only", "norm"),
    "gpu-tail": ("threads past the end store as well", "LinalgToGPU"),
    "gpu-grid": ("the last block of a grid is missing", "LinalgToGPU"),
    "tile-fence": ("no fence before others are told of the hidden layer",
                   "FuseToTile"),
    "tile-order": ("reads tiles of packed weights in another order",
                   "FuseToTile"),
    "deferred-part": ("announces the first of two deferred tiles alone",
                      "FuseToTile"),
    "dispatch-schedule": ("every range of tokens gets the first one's kernels",
                          "FuseToTile|fuse-compile"),
    "plan-bound": ("the first number of tokens of a range gets the kernels of "
                   "the one before", "FuseRuntimeTests:AlternativesTest*"),
    "plan-limit": ("launches with more tokens than there are kernels for",
                   "FuseRuntimeTests:AlternativesTest*"),
    "plan-workspace": ("every launch gets the first workspace",
                       "attach-launch-plan|Target|Pipelines/gpu"),
    "plan-shared": ("asks for no shared memory",
                    "Target|fuse-compile|Pipelines|FuseToTile"),
    "artefact-checksum": ("reads damaged artefacts",
                          "FuseRuntimeTests:Container*"),
    "artefact-trailing": ("reads artefacts with something behind them",
                          "FuseRuntimeTests:Container*"),
    "slots-target": ("keeps a kernel bound for another target", "slots"),
    "safetensors-gap": ("reads files with gaps and overlaps",
                        "fuse-run/safetensors"),
}


def run_test(build, test, bug):
    """Whether tests passed, and names of those that did not, or of the first."""
    env = {key: value for key, value in os.environ.items()
           if key != "FUSE_INJECT_BUG"}
    if bug:
        env["FUSE_INJECT_BUG"] = bug
    if ":" in test:
        program, cases = test.split(":")
        done = subprocess.run(
            [os.path.join(build, "bin", program), f"--gtest_filter={cases}",
             "--gtest_brief=1"], env=env, capture_output=True, text=True,
            check=False)
        failed = re.findall(r"FAILED  \] (\S+)", done.stdout)
        return done.returncode == 0, sorted(set(failed))
    done = subprocess.run(
        [LIT, "-q", "--max-failures=1", f"--filter={test}", os.path.join(build, "test")], env=env,
        capture_output=True, text=True, check=False)
    failed = re.findall(r"^  fuse :: (\S+)", done.stdout, re.MULTILINE)
    return done.returncode == 0, sorted(set(failed))


def run_fuzz(build, count, bug, *options):
    """The check of fuse-fuzz that failed, or nothing."""
    env = dict(os.environ, FUSE_INJECT_BUG=bug)
    done = subprocess.run(
        [os.path.join(build, "bin", "fuse-fuzz"), f"--count={count}", *options],
        env=env, capture_output=True, text=True, check=False)
    match = re.search(r"check '(\S+)' failed", done.stdout)
    if match:
        return match[1]
    return "crash" if done.returncode else None


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/inject"))
    parser.add_argument("--fuzz", type=int, default=500, metavar="N",
                        help="modules that fuse-fuzz makes for each bug")
    parser.add_argument("--run", type=int, default=40, metavar="N",
                        help="modules that fuse-fuzz runs where nothing else "
                        "notices")
    parser.add_argument("--output", metavar="FILE")
    parser.add_argument("bugs", nargs="*", metavar="BUG",
                        help="only these (default: all)")
    args = parser.parse_args(argv)
    unknown = [name for name in args.bugs if name not in BUGS]
    if unknown:
        parser.error(f"unknown bug {unknown[0]}; expected one of "
                     + ", ".join(BUGS))
    names = args.bugs or list(BUGS)
    start = time.monotonic()
    tests = sorted({BUGS[name][1] for name in names})
    lit = "|".join(test for test in tests if ":" not in test)
    for test in [test for test in tests if ":" in test] + [lit] * bool(lit):
        passed, failed = run_test(args.build, test, None)
        if not passed:
            print(f"error: {test} fails without a bug: {', '.join(failed)}",
                  file=sys.stderr)
            return 1
    rows, missed = [], []
    for number, name in enumerate(names):
        what, test = BUGS[name]
        passed, failed = run_test(args.build, test, name)
        fuzz = run_fuzz(args.build, args.fuzz, name)
        if passed and not fuzz:
            fuzz = run_fuzz(args.build, args.run, name, "--run")
        if passed and not fuzz:
            missed.append(name)
        by = [failed[0] if failed else test] if not passed else []
        by += [f"fuse-fuzz ({fuzz})"] if fuzz else []
        print(f"[{number + 1}/{len(names)}] {name}: {what}: "
              f"{' and '.join(by) or 'NOT NOTICED'}", flush=True)
        rows.append({"bug": name, "what": what, "test": by[0] if failed else None,
                     "fuzz": fuzz, "noticed": not passed or bool(fuzz)})
    seconds = round(time.monotonic() - start)
    print(f"{len(names) - len(missed)} of {len(names)} bugs noticed, "
          f"{sum(bool(row['fuzz']) for row in rows)} by random modules, "
          f"in {seconds} s")
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            json.dump({"bugs": rows, "seconds": seconds}, file, indent=2)
            file.write("\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
