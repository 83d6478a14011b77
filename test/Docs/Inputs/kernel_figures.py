"""Figures of the kernels of norm and MLP, and of their schedules."""

import json
import re

from quoting import NUMBER, Cell, Page, is_rounded, one


def mlp_rows(page, shape, dtype, tokens, protocol="single"):
    """Ours, the times of peers of the same type, and those of bf16 eager."""
    k, h = map(int, shape.split("/"))
    rows = [row for row in page.result["rows"]
            if (row["K"], row["H"], row["M"]) == (k, h, tokens)
            and row["protocol"] == protocol]
    same = [row for row in rows if row["dtype"] == dtype
            and row["scales"] != "dynamic"]
    ours = one(same, system="fuse")
    peers = [row["median_us"] for row in same
             if row["system"].startswith("torch-") and is_beside(row, ours)]
    eager = [row["median_us"] for row in rows if row["dtype"] == "bf16"
             and row["system"].startswith("torch-eager")]
    return ours, peers, eager


def is_beside(row, ours):
    """Whether both were measured in one run on one GPU."""
    return ours and all(row.get(key) == ours.get(key)
                        for key in ("run", "gpu"))


def best_peer(page, ours):
    """The fastest system of the type and scales of a row of ours."""
    return min((row for row in page.result["rows"]
                if row["system"].startswith("torch-")
                and is_beside(row, ours) and all(
                    row[name] == ours[name] for name in (
                        "K", "H", "M", "dtype", "scales", "protocol"))),
               key=lambda row: row["median_us"])


def at_most(ours, peer):
    """How many times as fast as a peer what only reads the weights would be,
    or only multiplies at our clock."""
    return peer["median_us"] / max(ours.get("floor_us") or 0,
                                   ours.get("tensor_us") or 0)


def least_time(page, ours):
    """What multiplies only, behind a norm that copies only, and a launch."""
    ceilings = page.result["gpus"][ours["gpu"]]["ceilings"]
    element = 1 if ours["dtype"] == "fp8" else 2
    norm = ours["M"] * ours["K"] * (2 + element)
    return max(ours["floor_us"], ours["tensor_us"] + ceilings["empty_graph_us"]
               + norm / ceilings["copy_tb_per_s"] / 1e6)


def ratios(page, key, row, ours, peer):
    """The columns that compare with the fastest peer."""
    bound = "at most" if "at most" in row else "read"
    low, _, high = row["95 %"].partition(" to ")
    high = Cell.at(high, row["95 %"].start + len(low) + len(" to "))
    low = Cell.at(low, row["95 %"].start)
    for what, text, value in (
            ("x best peer", row["x best peer"],
             peer["median_us"] / ours["median_us"]),
            ("by rounds", row["by rounds"], peer["over_fuse"]),
            ("95 %", low, peer["over_fuse_95"][0]),
            ("95 %", high, peer["over_fuse_95"][1]),
            (bound, row[bound], at_most(ours, peer))):
        page.check(f"{what} of {key}", text, value)


def single_times(page):
    """By K, H, M, type, scales and system."""
    return {tuple(row[key] for key in ("K", "H", "M", "dtype", "scales",
                                       "system")): row["median_us"]
            for row in page.result["rows"]
            if row["protocol"] == "single" and "median_us" in row}


def few_tokens(page):
    """The table of single launches with few tokens."""
    for row in page.rows("K/H", "type", "M", "us", "best peer"):
        key = f"{row['K/H']} {row['type']} {row['M']}"
        ours, _, _ = mlp_rows(page, row["K/H"], row["type"].lower(),
                              int(row["M"]))
        peer = best_peer(page, ours)
        page.check(f"us of {key}", row["us"], ours["median_us"])
        page.check(f"x floor of {key}", row["x floor"],
                   ours["median_us"] / ours["floor_us"])
        page.word(f"best peer of {key}", row["best peer"],
                  peer["system"].removeprefix("torch-"))
        ratios(page, key, row, ours, peer)


def many_tokens(page):
    """The table of single launches with many tokens."""
    for row in page.rows("K/H", "type", "M", "us", "TFLOP/s"):
        key = f"{row['K/H']} {row['type']} {row['M']}"
        fuse, _, eager = mlp_rows(page, row["K/H"], row["type"].lower(),
                                  int(row["M"]))
        if not fuse:
            page.fail(f"{page.file} has no row of {key}")
            continue
        us = fuse["median_us"]
        page.check(f"us of {key}", row["us"], us)
        page.check(f"rate of {key}", row["TFLOP/s"], fuse["tflop_per_s"])
        ratios(page, key, row, fuse, best_peer(page, fuse))
        page.check(f"of the products' rate of {key}",
                   row["of the products' rate"], fuse["of_library_products"])
        page.check(f"clock of {key}", row["MHz"], fuse["sm_mhz"])
        page.check(f"FP8 x bf16 eager of {key}", row["FP8 x bf16 eager"],
                   min(eager) / us)


