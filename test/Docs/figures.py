# RUN: python3 %s %fuse_src_root
# RUN: not python3 %s %S/Inputs/wrong-figures host_cpu | FileCheck %s
# CHECK-DAG: docs/HostKernels.md: fuse of Qwen3-0.6B f32 1 is 0.551, host-cpu.json says 0.5613
# CHECK-DAG: docs/HostKernels.md: nothing says what frozen of Qwen3-0.6B f32 1 is, 0.684
# CHECK-DAG: docs/HostKernels.md: no row of Qwen3-4B f32 16, which host-cpu.json has
# CHECK-NOT: eager
"""Figures that the documentation quotes are those of the files it cites.

usage: figures.py ROOT [check...]

A check is a function of the same name: it reads a file of benchmarks/results
and gives what each cell of a table, or each number of a sentence, has to be. A
number is right when it is the file's, rounded to the digits that it has.
"""

import json
import pathlib
import re
import sys
from decimal import Decimal

NUMBER = r"[-+]?[0-9][0-9,]*(?:\.[0-9]+)?"


def number(text):
    return float(text.replace(",", ""))


def is_rounded(text, value):
    """Whether `text` is `value` with fewer digits."""
    digits = max(0, -Decimal(text.replace(",", "")).as_tuple().exponent)
    return abs(number(text) - value) <= 0.5000001 * 10.0 ** -digits


class Page:
    """A page, the file that it quotes, and what is wrong."""

    def __init__(self, root, page, result):
        self.name, self.file = page, f"{result}.json"
        self.text = (root / page).read_text()
        self.result = json.loads(
            (root / "benchmarks" / "results" / self.file).read_text())
        self.problems = []

    def fail(self, what):
        self.problems.append(f"{self.name}: {what}")

    def rows(self, *columns):
        """The rows of the table that begins with these columns, as a
        dictionary from the heading; cells without a text continue the row
        above."""
        lines = iter(self.text.splitlines())
        for line in lines:
            heading = self.cells(line)
            if heading[:len(columns)] == list(columns):
                break
        else:
            self.fail(f"no table begins with {', '.join(columns)}")
            return
        next(lines)
        above = {}
        for line in lines:
            if not line.startswith("|"):
                return
            row = dict(zip(heading, self.cells(line)))
            above = {key: row[key] or above.get(key, "") for key in row}
            yield above if not row[heading[0]] else row

    @staticmethod
    def cells(line):
        return [cell.strip() for cell in line.strip()[1:-1].split("|")]

    def check(self, what, text, value):
        found = re.match(NUMBER, text)
        if not found:
            if value is not None and text:
                self.fail(f"{what} is no number: '{text}'")
        elif value is None:
            self.fail(f"nothing says what {what} is, {found[0]}")
        elif not is_rounded(found[0], value):
            self.fail(f"{what} is {found[0]}, {self.file} says {value:.4g}")

    def check_rows(self, seen, wanted):
        for key in sorted(set(map(str, wanted)) - set(map(str, seen))):
            self.fail(f"no row of {key}, which {self.file} has")

    def sentence(self, text, *values):
        """`text` has a # for each number."""
        words = [re.escape(word).replace(r"\#", f"({NUMBER})")
                 for word in text.split()]
        found = re.search(r"\s+".join(words), self.text)
        if not found:
            self.fail(f"nothing says '{text}'")
            return
        for i, (quoted, value) in enumerate(zip(found.groups(), values)):
            self.check(f"number {i + 1} of '{text}'", quoted, value)


def one(rows, **wanted):
    """The row with these values, or none."""
    return next((row for row in rows
                 if all(row.get(key) == wanted[key] for key in wanted)), None)


def mlp_rows(page, shape, dtype, tokens):
    k, h = map(int, shape.split("/"))
    rows = [row for row in page.result["rows"]
            if (row["K"], row["H"], row["M"]) == (k, h, tokens)
            and row["protocol"] == "single"]
    same = [row for row in rows if row["dtype"] == dtype
            and row["scales"] != "dynamic"]
    peers = [row["median_us"] for row in same
             if row["system"].startswith("torch-")]
    eager = [row["median_us"] for row in rows if row["dtype"] == "bf16"
             and row["system"].startswith("torch-eager")]
    return one(same, system="fuse"), peers, eager


