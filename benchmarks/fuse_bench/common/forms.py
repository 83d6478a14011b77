# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The forms of kernels that schedules make.

compute-sanitizer is too slow for all kernels. A wrong address depends on the
tiling of a kernel, not on its widths. Therefore each form that the cost model
chooses runs under compute-sanitizer at least once, with small widths, in both
types, and with each of its traits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Form = tuple[str, ...]
#: Fields of schedules that make forms, and those that do not.
_FIELDS = {
    "gemm1_tile_m",
    "gemm2_tile_m",
    "launches",
    "swap_ab",
    "deferred_epilogue",
    "smem_epilogue",
    "tagged_partials",
    "partials",
    "reducers",
    "publish_throttle_stages",
    "publish_in_flight",
    "stream_k",
    "straggler_in_flight",
    "uneven_split_k",
    "cluster",
}
_NUMBERS = {
    "tokens",
    "blocks",
    "split_k",
    "weight_stages",
    "token_stages",
    "max_in_flight",
    "l2_prefetch_stages",
    "hint",
    "dependent",
    "stages",
    "group",
}


def read_schedules(text: str) -> list[str]:
    """The schedules that `fuse-select-schedules` wrote, in their order."""
    return re.findall(r"tile\.schedule = (#tile\.\w+<[^>]*>)", text)


def _present(traits: Iterable[tuple[str, bool]]) -> list[str]:
    return [name for name, holds in traits if holds]


def list_forms(
    schedule: str, family: str, fp8: bool, rows: int = 0
) -> set[Form]:
    """Forms that a schedule gives an op in 8 bits or bf16, with each trait.

    `rows` are those of GEMM1; 0 without GEMM1.
    """
    kind, _, body = schedule.removeprefix("#tile.").partition("<")
    fields = dict(re.findall(r"(\w+) = (\w+)", body))
    unknown = sorted(fields.keys() - _FIELDS - _NUMBERS)
    if unknown:
        raise ValueError(
            f"{', '.join(unknown)} of a schedule: expected "
            f"one of {', '.join(sorted(_FIELDS | _NUMBERS))}"
        )

    def number(name: str, otherwise: int = 0) -> int:
        return int(fields.get(name, otherwise))

    what: Form = (family,)
    element = "fp8" if fp8 else "bf16"
    if kind == "prefill_schedule":
        what += (
            "many tokens",
            f"gemm2_tile_m = {number('gemm2_tile_m', 256)}",
            f"launches = {number('launches', 2)}",
        )
        traits = _present(
            (
                ("stream_k", "stream_k" in fields),
                ("cluster", "cluster" in fields),
                ("uneven_split_k", "uneven_split_k" in fields),
                ("ranges", number("split_k") > 1),
            )
        )
    else:
        first = number("gemm1_tile_m", 256)
        if rows:
            what += (
                *_present(
                    (
                        ("swap_ab", "swap_ab" in fields),
                        ("deferred_epilogue", "deferred_epilogue" in fields),
                    )
                ),
                f"gemm1_tile_m = {first}",
            )
        what += (f"gemm2_tile_m = {number('gemm2_tile_m', 256)}",)
        count = -(-rows // first)
        traits = _present(
            (
                ("unstaged", bool(rows) and "smem_epilogue" not in fields),
                ("announced", "tagged_partials" not in fields),
                ("rounded", fields["partials"] == "bf16"),
                ("reducers", "reducers" in fields),
                (
                    "publish_throttle_stages",
                    "publish_throttle_stages" in fields,
                ),
                ("publish_in_flight", "publish_in_flight" in fields),
                ("straggler_in_flight", "straggler_in_flight" in fields),
                ("above 128 tokens", number("tokens") > 128),
                ("idle blocks", 0 < count < number("blocks")),
                ("several tiles", count > number("blocks")),
            )
        )
    return {what, (*what, element), *((*what, trait) for trait in traits)}