def chain_rate(page, shape, dtype, tokens, system="fuse"):
    """TB/s of weights that a chain of layers reads."""
    k, h = map(int, shape.split("/"))
    ours = one(page.result["rows"], K=k, H=h, M=tokens, dtype=dtype,
               protocol="chain", system=system)
    return ours["weight_bytes"] / ours["median_us"] / 1e6


def over_read(page, shapes, dtypes, tokens):
    """Least and most time of single launches over that of a plain read."""
    found = [ours["median_us"] / ours["floor_us"] for ours in (
        mlp_rows(page, shape, dtype, m)[0]
        for shape in shapes for dtype in dtypes for m in tokens)]
    return min(found), max(found)


def over_peer(page, shapes, dtypes, tokens):
    """How many times as fast as the fastest peer, least and most."""
    found = [min(peers) / ours["median_us"] for ours, peers, _ in (
        mlp_rows(page, shape, dtype, m)
        for shape in shapes for dtype in dtypes for m in tokens)]
    return min(found), max(found)


LARGE = "2048/16384", "4096/12288"
FEW = 1, 8, 16, 32, 50, 64, 96, 128


def prefill(root):
    page = Page(root, "docs/PrefillKernels.md", "mlp-h200")

    many_tokens(page)
    seen = []
    for row in page.rows("K/H", "type", "M", "us, sustained"):
        key = f"{row['K/H']} {row['type']} {row['M']}"
        seen.append(key)
        fuse, _, _ = mlp_rows(page, row["K/H"], row["type"].lower(),
                              int(row["M"]), "sustained")
        peer = best_peer(page, fuse)
        ratios(page, f"sustained {key}", row, fuse, peer)
        for column, value in (
                ("us, sustained", fuse["median_us"]),
                ("TFLOP/s", fuse["tflop_per_s"]),
                ("MHz", fuse["sm_mhz"]), ("W", fuse["power_w"]),
                ("MHz, best peer", peer["sm_mhz"]),
                ("W, best peer", peer["power_w"])):
            page.check(f"{column} of sustained {key}", row[column], value)
    page.check_rows(seen, {
        f"{row['K']}/{row['H']} {row['dtype'].replace('fp', 'FP')} {row['M']}"
        for row in page.result["rows"] if row["protocol"] == "sustained"})

    def less(shape, most, least=256):
        """Per cent of the time of the library's products that are saved."""
        return sorted(100 - 100 / row["of_library_products"]
                      for row in page.result["rows"]
                      if row["system"] == "fuse" and
                      row["protocol"] == "single" and
                      f"{row['K']}/{row['H']}" == shape and
                      least <= row["M"] <= most)

    times = single_times(page)
    tuned = [us / times[*key[:-1], "torch-compile"]
             for key, us in times.items()
             if key[-1] == "torch-compile-autotune" and key[2] > 128 and
             key[4] != "dynamic"]
    page.sentence("with 512 and 4096 tokens, where it takes # to # times as "
                  "long as the default", min(tuned), max(tuned))
    few, many = less(LARGE[0], 512), less(LARGE[0], 8192, 1024)
    wide = less(LARGE[1], 8192)
    page.sentence(
        "# to # % less with 512 tokens and fewer of 2048/16384, # to # % less "
        "with more; of 4096/12288 # % more to # % less.", few[0], few[-1],
        many[0], many[-1], -wide[0], wide[-1])
    return page


def prefill_limits(root):
    page = Page(root, "docs/PrefillExperiments.md", "mlp-h200")
    large = [(ours, best_peer(page, ours)) for ours in (
        mlp_rows(page, shape, "fp8", 4096)[0] for shape in LARGE)]
    page.sentence(
        "at the clock of the rows, would be # and # times as fast as the best "
        "peer", *(at_most(*pair) for pair in large))
    rows = [mlp_rows(page, *row)[0] for row in (
        (LARGE[0], "fp8", 4096), (LARGE[1], "fp8", 4096),
        (LARGE[0], "bf16", 4096), (LARGE[1], "bf16", 512))]
    few = mlp_rows(page, LARGE[0], "fp8", 256)[0]
    page.sentence(
        "the most is # and # times the best peer in FP8 with 4096 tokens "
        "(2048/16384, 4096/12288), where 1.42 and 1.25 were wanted, # in bf16 "
        "of 2048/16384 (1.17), and # with 512 tokens of 4096/12288 in bf16 "
        "(1.14). 256 tokens of 2048/16384 in FP8 take # us at least, where "
        "they take #", *(
            best_peer(page, row)["median_us"] / least_time(page, row)
            for row in rows), least_time(page, few), few["median_us"])
    # Of a peer's time a part stays the same at another clock, ours does not.
    faster = [(wanted * ours["median_us"] / peer["median_us"] - 1 + part)
              / part for (ours, peer), wanted, part in zip(
                  large, (1.42, 1.25), (1 / 5, 1 / 8))]
    page.sentence(
        "which was wanted, would take a clock of # and # GHz, where the chip "
        "has 1.98 at most, and # and # times the power",
        *(more * ours["sm_mhz"] / 1e3 for more, (ours, _) in zip(
            faster, large)), *(more ** 2.1 for more in faster))
    clocks = [row["sm_mhz"] / 1e3 for row in page.result["rows"]
              if row["system"] == "fuse" and row["M"] >= 1024 and
              row["protocol"] == "single"]
    page.sentence("The clock is # to # GHz in rows of 1024 tokens and more",
                  min(clocks), max(clocks))
    return page