def prefill(root):
    page = Page(root, "docs/PrefillKernels.md", "mlp-h200")
    for row in page.rows("K/H", "type", "M", "us"):
        key = f"{row['K/H']} {row['type']} {row['M']}"
        fuse, peers, eager = mlp_rows(page, row["K/H"], row["type"].lower(),
                                      int(row["M"]))
        if not fuse:
            page.fail(f"{page.file} has no row of {key}")
            continue
        us = fuse["median_us"]
        page.check(f"us of {key}", row["us"], us)
        page.check(f"rate of {key}", row["TFLOP/s"], fuse["tflop_per_s"])
        page.check(f"best peer of {key}", row["x best peer"], min(peers) / us)
        page.check(f"of the products' rate of {key}",
                   row["of the products' rate"], fuse["of_library_products"])
        page.check(f"clock of {key}", row["MHz"], fuse["sm_mhz"])
        page.check(f"FP8 x bf16 eager of {key}", row["FP8 x bf16 eager"],
                   min(eager) / us)
    return page


def sweep(root):
    page = Page(root, "docs/Kernels.md", "sweep-h200")
    heading = re.search(r"\| K/H \| type \| (us at ([\d, ]+) tokens [^|]*) \|",
                        page.text)
    if not heading:
        page.fail("no table begins with K/H, type, us at")
        return page
    borders = [int(text) for text in heading[2].split(",")]
    # Where no range ends, the next number of tokens that was measured counts.
    later = [int(text) for text in re.findall(r"\d+", heading[1])][len(borders):]
    for row in page.rows("K/H", "type", heading[1]):
        key = f"{row['K/H']} {row['type']}"
        k, h = map(int, row["K/H"].split("/"))
        dtype = {"FP8": "f8E4M3FN", "bf16": "bf16"}[row["type"]]
        times = {r["M"]: r["median_us"] for r in page.result["rows"]
                 if (r["K"], r["H"], r["dtype"]) == (k, h, dtype)
                 and r["system"] == "fuse"}
        for tokens, text in zip(borders, row[heading[1]].split(", ")):
            around = [tokens, *(m for m in later if 0 < m - tokens < 32)]
            if not any(is_rounded(text, times[m]) for m in around
                       if m in times):
                page.check(f"{key} at {tokens} tokens", text, times.get(tokens))
        page.check(f"128 tokens of {key}", row["128 tokens more, on average"],
                   (times[1024] - times[128]) / 7)
        steps = {m: times[m + 1] - times[m] for m in times if m + 1 in times}
        size, where = row["largest step"].split(", behind ")
        page.check(f"largest step of {key}", size, max(steps.values()))
        page.check(f"place of the largest step of {key}", where,
                   max(steps, key=steps.get))
    return page


def host_cpu(root):
    page = Page(root, "docs/HostKernels.md", "host-cpu")
    rows = page.result["rows"]
    systems = {"fuse": "fuse", "eager": "eager", "torch.compile": "compile",
               "frozen": "compile-frozen"}
    seen = []
    for row in page.rows("model", "type", "M", "fuse"):
        case = {"model": row["model"], "dtype": row["type"],
                "M": int(row["M"])}
        key = " ".join(map(str, case.values()))
        seen.append(key)
        for column, system in systems.items():
            found = one(rows, system=system, **case)
            page.check(f"{column} of {key}", row[column],
                       found and found["ms"])
        ours = one(rows, system="fuse", **case)
        share, _, limit = row["of the machine"].partition("% of ")
        part = {"reading": "of_bandwidth", "multiplying": "of_flops"}
        page.check(f"share of {key}", share,
                   ours and 100 * ours[part[limit]])
    page.check_rows(seen, {f"{row['model']} {row['dtype']} {row['M']}"
                           for row in rows})
    return page


