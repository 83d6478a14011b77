# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All errors and warnings of the package.

`FuseMlirError` is the base class of all errors, so one `except` catches them.
An error about an argument is also a `ValueError`. An error about the state of a
model or of the machine is also a `RuntimeError`.
"""

from __future__ import annotations

from dataclasses import dataclass


class FuseMlirError(Exception):
    """Base class of the errors of this package."""


@dataclass(frozen=True)
class Refusal:
    """The first predicate that a site failed."""

    id: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.id} {self.name}: {self.text}"


class NativeError(FuseMlirError, RuntimeError):
    """A call into libfuse failed; the text is that of the library.

    Attributes:
        status: name of the library's status, such as `FUSE_ERROR_TENSOR`;
            empty if the library was not called.
    """

    status = ""


class BlockError(FuseMlirError):
    """A model does not support a request; the text names both."""


# Ids of include/fuse/Analysis/Refusals.def.
REFUSALS = {
    "block-scale": "FUSE-N301",
    "input-scale-missing": "FUSE-N302",
    "weight-type": "FUSE-N303",
    "scale-shape": "FUSE-N304",
    "scale-type": "FUSE-N305",
    "inverted-scale-in-checkpoint": "FUSE-N306",
    "unusable-scale": "FUSE-N307",
    "sharded-weight": "FUSE-N308",
    "zero-point-in-checkpoint": "FUSE-N309",
    "scale-conflict": "FUSE-N310",
    "unknown-scale-name": "FUSE-N311",
    "weight-scale-missing": "FUSE-N312",
    "unsupported-format": "FUSE-N313",
    "static-input-of-blocks": "FUSE-N171",
    "power-of-two-scales": "FUSE-N172",
    "group-width": "FUSE-N173",
    "weight-width": "FUSE-N174",
    "activation-order": "FUSE-N175",
    "packed-width": "FUSE-N176",
    "four-bit-activations": "FUSE-N177",
}


class Refused(BlockError):
    """A linear cannot be expressed with its stored weight."""

    def __init__(self, name: str, linear: str, detail: str) -> None:
        self.name = name
        self.id = REFUSALS[name]
        self.detail = detail
        self.text = f"linear '{linear}': {detail}"
        super().__init__(f"linear '{linear}': {self.id} {name}: {detail}")


class CalibrationError(FuseMlirError, RuntimeError):
    """Calibration cannot use a tool, a file or a function."""


class KernelError(FuseMlirError, RuntimeError):
    """A chain has no kernel; the text gives the reason.

    Attributes:
        refusal: the reason with its id; None if the call is wrong and not the
            members.
    """

    def __init__(self, reason: str | Refusal) -> None:
        self.refusal = reason if isinstance(reason, Refusal) else None
        super().__init__(str(reason))


class EndpointError(FuseMlirError, RuntimeError):
    """A kernel of the Hub cannot be loaded; the text gives the reason."""


class UnknownExperts(FuseMlirError, ValueError):
    """`fuse.moe_experts` does not compute the experts of a model."""


class FlowError(FuseMlirError, ValueError):
    """A model cannot be run to record its data flow."""


class GlobError(FuseMlirError, ValueError):
    """A glob breaks a rule, which the text names."""


class ImportFailure(FuseMlirError):
    """A program cannot be imported; the text names the op and its location."""


class ExplainError(FuseMlirError):
    """A program or a pattern cannot be used; the text gives the reason."""


class PatternError(FuseMlirError, ValueError):
    """A pattern cannot be used with this model; the text gives the reason."""


class FuseError(FuseMlirError, RuntimeError):
    """A model cannot be fused, unfused or called; the text gives the reason."""


class FusionWarning(UserWarning):
    """A model runs, but a site is not fused, or not as before."""


class PtxError(FuseMlirError, ValueError):
    """A PTX kernel cannot be launched as described."""


class RangeError(FuseMlirError, ValueError):
    """No scale can be made from these values or options."""


class SlotError(NativeError):
    """A slot cannot be bound or called as requested."""


class Unsupported(FuseMlirError):
    """A case of an op has no translation; the text names it."""
