# RUN: python3 %s %fuse_src_root
# RUN: not python3 %s %S/Inputs/wrong-figures host_cpu | FileCheck %s
# CHECK-DAG: docs/HostKernels.md: fuse of Qwen3-0.6B f32 1 is 0.551, host-cpu.json says 0.5613
# CHECK-DAG: docs/HostKernels.md: nothing says what frozen of Qwen3-0.6B f32 1 is, 0.684
# CHECK-DAG: docs/HostKernels.md: no row of Qwen3-4B f32 16, which host-cpu.json has
# CHECK-NOT: eager
#
# What is wrong can be written; what is missing can not.
# RUN: rm -rf %t && cp -r %S/Inputs/wrong-figures %t
# RUN: not python3 %s %t --write host_cpu | FileCheck %s --check-prefix=WRITE
# RUN: grep -q '| 0.561 | 41%' %t/docs/HostKernels.md
# WRITE: docs/HostKernels.md: 1 numbers of host-cpu.json
# WRITE-NOT: 0.551
# WRITE: no row of Qwen3-4B f32 16
#
# Times that are compared are of one call.
# RUN: not python3 %s %S/Inputs/wrong-figures variants | FileCheck %s --check-prefix=CALL
# CALL-DAG: no call of decode-variants-h200.json has 27.7 to 26.5 for 2048/16384 fp8 M = 16
# CALL-DAG: no call of decode-variants-h200.json has 36.5 to 35.9 for 2048/16384 fp8 M = 50
# CALL-DAG: docs/DecodeExperiments.md: an empty line cuts the table that begins with change, predicted
# CALL-NOT: {{33.5|50.0}}
"""Figures that the documentation quotes are those of the files it cites.

usage: figures.py ROOT [--write] [check...]

A check is a function of the same name: it reads a file of benchmarks/results
and gives what each cell of a table, or each number of a sentence, has to be. A
number is right when it is the file's, rounded to the digits that it has. With
--write, numbers become those of the files; rows and words do not.
"""

import pathlib
import re
import sys
from statistics import median