def decode(root):
    page = Page(root, "docs/Kernels.md", "mlp-h200")

    both = "fp8", "bf16"
    few_tokens(page)
    ones = [mlp_rows(page, shape, "bf16", 1)[0] for shape in LARGE]
    page.sentence("so that a read is # and # times as fast",
                  *(at_most(ours, best_peer(page, ours)) for ours in ones))
    page.sentence(
        "at both large shapes a single launch takes # to # times a plain read "
        "of the weights with up to 16 tokens, # to # with 50 and # to # with "
        "128; with 1, 16, 50 and 128 it is # to # times as fast as the fastest "
        "peer in FP8, # to # in bf16.",
        *over_read(page, LARGE, both, (1, 8, 16)),
        *over_read(page, LARGE, both, (50,)),
        *over_read(page, LARGE, both, (128,)),
        *over_peer(page, LARGE, ("fp8",), (1, 16, 50, 128)),
        *over_peer(page, LARGE, ("bf16",), (1, 16, 50, 128)))
    page.sentence(
        "2064/8208 takes # to # times the read in bf16 and # to # in FP8, "
        "8192/28672 # to #.", *over_read(page, ("2064/8208",), ("bf16",), FEW),
        *over_read(page, ("2064/8208",), ("fp8",), FEW),
        *over_read(page, ("8192/28672",), both, FEW))
    page.sentence(
        "In a chain, FP8 2048/16384 reads # TB/s of weights at M = 16 and # at "
        "M = 50, 4096/12288 # and #; bf16 # and # at M = 50.",
        *(chain_rate(page, shape, "fp8", m)
          for shape in LARGE for m in (16, 50)),
        *(chain_rate(page, shape, "bf16", 50) for shape in LARGE))
    page.sentence(
        "rows `fuse-exclusive`, FP8 2048/16384 reads # at M = 16 and # at "
        "M = 50, bf16 # and #; 4096/12288 reads # and #, bf16 # and #.", *(
            chain_rate(page, shape, dtype, m, "fuse-exclusive")
            for shape in LARGE for dtype in both for m in (16, 50)))
    return page


def h100(root):
    page = Page(root, "docs/H100.md", "mlp-h100")
    rows, found = page.result["rows"], page.result["checks"]
    other = json.loads((root / "benchmarks/results/mlp-h200.json").read_text())
    page.sentence("copies run at # TB/s, beside # on the H200s", *(
        max(gpu["ceilings"]["copy_tb_per_s"]
            for gpu in result["gpus"].values())
        for result in (page.result, other)))
    page.sentence("# of # checks against the bounds of the contract pass, of # "
                  "kernels, # launches each with equal bits",
                  sum(check["ok"] and not check["differing_repeats"]
                      for check in found), len(found),
                  len({(check["case"], check["tile"]) for check in found}),
                  min(check["repeats"] for check in found))

    def key(row):
        return tuple(row[name] for name in ("K", "H", "M", "act", "dtype",
                                            "protocol", "system"))
    made = {key(row): row["digest"] for row in other["rows"]
            if "digest" in row}
    if any(made.get(key(row)) != row["digest"] for row in rows
           if "digest" in row):
        page.fail("the kernels of an H200 are others")
    few_tokens(page)
    many_tokens(page)
    both = "fp8", "bf16"
    page.sentence(
        "a single launch takes # to # times a plain read of the weights with "
        "up to 16 tokens, # to # with 50 and # to # with 128; it is # to # "
        "times as fast as the fastest peer in FP8, # to # in bf16.",
        *over_read(page, LARGE, both, (1, 8, 16)),
        *over_read(page, LARGE, both, (50,)),
        *over_read(page, LARGE, both, (128,)),
        *over_peer(page, LARGE, ("fp8",), (1, 16, 50, 128)),
        *over_peer(page, LARGE, ("bf16",), (1, 16, 50, 128)))
    page.sentence(
        "FP8 2048/16384 reads # TB/s of weights at M = 16 and # at M = 50, "
        "bf16 # and #; 4096/12288 reads # and #, bf16 # and #.", *(
            chain_rate(page, shape, dtype, m, "fuse-exclusive")
            for shape in LARGE for dtype in both for m in (16, 50)))

    def pairs(tokens):
        """Rows of ours on both."""
        for ours in rows:
            if (ours["system"], ours["protocol"]) == ("fuse", "single") and \
                    ours["M"] in tokens and \
                    f"{ours['K']}/{ours['H']}" in LARGE:
                yield ours, one(other["rows"], **{name: ours[name] for name in (
                    "K", "H", "M", "dtype", "system", "protocol")})
    slower = sorted(ours["median_us"] / its["median_us"] for ours, its in
                    pairs((512, 1024, 2048, 4096, 8192)))
    later = sorted(ours["floor_us"] - its["floor_us"]
                   for ours, its in pairs((256,)))
    page.sentence("takes # to # times as long as on an H200", slower[0],
                  slower[-1])
    page.sentence("the weights take # to # us longer to read", later[0],
                  later[-1])
    return page