def host_compile(root):
    page = Page(root, "docs/Runtime.md", "host-compile")
    targets = {"CPU": "cpu", "sm_90a, portable": "sm_90a portable",
               "sm_90a, scheduled, up to 8 of 16,384 tokens":
               "sm_90a scheduled",
               "the same with `tokens` = 64":
               "sm_90a scheduled, up to 64 tokens"}
    for row in page.rows("target", "first kernel"):
        found = one(page.result["presets"]["dev"]["steps"],
                    target=targets[row["target"]])
        page.check(f"first kernel of {row['target']}", row["first kernel"],
                   found["sum_ms"][1])
        page.check(f"compilation of {row['target']}",
                   row["of that planning or compiling all"],
                   found["compile_ms"][1])
    return page


def accuracy(root):
    page = Page(root, "docs/Quantization.md", "accuracy")
    columns = {"static": "static", "dynamic per token": "dynamic per token",
               "per tensor": "dynamic per tensor",
               "weights only": "weights only"}
    for row in page.rows("block", "scales", "static"):
        storage, method, *more = row["scales"].split(", ")
        block = one(page.result["blocks"],
                    shape=re.sub("[ /]", "-", row["block"].lower()),
                    storage={"FP8": "f8E4M3FN", "INT8": "i8"}[storage],
                    method=method.split()[0], per_channel=bool(more))
        for column, variant in columns.items():
            found = block and one(block["rows"], variant=variant,
                                  reference="original")
            page.check(f"{column} of {row['block']} {row['scales']}",
                       row[column], found and found["relative_l2"])
    return page


def readme(root):
    page = Page(root, "README.md", "mlp-h200")
    fuse, peers, _ = mlp_rows(page, "2048/16384", "fp8", 16)
    page.sentence(
        "an H200, with static FP8, 2048/16384, GeGLU and 16 tokens, it takes "
        "# us where the best of PyTorch's eager and compiled variants takes "
        "# us and a plain read of the weights # us",
        fuse["median_us"], min(peers), fuse["floor_us"])
    return page


def models(root):
    page = Page(root, "docs/PyTorch.md", "e2e-h200")

    def steps(rows, system, compiled, **more):
        return [one(rows, sequences=count, system=system, compiled=compiled,
                    **more)["microseconds"] for count in (1, 16)]
    now, earlier = page.result["steps"], page.result["earlier"]["steps"]
    plain, fast, small = (steps(now, "unfused", True),
                          steps(now, "bf16", True, residual=True),
                          steps(now, "fp8", True, residual=True))
    page.sentence(
        "takes # us with fused blocks in bf16, # us with blocks in static FP8 "
        "and # us without fusion for one sequence (# and # times as fast), #, "
        "# and # us for 16 (# and # times).",
        fast[0], small[0], plain[0], plain[0] / fast[0], plain[0] / small[0],
        fast[1], small[1], plain[1], plain[1] / fast[1], plain[1] / small[1])
    small, plain = steps(now, "fp8", False), steps(now, "unfused", False)
    page.sentence("Eager, static FP8 takes # of # us and # of # us;",
                  small[0], plain[0], small[1], plain[1])
    fast, plain = steps(earlier, "bf16", False), steps(earlier, "unfused",
                                                       False)
    page.sentence("bf16 took # of # and # of # us at an earlier commit.",
                  fast[0], plain[0], fast[1], plain[1])
    return page


def experts(root):
    page = Page(root, "docs/Architectures.md", "moe-h200")

    def us(model, tokens, system):
        return one(page.result["rows"], experts=model, tokens=tokens,
                   system=system)["microseconds"]
    page.sentence(
        "the experts of Qwen3-30B-A3B take # us for one token and # us for 16, "
        "grouped products under torch.compile # and # us",
        *(us("qwen3_moe", tokens, system)
          for system in ("fused", "compiled grouped_mm")
          for tokens in (1, 16)))
    return page


def scaling(root):
    page = Page(root, "docs/reliability.md", "module-scaling")
    times = dict(zip(page.result["layers"], page.result["phases"]["total"]))
    page.sentence("| compile time per layer, 100 to 10,000 layers | # times, "
                  "to 30,000 #,", times[10000] / times[100],
                  times[30000] / times[100])
    return page


CHECKS = [prefill, sweep, host_cpu, host_compile, accuracy, readme, models,
          experts, scaling]


def main(argv):
    root, names = pathlib.Path(argv[0]), argv[1:]
    problems = [problem for check in CHECKS
                if not names or check.__name__ in names
                for problem in check(root).problems]
    print("\n".join(problems))
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
