# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Answers as a process of `fuse_bench.suites.check_all` would, without a GPU.

FATES has, by part of a kernel's name and number of tokens, the outcome of a
check: {"256x768 M=8": "wrong"}. What is not named is good.
"""

import json
import os
import sys
import time

fates = json.loads(os.environ.get("FATES", "{}"))
if fates.get("start") == "dies":
    sys.exit(3)
print("{}", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    with open(asked["plan"], encoding="utf-8") as file:
        plan = json.load(file)
    name = os.path.basename(asked["plan"]).removesuffix(".json")
    case, _, tile = name.rpartition("-t")
    with open(os.environ["JOURNAL"], "a", encoding="utf-8") as journal:
        journal.write(json.dumps({"name": name, **asked}) + "\n")
    for m in asked["tokens"]:
        row = {
            "case": case,
            "tile": int(tile),
            "M": m,
            "ok": True,
            "digest": plan["digest"],
            "repeats": asked["repeats"],
        }
        fate = next(
            (
                fate
                for part, fate in fates.items()
                if f"{name} M={m}".endswith(part) or part == f"{case} M={m}"
            ),
            "",
        )
        if fate == "wrong":
            row["ok"] = False
        elif fate == "memory" and asked["memory"] < 50 << 30 or fate == "never":
            row |= {"ok": False, "note": "CUDA out of memory. Tried to"}
        elif fate == "lost":
            row |= {"ok": False, "note": "error 700, an illegal memory"}
        elif fate == "dies":
            sys.exit(9)
        elif fate == "hangs":
            time.sleep(60)
        print(json.dumps(row), flush=True)
    print("null", flush=True)
