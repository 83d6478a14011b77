# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which kernels run under compute-sanitizer: small ones of all forms.

These cases cover all forms that the cost model chooses at any widths
(`forms.py`); a test checks that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .cases import Case, blocks, variants
from .problem import BF16, FP8

#: Widths and tokens, by family, type, and omitted roundings.
_EXACT: tuple[str, ...] = ()
_FORMS = {
    ("gated_mlp", BF16, _EXACT): (
        (256, 768, 72),
        (256, 768, 4096),
        (256, 8960, 8),
        (256, 17408, 72),
        (256, 22528, 72),
        (256, 28672, 72),
        (256, 32768, 72),
        (272, 6912, 192),
        (272, 10256, 8),
        (1344, 5632, 128),
        (1344, 8976, 128),
        (1344, 22528, 128),
        (1344, 28672, 128),
        (1344, 32768, 128),
        (1536, 6912, 128),
        (2048, 768, 4096),
        (2048, 11008, 8),
        (3072, 768, 4096),
    ),
    ("gated_mlp", BF16, ("act", "product")): ((1024, 768, 192),),
    ("gated_mlp", BF16, ("gate", "up", "act", "product")): (
        (256, 11008, 96),
        (784, 11008, 72),
    ),
    ("gated_mlp", FP8, _EXACT): (
        (256, 5632, 512),
        (256, 6912, 4096),
        (1344, 28672, 8),
        (1536, 768, 4096),
        (4096, 10256, 8),
    ),
    ("gated_mlp", FP8, ("act", "product")): (
        (256, 5632, 96),
        (256, 6912, 104),
        (256, 8960, 80),
        (256, 8960, 96),
        (256, 8960, 192),
        (256, 10256, 40),
        (256, 18944, 48),
        (256, 22528, 72),
        (256, 28672, 72),
        (256, 32768, 72),
        (1536, 768, 128),
    ),
    ("gated_mlp", FP8, ("gate", "up", "act", "product")): ((256, 8960, 8),),
    ("mlp", BF16, _EXACT): (
        (256, 768, 72),
        (256, 768, 192),
        (256, 17408, 8),
        (256, 17408, 72),
        (256, 22528, 72),
        (272, 20480, 8),
        (784, 768, 4096),
        (1344, 8976, 128),
        (1536, 13824, 128),
        (1536, 17408, 128),
        (2048, 20480, 8),
        (3072, 24576, 8),
    ),
    ("mlp", BF16, ("up", "act")): ((512, 22528, 72),),
    ("mlp", FP8, _EXACT): (
        (256, 768, 192),
        (256, 8192, 4096),
        (256, 36864, 8),
        (256, 36864, 72),
        (2560, 45056, 8),
    ),
    ("mlp", FP8, ("act",)): (
        (256, 8960, 96),
        (256, 13824, 104),
        (256, 17408, 72),
        (256, 17408, 96),
        (256, 20480, 40),
        (784, 2000, 192),
        (1536, 768, 128),
        (2048, 28672, 128),
    ),
}


def memcheck_cases() -> Iterator[Case]:
    for base in blocks():
        for skip, widths in (
            (key[2], widths)
            for key, widths in _FORMS.items()
            if key[:2] == (base.family, base.dtype)
        ):
            for width, hidden, tokens in widths:
                yield Case(
                    replace(
                        base,
                        width=width,
                        hidden=hidden,
                        skip=skip,
                        mode="relaxed" if skip else "exact",
                    ),
                    tokens,
                )
        # Optional parts, together, and the order that divides.
        last = list(variants(base))[5:]
        for variant in (last[0], *(last[2:] if base.fp8 else ())):
            for tokens in (16, 128):
                yield Case(variant, tokens)
