#!/usr/bin/env python3
# ===- mutants.py - Show that the tests notice wrong code ------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Mutation testing: run the tests on wrong versions of fuse.

    scripts/mutants.py --output build/mutants.json     # all, about half an hour
    scripts/mutants.py norm-epsilon plan-limit         # some
    scripts/mutants.py --check                         # only that edits apply

test/mutants.toml has the mutants. The script copies the sources, makes the
edits of the chosen mutants in the copy, each with a switch, and builds it once.
With all switches off the tests must pass. With a switch on, one of the mutant's
tests or fuse-fuzz must fail. If none does, a test is missing and the script
fails.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIT = "/usr/lib/llvm-22/bin/lit"
HEADER = "include/fuse/Support/Mutant.h"
SWITCH = """#pragma once
#include <cstdlib>
#include <string_view>
namespace fuse {
/// Whether the environment variable FUSE_MUTANT is `name`.
inline bool isMutant(std::string_view name) {
  static const char *const chosen = std::getenv("FUSE_MUTANT");
  return chosen && name == chosen;
}
} // namespace fuse
"""


class EditError(Exception):
    """An edit that does not apply to the sources."""


def load_mutants():
    with open(ROOT / "test/mutants.toml", "rb") as file:
        return tomllib.load(file)["mutant"]


def mutate_sources(mutants):
    """The texts of all edited files, by name, with all edits applied."""
    texts = {}
    for mutant in mutants:
        switch = f'fuse::isMutant("{mutant["name"]}")'
        for edit in mutant["edit"]:
            name = edit["file"]
            if name not in texts:
                if not (ROOT / name).exists():
                    raise EditError(
                        f"mutant '{mutant['name']}' edits {name}, "
                        "which does not exist"
                    )
                texts[name] = (ROOT / name).read_text(encoding="utf-8")
            words = map(re.escape, edit["old"].split())
            found = list(re.finditer(r"\s*".join(words), texts[name]))
            if len(found) != 1:
                raise EditError(
                    f"the text that mutant '{mutant['name']}' replaces occurs "
                    f"{len(found)} times in {name} and must occur once: "
                    + " ".join(edit["old"].split())
                )
            start, end = found[0].span()
            line = texts[name].rfind("\n", 0, start) + 1
            rest = texts[name][line:]
            indent = rest[: len(rest) - len(rest.lstrip())]
            new = edit["new"].strip().replace("MUTANT", switch)
            new = new.replace("\n", "\n" + indent)
            texts[name] = texts[name][:start] + new + texts[name][end:]
    include = f'#include "{HEADER.removeprefix("include/")}"\n#include'
    return {
        name: text.replace("#include", include, 1)
        for name, text in texts.items()
    }


