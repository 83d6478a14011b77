# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All errors and warnings of the package.

`FuseMlirError` is the base class of every error, so one `except` catches what
the package raises. An error is also a `ValueError` where an argument is wrong
and a `RuntimeError` where the state of a model or of the machine is.
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
    """A call into libfuse that failed; the text is the library's sentence.

    Attributes:
        status: name of the library's status, such as `FUSE_ERROR_TENSOR`;
            empty where the call did not come to it.
    """

    status = ""


class BlockError(FuseMlirError):
    """A request that the model cannot meet; the text names both."""


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
}


class Refused(BlockError):
    """A linear that cannot be expressed with its stored weight."""

    def __init__(self, name: str, linear: str, detail: str) -> None:
        self.name = name
        self.id = REFUSALS[name]
        self.detail = detail
        self.text = f"linear '{linear}': {detail}"
        super().__init__(f"linear '{linear}': {self.id} {name}: {detail}")


class CalibrationError(FuseMlirError, RuntimeError):
    """A tool, file or function that calibration cannot use."""


class KernelError(FuseMlirError, RuntimeError):
    """A chain for which there is no kernel; the text says why.

    Attributes:
        refusal: the same with its id; None where the call is what is wrong,
            and not the members.
    """

    def __init__(self, reason: str | Refusal) -> None:
        self.refusal = reason if isinstance(reason, Refusal) else None
        super().__init__(str(reason))


class EndpointError(FuseMlirError, RuntimeError):
    """A kernel of the Hub that cannot be loaded; the text says why."""


class UnknownExperts(FuseMlirError, ValueError):
    """Experts that `fuse.moe_experts` does not compute; the text says why."""


class FlowError(FuseMlirError, ValueError):
    """A model that cannot be run to see its flow; the text says why."""


class GlobError(FuseMlirError, ValueError):
    """A glob that breaks a rule; the text names it."""


class ImportFailure(FuseMlirError):
    """A program that cannot be expressed; the text names the op and place."""


class ExplainError(FuseMlirError):
    """The program or a pattern cannot be used; the text says why."""


class PatternError(FuseMlirError, ValueError):
    """A pattern that cannot be used with this model; the text says why."""


class FuseError(FuseMlirError, RuntimeError):
    """A model that cannot be fused, unfused or called; the text says why."""


class FusionWarning(UserWarning):
    """Something is not fused, or not as before, and the model runs."""


class PtxError(FuseMlirError, ValueError):
    """A PTX kernel that cannot be launched as it is described."""


class RangeError(FuseMlirError, ValueError):
    """Values or options from which no scale can be made."""


class SlotError(NativeError):
    """A slot that cannot be bound or called as asked."""


class Unsupported(FuseMlirError):
    """A case of an op that has no translation; the text says which."""