def again(root):
    """What another GPU took for some rows."""
    page = Page(root, "docs/Kernels.md", "mlp-again-h200")
    numbers = []
    for dtype in ("fp8", "bf16"):
        ours, _, _ = mlp_rows(page, "2048/16384", dtype, 16)
        peer = best_peer(page, ours)
        numbers += [ours["median_us"], peer["over_fuse"],
                    *peer["over_fuse_95"], ours["median_us"] / ours["floor_us"]]
    page.sentence(
        "FP8 takes # us there, # times as fast as the fastest peer by rounds "
        "(# to # with a probability of 95 %) and # times the read; bf16 takes "
        "# us, # times as fast (# to #) and # times the read.", *numbers)
    ours, _, _ = mlp_rows(page, "2048/16384", "fp8", 128)
    chain = one(page.result["rows"], M=50, dtype="bf16", protocol="chain",
                system="fuse-exclusive")
    page.sentence(
        "FP8 2048/16384 with 128 tokens took # us, # times as fast by rounds, "
        "and bf16 read # TB/s in an exclusive chain with 50.",
        ours["median_us"], best_peer(page, ours)["over_fuse"],
        chain["weight_bytes"] / chain["median_us"] / 1e6)
    return page


def widths(root):
    """Single launches beside the read of their weights, at all widths."""
    page = Page(root, "docs/Kernels.md", "mlp-h200")
    over = {}
    for row in page.result["rows"]:
        if (row["system"], row["protocol"]) == ("fuse", "single") and \
                row["M"] <= 128:
            key = (f"{row['K']}/{row['H']}", row["dtype"].replace("fp", "FP"),
                   row["weight_bytes"] / 1e6)
            over.setdefault(key, {})[row["M"]] = \
                row["median_us"] / row["floor_us"]
    seen = []
    for row in page.rows("K/H", "type", "MB"):
        key = f"{row['K/H']} {row['type']}"
        seen.append(key)
        size, found = next(((size, found) for (*names, size), found in
                            over.items() if " ".join(names) == key),
                           (None, {}))
        page.check(f"MB of {key}", row["MB"], size)
        for column in list(row)[3:]:
            page.check(f"{column} of {key}", row[column],
                       found.get(int(column.removeprefix("M = "))))
    page.check_rows(seen, {" ".join(names) for *names, _ in over})

    def most(least, limit):
        return max(ratio for (*_, size), found in over.items()
                   if least <= size < limit for ratio in found.values())
    page.sentence(
        "weights of more than 60 MB take # times the read at most, with all "
        "numbers of tokens that were timed, those of 20 to 60 MB # times, "
        "smaller ones # times.", most(60, 1e9), most(20, 60), most(0, 20))
    return page


def variants(root):
    """Times "A to B" in the table of what was tried: of one call."""
    page = Page(root, "docs/DecodeExperiments.md", "decode-variants-h200")
    calls = {}
    for row in page.result["rows"]:
        _, shape, dtype = row["case"].split("-")[:3]
        key = row["call"], shape.replace("x", "/"), dtype, row["M"]
        calls.setdefault(key, set()).update(
            value for value in (row.get("single_us"), row.get("chain_us"),
                                *row.get("chains_us", {}).values()) if value)

    def has(values, text):
        return any(is_rounded(text, value) for value in values)

    recorded = False
    for row in page.rows("change", "predicted"):
        recorded |= "`polled`" in row["change"]
        if not recorded:
            continue
        shape = dtype = tokens = None
        for found in re.finditer(
                r"\b(f8|FP8|bf16)\b|\b(\d+/\d+)|M = (\d+)"
                r"|(\d+\.\d) to (\d+\.\d)",
                f"{row['change']} | {row['measured (H200, single launch, us)']}"):
            if found[1]:
                dtype = "bf16" if found[1] == "bf16" else "fp8"
            elif found[2]:
                shape = found[2]
            elif found[3]:
                tokens = int(found[3])
            elif not any(has(values, found[4]) and has(values, found[5])
                         for key, values in calls.items()
                         if key[1:] == (shape, dtype, tokens)):
                page.fail(f"no call of {page.file} has {found[0]} for {shape} "
                          f"{dtype} M = {tokens}")
    return page


def stamps(root):
    page = Page(root, "docs/DecodeExperiments.md", "decode-variants-h200")
    rows = {tuple(row[:3]): row for row in page.result["time_stamps"]["rows"]}

    def parts(tokens):
        row = rows[2048, 16384, tokens]
        return [row[i] for i in (4, 5, 6, 9, 10, 13)]

    page.sentence(
        "M = 128: tokens normalized everywhere #, tile multiplied #, its hidden "
        "units on their way #, those of a range there #, last product #, sums "
        "exchanged #;", *parts(128))
    page.sentence("M = 16: #, #, #, #, #, #. So the meeting", *parts(16))
    return page