sys.path.insert(0, str(pathlib.Path(__file__).parent / "Inputs"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from kernel_figures import (  # noqa: E402
    again, chain_stamps, checks, clocks, concurrent, decode, dirty_reads,
    earlier_sweep, h100, prefill, prefill_limits, prefill_variants, product,
    readme, reads, row_checks, soak, stamps, stored, sweep, tuning, tuning_chains,
    variants, widths)
from quoting import Page, one  # noqa: E402

from benchmarks.emulator import make_table  # noqa: E402


def sum_error(root):
    page = Page(root, "benchmarks/README.md", "sum-error")
    rows = page.result["rows"]
    lengths = [row["length"] for row in rows]
    page.sentence(
        "# sums of # to # products, of four distributions, used # of it at "
        "most; a fixed part of the sum of absolute products, which was the "
        "interval before, was used up to #,",
        sum(row["sums"] for row in rows), min(lengths), max(lengths),
        *(max(row[key] for row in rows)
          for key in ("max_of_interval", "max_of_fixed")))
    return page


def slot_experts(root):
    page = Page(root, "docs/Slots.md", "moe-h200")

    def most(model):
        """Up to how many tokens the kernel is faster."""
        rows = [row for row in page.result["rows"] if row["experts"] == model]
        times = {(row["tokens"], row["system"]): row["microseconds"]
                 for row in rows}
        faster = {tokens: all(times[tokens, "kernel"] < us
                              for (m, other), us in times.items()
                              if m == tokens and "grouped" in other)
                  for tokens, system in times if system == "grouped_mm"}
        return max(tokens for tokens, holds in faster.items() if holds)
    page.sentence("on an H200 above # tokens of Mixtral-8x7B and above # of "
                  "Qwen3-30B-A3B", most("mixtral"), most("qwen3_moe"))
    return page


def slot_kernels(root):
    page = Page(root, "docs/GeneratedKernels.md", "slot-kernels-h200")
    rows = page.result["rows"]
    tokens = [row["tokens"] for row in rows]
    page.sentence("The results of an H200, for # to # tokens", min(tokens),
                  max(tokens))
    if not all(row["right"] and not row["differing_repeats"] for row in rows):
        page.fail(f"not all cases of {page.file} are right")
    return page


def float8(root):
    page = Page(root, "benchmarks/README.md", "float8-h200")
    page.sentence("All mismatches are #.",
                  max(row["mismatches"] for row in page.result["rows"]))
    return page


def distances(root):
    page = Page(root, "docs/numerics.md", "reliability-h200")
    modules = page.result["random_modules"]
    page.sentence("# random modules on an H200", modules["modules"])
    page.sentence("2026-11-21), # results, against", modules["results"])
    bounds = {"equal": 1, "within 1": 2, "within 3": 4, "within 15": 16}
    seen = []
    for row in page.rows("result", "finite values"):
        name = row["result"]
        seen.append(name)
        counts = {int(place[1:]): count
                  for place, count in modules["ulps"][name].items()}
        values = sum(counts.values())
        page.check(f"values of {name}", row["finite values"], values)
        for column, bound in bounds.items():
            near = sum(count for place, count in counts.items()
                       if place <= bound)
            text = row[column]
            if text.startswith("all but "):
                page.check(f"{column} of {name}", text[8:], values - near)
            elif text.endswith("%"):
                page.check(f"{column} of {name}", text, 100 * near / values)
            elif text == "all" and near != values:
                page.fail(f"{column} of {name}: not all, but {near}")
        page.check(f"part of the bound of {name}",
                   row["part of the bound that the worst result reaches"],
                   modules["ratio"][name]["max"])
    page.check_rows(seen, modules["ulps"])
    page.sentence("of a hundred bf16 results 99 reach #.",
                  modules["ratio"]["bf16"]["p99"])
    page.sentence("The # results that were outside",
                  len(modules["failures"]))
    outside = modules["values_outside_contract"]
    page.sentence("Of # values # were outside", modules["values"], outside)
    # The rest stands in words in the file, too.
    page.sentence("# of # results", *page.quoted("contracts",
                  "Of values outside, # are of # results of the portable path"))
    page.sentence("all others, in # modules,", *page.quoted("contracts",
                  "the others are of the scheduled path, in # modules"))
    return page


def later_distances(root):
    page = Page(root, "docs/numerics.md", "reliability-schedules-h200")
    results, values, other = page.quoted(
        "contracts", "scheduled results with f8E4M3FN products #, # values, # "
        "other than the CPU's, none outside")
    page.sentence("none of # values of # results with such products is "
                  "outside, of which # differ", values, results, other)
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


def host_launch(root):
    page = Page(root, "docs/Runtime.md", "host-h200")
    launches = page.result["launches"]
    scheduled = one(launches, file="geglu-v3.fuse", tokens=16)
    page.sentence("a launch costs the host # us (one scheduled kernel) to # us",
                  scheduled["host_us"],
                  max(launch["host_us"] for launch in launches))
    page.sentence("preparing the FP8 block of 100 MB takes # ms",
                  scheduled["prepare_ms"])
    page.sentence("in a graph that block takes # us at 16 tokens",
                  scheduled["graph_us"])
    chained = [one(page.result["exclusive"]["rows"], tokens=tokens)
               for tokens in (1, 16, 50)]
    page.sentence(
        "with 1, 16 and 50 tokens it takes #, # and # us where launches "
        "overlap, and #, # and # on an exclusive device",
        *(row["chain_us"] for row in chained),
        *(row["exclusive_us"] for row in chained))
    return page


def host_compile(root):
    page = Page(root, "docs/Runtime.md", "host-compile")
    few = "sm_90a scheduled, up to 8 tokens"
    targets = {"CPU": "cpu", "sm_90a, portable": "sm_90a portable",
               "sm_90a, scheduled, up to 8 of 8 tokens": few,
               "sm_90a, scheduled, up to 8 of 64":
               "sm_90a scheduled, up to 64 tokens",
               "sm_90a, scheduled, up to 8 of 16,384, the default":
               "sm_90a scheduled",
               "sm_90a, scheduled, up to 8 of 8, assembled by ptxas":
               f"{few}, ptxas"}
    preset = page.result["presets"]["release"]
    for row in page.rows("target", "first in a process"):
        target = targets[row["target"]]
        found = one(preset["steps"], target=target)
        firsts = [first for first, _ in
                  preset["sum_wall_ms_of_each_process"][target]]
        for column, value in (
                ("first in a process", found["sum_wall_ms"][0]),
                ("least", min(firsts)), ("most", max(firsts)),
                ("later", found["sum_wall_ms"][1]),
                ("of that planning or compiling all",
                 found["compile_wall_ms"][1])):
            page.check(f"{column} of {row['target']}", row[column], value)
    again = page.result["again"]["release_sum_wall_ms_of_each_process"]
    page.sentence(
        "the middle of the first times was # ms for the CPU, #, # and # for "
        "up to 8 of 8, of 64 and of 16,384 tokens, and # for the portable "
        "path",
        *(median(first for first, _ in again[targets[name]])
          for name in ("CPU", "sm_90a, scheduled, up to 8 of 8 tokens",
                       "sm_90a, scheduled, up to 8 of 64",
                       "sm_90a, scheduled, up to 8 of 16,384, the default",
                       "sm_90a, portable")))
    change = page.result["kernels_on_threads"]
    before, after = change["before"], change["after"]
    page.sentence(
        "took # ms on the clock the first time and # ms later before its "
        "phases became smaller and were compiled on threads, and # and # then",
        *before["sum_wall_ms"], *after["sum_wall_ms"])
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


def models(root):
    page = Page(root, "docs/PyTorch.md", "e2e-h200")

    def steps(system, compiled):
        return [min(step["microseconds"] for step in page.result["steps"]
                    if (step["sequences"], step["system"], step["compiled"])
                    == (count, system, compiled)) for count in (1, 16)]
    small, plain = steps("fp8", True), steps("unfused", True)
    page.sentence(
        "takes # us with blocks in static FP8 and # us without fusion for one "
        "sequence (# times as fast), # and # us for 16 (# times).",
        *(value for own, us in zip(small, plain)
          for value in (own, us, us / own)))
    page.sentence("With fused blocks in bf16 it takes # and # us.",
                  *steps("bf16", True))
    fast, small, plain = (steps(system, False)
                          for system in ("bf16", "fp8", "unfused"))
    page.sentence("Eager, bf16 takes # and static FP8 # of # us, and # and # "
                  "of # us.", fast[0], small[0], plain[0], fast[1], small[1],
                  plain[1])
    return page


def steps(root):
    page = Page(root, "benchmarks/README.md", "e2e-h200")
    seen = []
    for row in page.rows("B", "the rest", "unfused"):
        compiled = row["the rest"] != "eager"
        key = f"{row['B']} {row['the rest']}"
        seen.append((int(row["B"]), compiled))

        def us(system):
            found = [step["microseconds"] for step in page.result["steps"]
                     if (step["sequences"], step["system"], step["compiled"])
                     == (int(row["B"]), system, compiled)]
            return min(found, default=None)

        page.check(f"unfused of {key}", row["unfused"], us("unfused"))
        for system, name, times in (("bf16", "bf16", "times"),
                                    ("fp8", "static FP8", "times, FP8")):
            plain, own = us("unfused"), us(system)
            page.check(f"{system} of {key}", row[name], own)
            page.check(f"{system} of {key}, times", row[times], plain / own)
    page.check_rows(seen, {(step["sequences"], step["compiled"])
                           for step in page.result["steps"]})
    page.says(f"with kernels of {page.result['commit'][:7]}.")
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
    page.sentence(
        "those of Mixtral-8x7B take # us for one token, grouped products # us, "
        "and # us for four, uncompiled ones # us.",
        us("mixtral", 1, "fused"), us("mixtral", 1, "compiled grouped_mm"),
        us("mixtral", 4, "fused"), us("mixtral", 4, "grouped_mm"))
    page.sentence(
        "for eight tokens the kernel would still be faster (# us, grouped "
        "products under torch.compile # us), for 16 slower (# and # us).",
        *(us("mixtral", tokens, system) for tokens in (8, 16)
          for system in ("kernel", "compiled grouped_mm")))
    page.sentence(
        "Those of OLMoE-1B-7B take # us for eight tokens and of Phi-3.5-MoE "
        "# us, grouped products under torch.compile # and # us.",
        *(us(model, 8, system) for system in ("fused", "compiled grouped_mm")
          for model in ("olmoe", "phimoe")))
    return page


def architectures(root):
    page = Page(root, "docs/Architectures.md", "architectures-h200")
    rows = page.result["rows"]
    page.sentence("small models of # types, and layers",
                  len({row["architecture"] for row in rows}))
    if not all(row["passed"] for row in rows):
        page.fail(f"not all rows of {page.file} passed")
    tokens = max(len(row.get("tokens", [])) for row in rows)
    page.sentence("they generate, # greedy tokens in bf16", tokens)
    return page


def scaling(root):
    page = Page(root, "docs/reliability.md", "module-scaling")
    def growth(run, most):
        times = [time for size, time in zip(run["layers"],
                                            run["phases"]["total"])
                 if size <= most]
        return max(times) / min(times)
    page.sentence("From 100 to 10,000 layers, compiling takes at most # and "
                  "# times as long per layer in two runs, to 30,000 # times",
                  growth(page.result, 10000),
                  growth(page.result["other_runs"][0], 10000),
                  growth(page.result, 30000))
    return page


def promises(root):
    page = Page(root, "docs/reliability.md", "reliability")
    rows = {row["id"]: row for row in page.result["rows"]}

    def total(name, unit):
        return sum(entry["reached"].get(unit, 0) for entry in rows[name]["runs"])
    page.sentence("# modules and # models above, none otherwise",
                  sum(total(name, "seeds")
                      for name in ("C, D", "C views", "C functions")),
                  total("C models", "seeds"))
    page.sentence("# functions have run and been judged there, and of the "
                  "combinations of sizes one in #",
                  sum(total(name, "functions") for name in rows
                      if name[0] in "EF"),
                  round(62400 / total("F", "seeds")))
    return page


def emulator(root):
    page = Page(root, "docs/Emulator.md", "emulator-h100")
    for line in make_table(page.result).split("\n"):
        page.says(line)
    def total(key, path, operands=""):
        return sum(row[key] for row in page.result["rows"]
                   if row["path"] in path
                   and row["operands"].startswith(operands))
    if total("different", ["portable"]):
        page.fail(f"not all portable results of {page.file} are the same")
    if any(row["outside"] for row in page.result["rows"]):
        page.fail(f"a result of {page.file} is outside of its contract")
    page.sentence("nor are # values that", sum(
        int(re.search(r"(\d+) of \1 values", row["says"])[1])
        for row in page.result["contract"]))
    page.sentence("all # values of # results are the same",
                  *(total(key, ["portable"]) for key in ("values", "results")))
    page.sentence("# of # values with operands of 16 bits were others, and # "
                  "of # with operands of 8 bits",
                  *(total(key, ["scheduled", "mixed"], operands)
                    for operands in ("bf16", "f8")
                    for key in ("different", "values")))
    later = page.result["later"]["rows"]
    if any(row["different"] for row in later):
        page.fail(f"not all later sums of {page.file} are the same")
    page.sentence("the bits of all # sums",
                  sum(row["values"] for row in later))
    return page


CHECKS = [prefill, prefill_limits, again, h100, decode, widths, variants,
          stamps, chain_stamps, reads, dirty_reads, prefill_variants, clocks,
          concurrent, sum_error, slot_experts, slot_kernels, float8,
          sweep, earlier_sweep, tuning, tuning_chains, stored, distances,
          later_distances, host_cpu, host_launch, host_compile, accuracy,
          readme, models, steps, checks, row_checks, product, soak, experts,
          architectures, scaling, promises, emulator]


def main(argv):
    root, names = pathlib.Path(argv[0]), argv[1:]
    write = "--write" in names
    names = [name for name in names if name != "--write"]
    problems = []
    for check in CHECKS:
        if names and check.__name__ not in names:
            continue
        page = check(root)
        if write and page.edits:
            page.write(root)
            print(f"{page.name}: {len(page.edits)} numbers of {page.file}")
            page = check(root)
        problems += page.problems
    print("\n".join(problems))
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