def write_tree(tree, texts):
    """Copies all sources to `tree`, with `texts` in place of their files.

    Unchanged files keep their time, so that a second run only builds changes.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {name for name in listed.split("\0") if (ROOT / name).is_file()}
    for name in names | {HEADER}:
        if name == HEADER:
            data = SWITCH.encode()
        elif name in texts:
            data = texts[name].encode()
        else:
            data = (ROOT / name).read_bytes()
        path = tree / name
        if path.exists() and path.read_bytes() == data:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        if (
            path.is_file()
            and not name.startswith("build/")
            and (name not in names | {HEADER})
        ):
            path.unlink()
    venv = tree / ".venv"
    if not venv.is_symlink():
        venv.symlink_to(ROOT / ".venv")


def build_tree(tree, targets):
    target = ["--target", *targets] if targets else []
    for command in (
        ["cmake", "--preset", "dev"],
        ["cmake", "--build", "build/dev", *target],
    ):
        subprocess.run(command, cwd=tree, check=True)
    return (tree / "build/dev").resolve()


def run_test(build, test, mutant):
    """Return whether a test passed, and the names of some failed tests."""
    env = {
        key: value for key, value in os.environ.items() if key != "FUSE_MUTANT"
    }
    if mutant:
        env["FUSE_MUTANT"] = mutant
    if ":" in test:
        program, cases = test.split(":")
        command = [
            build / "bin" / program,
            f"--gtest_filter={cases}",
            "--gtest_brief=1",
        ]
        pattern = r"FAILED  \] (\S+)"
    else:
        command = [
            LIT,
            "-q",
            "--max-failures=1",
            f"--filter={test}",
            build / "test",
        ]
        pattern = r"^  fuse :: (\S+)"
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False
    )
    failed = re.findall(pattern, done.stdout, re.MULTILINE)
    return done.returncode == 0, sorted(set(failed))


def run_fuzz(build, count, mutant, *options):
    """The name of the failed check of fuse-fuzz, or None."""
    done = subprocess.run(
        [build / "bin/fuse-fuzz", f"--count={count}", *options],
        cwd=build.parent.parent,
        env=dict(os.environ, FUSE_MUTANT=mutant),
        capture_output=True,
        text=True,
        check=False,
    )
    match = re.search(r"check '(\S+)' failed", done.stdout)
    if match:
        return match[1]
    return "crash" if done.returncode else None


def find_failing(build, mutants):
    """The first test that fails without a mutant, or None."""
    tests = sorted({mutant["tests"] for mutant in mutants})
    lit = "|".join(test for test in tests if ":" not in test)
    for test in [test for test in tests if ":" in test] + [lit] * bool(lit):
        passed, failed = run_test(build, test, None)
        if not passed:
            return f"{test} fails without a mutant: {', '.join(failed)}"
    return None


def run_mutant(build, mutant, args):
    """Runs one mutant. Returns its row of the report."""
    name = mutant["name"]
    passed, failed = run_test(build, mutant["tests"], name)
    fuzz = run_fuzz(build, args.fuzz, name, *mutant.get("random", []))
    if passed and not fuzz:
        fuzz = run_fuzz(build, args.run, name, "--run")
    test = None if passed else failed[0] if failed else mutant["tests"]
    return {
        "mutant": name,
        "what": mutant["what"],
        "test": test,
        "fuzz": fuzz,
        "noticed": not passed or bool(fuzz),
    }


def parse_options(argv, names):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--check", action="store_true", help="only check that all edits apply"
    )
    parser.add_argument(
        "--tree",
        type=pathlib.Path,
        default=ROOT / "build/mutants",
        metavar="DIR",
        help="where the changed sources are written and built",
    )
    parser.add_argument(
        "--fuzz",
        type=int,
        default=500,
        metavar="N",
        help="modules that fuse-fuzz makes for each mutant",
    )
    parser.add_argument(
        "--run",
        type=int,
        default=40,
        metavar="N",
        help="modules that fuse-fuzz runs where nothing else notices",
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="NAME",
        help="build only this target, such as fuse-opt (default: all)",
    )
    parser.add_argument("--output", metavar="FILE", help="a report as JSON")
    parser.add_argument(
        "mutants", nargs="*", metavar="MUTANT", help="only these (default: all)"
    )
    args = parser.parse_args(argv)
    unknown = [name for name in args.mutants if name not in names]
    if unknown:
        parser.error(
            f"unknown mutant '{unknown[0]}'; expected one of "
            + ", ".join(names)
        )
    return args


def main(argv):
    everyone = load_mutants()
    args = parse_options(argv, [mutant["name"] for mutant in everyone])
    mutants = [
        mutant
        for mutant in everyone
        if not args.mutants or mutant["name"] in args.mutants
    ]
    try:
        texts = mutate_sources(everyone if args.check else mutants)
    except EditError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if args.check:
        print(f"{len(everyone)} mutants apply")
        return 0
    start = time.monotonic()
    write_tree(args.tree, texts)
    build = build_tree(args.tree, args.target)
    if failing := find_failing(build, mutants):
        print(f"error: {failing}", file=sys.stderr)
        return 1
    rows = []
    for mutant in mutants:
        row = run_mutant(build, mutant, args)
        rows.append(row)
        by = [row["test"], row["fuzz"] and f"fuse-fuzz ({row['fuzz']})"]
        print(
            f"[{len(rows)}/{len(mutants)}] {row['mutant']}: {row['what']}: "
            f"{' and '.join(filter(None, by)) or 'NOT NOTICED'}",
            flush=True,
        )
    seconds = round(time.monotonic() - start)
    noticed = sum(row["noticed"] for row in rows)
    print(
        f"{noticed} of {len(rows)} mutants noticed, "
        f"{sum(bool(row['fuzz']) for row in rows)} by random modules, "
        f"in {seconds} s"
    )
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            json.dump({"mutants": rows, "seconds": seconds}, file, indent=2)
            file.write("\n")
    return 0 if noticed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