def find_reads(page):
    """What kernels that only read take in call 48: the floor, and the fastest
    one whose blocks take stages as they come for them."""
    rows = {row[1]: row[2:] for row in page.result["reading"]["rows"]
            if row[0] == 48}
    return rows["floor"], min(row for name, row in rows.items()
                              if name.startswith("dyn"))


def reads(root):
    page = Page(root, "docs/Kernels.md", "decode-variants-h200")
    floor, fastest = find_reads(page)
    page.sentence("of 201 MB the fastest read that was found, by stages that "
                  "blocks take as they come for them, takes # us beside #",
                  fastest[0], floor[0])
    return page


def dirty_reads(root):
    page = Page(root, "docs/DecodeExperiments.md", "decode-variants-h200")
    page.sentence("Stages that blocks take as they come for them are read in "
                  "# us, and in # without such lines.",
                  *find_reads(page)[1][:2])
    return page


def chain_stamps(root):
    page = Page(root, "docs/DecodeExperiments.md", "decode-variants-h200")
    stamps = page.result["chain_stamps"]

    def at(tokens, what, variant="main"):
        row = next(row for row in stamps["rows"] if row[:5] == [
            2048, 16384, tokens, variant, "fast"])
        return row[stamps["columns"].index(what)]

    page.sentence(
        "M = 16: weights begin at #, the first stage has landed at #, #, # "
        "(two stages of all blocks are # MB), the last one at #, #, #, and "
        "the last block ends at #.", at(16, "weights begin")[0],
        *at(16, "first stage landed"), 128 * 2 * 32768 / 1e6,
        *at(16, "landed"), at(16, "end")[2])
    page.sentence(
        "M = 50: the last stage has landed at #, its products are done at #, "
        "the sums at # (# when marked)", at(50, "landed")[1],
        at(50, "last product")[1], at(50, "end")[1], at(50, "end", "tag")[1])
    return page


def all_numbers(value):
    """All numbers in a value of JSON."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {each for part in value for each in all_numbers(part)}
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {float(value)} if number else set()


def prefill_variants(root):
    """Numbers "A to B" in the table of what was tried: of one run, or of two
    where that is said. Bytes are in GB there."""
    page = Page(root, "docs/PrefillExperiments.md", "prefill-variants-h200")
    runs = [all_numbers(run["rows"]) for run in page.result["runs"]]
    runs = [values | {value / 1e3 for value in values} for values in runs]

    def has(values, text):
        return any(is_rounded(text, value) for value in values)

    for row in page.rows("change", "predicted"):
        measured = row["measured (H200, single launch, us)"]
        for found in re.finditer(
                rf"({NUMBER}) to ({NUMBER})(?! times)", measured):
            both = found[1], found[2]
            two = "(two calls)" in measured[found.end():]
            if not any(all(has(values, text) for text in both)
                       for values in ([set().union(*runs)] if two else runs)):
                page.fail(f"no run of {page.file} has {found[0]}")
    zeros = next(run["rows"] for run in page.result["runs"]
                 if "weights of zeros" in run["what"])
    cases = [f"gated_mlp-{widths}" for widths in (
        "2048x16384-fp8", "2048x16384-bf16", "4096x12288-fp8",
        "4096x12288-bf16")]
    page.sentence(
        "the same kernels take #, #, # and # us for 4096 tokens (FP8 and bf16 "
        "of 2048/16384, of 4096/12288), where they take #, #, # and # with "
        "random ones.", *(next(
            row["median_us"] for row in zeros if row["how"] == how and
            row["case"].startswith(case))
            for how in ("weights of zeros", "one after the other")
            for case in cases))
    return page


def clocks(root):
    """What sets the clock of launches with many tokens."""
    page = Page(root, "docs/PrefillExperiments.md", "prefill-variants-h200")
    rows = next(run["rows"] for run in page.result["runs"]
                if "with a rest before each launch" in run["what"])
    zeros, rests = "weights of zeros in ours and in peers", \
        "3 ms of rest before each launch"

    def row(how, case, tokens=4096, system="fuse"):
        return one(rows, how=how, case=case, M=tokens, system=system)
    case = "2048x16384-fp8"
    page.sentence(
        "2048/16384 in FP8 run at # MHz, the products of the library at # and "
        "the fastest peer, which does less at a time, at #. With weights of "
        "zeros ours run at # MHz, while the products of the library, with "
        "random ones in the same rounds, keep #.", *(
            row(how, case, system=system)["sm_mhz"] for how, system in (
                (rests, "fuse"), (rests, "cublas-products"),
                (rests, "torch-compile"), (zeros, "fuse"),
                (zeros, "cublas-products"))))
    page.sentence(
        "with them we are # times as fast as the fastest, without # "
        "(4096/12288 # and #, bf16 # and #, and # and #).", *(
            row(how, case, system="torch-compile")["over_fuse"]
            for case in ("2048x16384-fp8", "4096x12288-fp8",
                         "2048x16384-bf16", "4096x12288-bf16")
            for how in (rests, "in turn")))
    page.sentence(
        "With 256 tokens in FP8 zeros take # us at # MHz, random weights # at "
        "#:", *(row(how, case, 256)[key] for how in (zeros, "in turn")
                for key in ("median_us", "sm_mhz")))
    return page


def concurrent(root):
    page = Page(root, "docs/PrefillKernels.md", "prefill-variants-h200")
    page.sentence("# rounds of four streams", sum(
        run["rounds"] for run in page.result["concurrent"]))
    return page


def sweep_times(page, shape, dtype):
    k, h = map(int, shape.split("/"))
    dtype = {"FP8": "f8E4M3FN"}.get(dtype, dtype)
    return {row["M"]: row["median_us"] for row in page.result["rows"]
            if (row["K"], row["H"], row["dtype"]) == (k, h, dtype)
            and row["system"] == "fuse"}


def sweep(root):
    page = Page(root, "docs/Kernels.md", "sweep-h200")
    page.says(f"with kernels of {page.result['commit'][:7]}")
    heading = re.search(r"\| K/H \| type \| (us at ([\d, ]+) tokens [^|]*) \|",
                        page.text)
    if not heading:
        page.fail("no table begins with K/H, type, us at")
        return page
    borders = [int(text) for text in heading[2].split(",")]
    # Where no range ends, the next number of tokens that was measured counts.
    later = [int(text) for text in re.findall(r"\d+", heading[1])][len(borders):]
    beyond = {512: [], 640: [], 768: [], 896: []}
    for row in page.rows("K/H", "type", heading[1]):
        key = f"{row['K/H']} {row['type']}"
        times = sweep_times(page, row["K/H"], row["type"])
        for tokens, text in zip(borders, row[heading[1]].split(", ")):
            around = [tokens, *(m for m in later if 0 < m - tokens < 32)]
            page.check(f"{key} at {tokens} tokens", text, next(
                (times[m] for m in around if m in times), None))
        average = (times[1024] - times[128]) / 7
        page.check(f"128 tokens of {key}", row["128 tokens more, on average"],
                   average)
        numbers = sorted(m for m in times if m >= 128)
        steps = {m: times[after] - times[m]
                 for m, after in zip(numbers, numbers[1:])}
        for m, found in beyond.items():
            found.append((100 * steps[m] / average - 100,
                          steps[m] / times[m] * m / 128))
        size, where = row["largest step"].split(", behind ")
        page.check(f"largest step of {key}", size, max(steps.values()))
        page.check(f"place of the largest step of {key}", where,
                   max(steps, key=steps.get))
    more, times = map(sorted, zip(*beyond[512]))
    page.sentence("Behind 512 tokens a step is # to # % more than an average "
                  "tile", more[0], more[-1])
    page.sentence("but # to # times what each of the four tiles has taken "
                  "until there", times[0], times[-1])
    more, times = map(sorted, zip(*beyond[640], *beyond[768], *beyond[896]))
    page.sentence("Behind 640 to 896 tokens, a step is at most # % more than an "
                  "average tile, and # times what each has taken until there.",
                  more[-1], times[-1])
    return page


def earlier_sweep(root):
    page = Page(root, "docs/Kernels.md", "sweep-schedules-h200")
    found = [sweep_times(page, "4096/12288", dtype)
             for dtype in ("FP8", "bf16")]
    page.sentence("steps of 4096/12288 behind 512 were # and # us:",
                  *(times[513] - times[512] for times in found))
    return page


def schedule_fields(text):
    """The fields of a schedule by name."""
    return dict(re.findall(r"(\w+) = (\w+)", text))


def schedule_change(schedule, other):
    """What is another value in the second schedule."""
    before, after = map(schedule_fields, (schedule, other))
    changed = [f"`{name} = {after[name]}`" if name in after else
               f"no `{name}`" for name in {**before, **after}
               if before.get(name) != after.get(name)]
    return ", ".join(changed) or "nothing"


def fastest_row(page, key, row, candidates):
    """The columns that compare the first candidate, the model's choice, with
    the fastest one."""
    choice, *_ = candidates
    fastest = min((c for c in candidates if c["status"] == "ok"),
                  key=lambda c: c["median_us"])
    page.check(f"model's choice of {key}", row["model's choice, us"],
               choice["median_us"])
    page.check(f"fastest of {key}", row["fastest, us"], fastest["median_us"])
    page.word(f"what the fastest of {key} changes",
              row["what the fastest changes"],
              schedule_change(choice["schedule"], fastest["schedule"]))


def tuning(root):
    page = Page(root, "docs/Tuning.md", "tuning-h200")
    page.says(f"of {page.result['commit'][:7]}")
    ops = {}
    for op in page.result["ops"]:
        k, h, _ = op["widths"]
        dtype = "bf16" if op["element"] == "bf16" else "FP8"
        ops[f"{k}/{h} {dtype} {op['measured_tokens']}"] = [
            c for c in op["candidates"] if c["status"] == "ok"]
    page.sentence("# to # candidates for each of # problems",
                  *(pick(map(len, ops.values())) for pick in (min, max)),
                  len(ops))
    candidates = [c for op in page.result["ops"] for c in op["candidates"]]
    page.sentence("# of # computed the same", sum(map(len, ops.values())),
                  len(candidates))
    seen = []
    for row in page.rows("K/H", "type", "M", "model's choice, us"):
        key = f"{row['K/H']} {row['type']} {row['M']}"
        seen.append(key)
        if key not in ops:
            page.fail(f"{page.file} has no {key}")
            continue
        fastest_row(page, key, row, ops[key])
    page.check_rows(seen, ops)
    fastest = {key: min(c["median_us"] for c in found)
               for key, found in ops.items()}
    behind = sorted(found[0]["median_us"] / fastest[key]
                    for key, found in ops.items())
    page.sentence(
        "The model's choice is the fastest candidate, or within # %, in # of "
        "# problems, and # % behind it at most.", 2,
        sum(ratio <= 1.02 for ratio in behind), len(behind),
        100 * behind[-1] - 100)
    apart = [100 * (c["median_us"] / fastest[key] - 1)
             for key, found in ops.items() for c in found
             if schedule_fields(c["schedule"]).get("launches") == "2"
             and schedule_fields(found[0]["schedule"]).get("launches") != "2"]
    page.sentence("`launches = 2` was never the fastest, and # to # % slower "
                  "than the fastest.",
                  min(apart), max(apart))
    return page


def tuning_chains(root):
    """Choices and fastest schedules by protocol."""
    page = Page(root, "docs/Tuning.md", "tuning-chains-h200")
    page.says(f"of {page.result['commit'][:7]}")
    runs = {}
    for run in page.result["runs"]:
        k, h, _ = run["widths"]
        dtype = "bf16" if run["element"] == "bf16" else "FP8"
        runs[f"{k}/{h} {dtype} {run['measured_tokens']} "
             f"`{run['protocol']['name']}`"] = run["candidates"]
        if "commit" in run:
            page.says(f"of {run['commit']}")
    candidates = [c for run in runs.values() for c in run]
    page.sentence("# of # computed the same; other processes",
                  sum(c["status"] == "ok" for c in candidates),
                  len(candidates))
    seen = []
    for row in page.rows("K/H", "type", "M", "protocol"):
        key = " ".join(row[name] for name in ("K/H", "type", "M", "protocol"))
        seen.append(key)
        page.check(f"candidates of {key}", row["candidates"], len(runs[key]))
        fastest_row(page, key, row, runs[key])
    page.check_rows(seen, runs)

    def without(protocol):
        """Per cent of time that adders spare."""
        return [100 * each["median_us"] / run[0]["median_us"] - 100
                for key, run in runs.items() if key.endswith(f"`{protocol}`")
                for each in run if schedule_change(
                    run[0]["schedule"], each["schedule"]) == "no `adders`"]
    chain, exclusive = map(without, ("chain", "exclusive-chain"))
    page.sentence(
        "without them launches take # % more to # % less where they overlap, "
        "and # to # % more where blocks begin one by one",
        max(chain), -min(chain), min(exclusive), max(exclusive))
    return page


def stored(root):
    """The table of schedules beside what the compiler chooses by itself."""
    page = Page(root, "docs/Tuning.md", "mlp-h200")
    table = json.loads((root / "benchmarks" / "results" /
                        "schedules-h200.json").read_text())["rows"]
    more, large = {}, []
    for row in table:
        k, h, _ = row["widths"]
        dtype = "bf16" if row["element"] == "bf16" else "fp8"
        # A tile of 56 was measured with 50 tokens.
        tokens = 50 if row["tokens"] == 56 else row["tokens"]
        ours, _, _ = mlp_rows(page, f"{k}/{h}", dtype, tokens)
        ratio = ours["median_us"] / row["median_us"]
        more[k, h, dtype, tokens] = 100 * ratio - 100
        if ours["weight_bytes"] > 60e6:
            large.append(100 * ratio - 100)
    page.sentence("takes # % less to # % more than the table's times",
                  -min(more.values()), max(more.values()))
    page.sentence("and # % less to # % more for weights of more than 60 MB",
                  -min(large), max(large))
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


def checks(root):
    page = Page(root, "benchmarks/README.md", "mlp-h200")
    times = single_times(page)
    tuned = {}
    for key, us in times.items():
        if key[-1] == "torch-compile-autotune":
            tuned.setdefault(key[4], []).append(
                us / times[*key[:-1], "torch-compile"])
    page.sentence(
        "In # single rows it takes # to # times as long as the default in "
        "bf16, # to # in static FP8 and # to # in dynamic FP8;",
        sum(map(len, tuned.values())),
        *(pick(tuned[scales]) for scales in ("none", "static", "dynamic")
          for pick in (min, max)))
    chosen = {dtype: [row["chosen"] for row in page.result["tuned"]["products"]
                      if row["dtype"] == dtype] for dtype in ("fp8", "bf16")}
    page.sentence(
        "of # products in FP8 it chose the library's kernel for #, of # in "
        "bf16 for # (`tuned`).", *(
            count for names in chosen.values() for count in (
                len(names), sum("triton" not in name for name in names))))
    apart = {True: [], False: []}
    for ours in page.result["rows"]:
        if ours["system"] == "fuse" and ours["M"] in (
                1, 16, 50, 128, 256, 512, 2048, 4096, 8192) and \
                f"{ours['K']}/{ours['H']}" in LARGE:
            peer = best_peer(page, ours)
            low, high = peer["over_fuse_95"]
            sustained = ours["protocol"] == "sustained"
            if sustained or ours["M"] not in (2048, 8192):
                apart[sustained].append(100 * max(
                    high / peer["over_fuse"] - 1,
                    1 - low / peer["over_fuse"]))
    page.sentence(
        "reaches # % from the median at most in rows with 1, 16, 50, 128, "
        "256, 512 and 4096 tokens of the first two shapes, # % in half of "
        "them, and # % in rows `sustained`", max(apart[False]),
        sorted(apart[False])[len(apart[False]) // 2], max(apart[True]))
    rounds = {}
    for row in page.result["rows"]:
        if row["protocol"] == "sustained":
            rounds.setdefault(row["M"] == 4096, set()).add(row["rounds"])
    page.sentence("which have # rounds with 4096 tokens and # with 2048 and "
                  "8192.", *(min(rounds[each]) for each in (True, False)))
    ceilings = [gpu["ceilings"] for gpu in page.result["gpus"].values()]
    page.sentence("The GPUs' ceilings differ by # % at most.", max(
        100 * max(values) / min(values) - 100 for values in (
            [found[name] for found in ceilings] for name in (
                "copy_tb_per_s", "bf16_tflop_per_s", "fp8_tflop_per_s"))))
    found = page.result["checks"]
    page.says(f"that the compiler of {page.result['commit'][:7]} makes")
    page.sentence("# of # checks pass, of # kernels",
                  sum(check["ok"] for check in found), len(found),
                  len({(check["case"], check["tile"]) for check in found}))
    tokens, widths_seen = {}, set()
    for check in found:
        family, shape, dtype, act, norm, *parts = check["case"].split("-")
        widths_seen.add(shape)
        few = check["M"] <= 128
        if few and not parts:
            tokens.setdefault((family, dtype, act, norm), set()).add(
                check["M"])
        if not few:
            tokens.setdefault((family, dtype), set()).add(check["M"])
    plain = [m for key, m in tokens.items() if len(key) == 4]
    numbers = sorted(set.union(*plain) & {1, 7, 8, 16, 33, 50, 64, 100, 128})
    page.sentence(
        "# of 96 combinations of family, type, activation and norm with #, #, "
        "#, #, #, #, #, # and # tokens, every family and type with # to # "
        "tokens, at # widths", sum(m.issuperset(numbers) for m in plain),
        *numbers, *(pick(pick(m) for key, m in tokens.items()
                         if len(key) == 2) for pick in (min, max)),
        len(widths_seen))
    if sum(len(key) == 2 for key in tokens) != 4:
        page.fail(f"checks of {page.file} leave a family or type out")
    checked = {check["digest"] for check in found}
    timed = {row["digest"] for row in page.result["rows"] if "digest" in row}
    page.sentence(
        "of # kernels that are timed, # have the `rel_err` of their rows "
        "alone", len(timed), len(timed - checked))
    memory = page.result["compute_sanitizer"]
    page.sentence("compute-sanitizer memcheck reports # errors in # checks of "
                  "# small kernels", *(memory[key] for key in (
                      "errors", "checks", "kernels")))
    return page


def row_checks(root):
    page = Page(root, "benchmarks/README.md", "rows-h200")
    rows = page.result["rows"]
    page.sentence("other fused ops: # checks of # kernels pass",
                  sum(row["ok"] for row in rows),
                  len({row["case"] for row in rows}))
    large = [row["copy_us"] / row["median_us"] for row in rows
             if row.get("median_us") and row["mbytes"] >= 8
             and "quantize" in row["case"]]
    page.sentence("run at # to # of the rate of a copy", min(large),
                  max(large))
    return page


def product(root):
    page = Page(root, "benchmarks/README.md", "product-h200")
    done = [kernel for kernel in page.result["kernels"] if kernel["ok"]]
    page.sentence("a row for each of # kernels, of which # checks pass",
                  len(done), sum(len(kernel["tokens"]) for kernel in done))
    few = [kernel["case"].split("-") for kernel in done
           if kernel["tile"] == 128 and len(kernel["tokens"]) == 9]
    widths = {case[1] for case in few}
    page.sentence("| # | both families, bf16 and static FP8, six activations",
                  len(few))
    if len(few) != len(widths) * len({(case[0], *case[2:]) for case in few}):
        page.fail(f"the kernels of {page.file} are no product")
    page.sentence("| # | the same, in tiles of",
                  sum(kernel["tile"] < 128 for kernel in done))
    page.sentence("| # | gated SiLU with RMSNorm and dense GELU",
                  sum(kernel["tile"] > 128 for kernel in done))
    return page


def soak(root):
    page = Page(root, "benchmarks/README.md", "soak-h200")
    rows = [row for row in page.result["rows"] if row["ok"]]
    page.sentence("has # launches in # rows, of # kernels",
                  sum(row["launches"] for row in rows), len(rows),
                  len({row["digest"] for row in rows}))
    return page
