# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The base class of modules that stand in for members of a fused chain."""

from __future__ import annotations

from typing import ClassVar

from torch import nn


class Proxy(nn.Module):
    """Stands where a member of a fused chain was.

    `fuse_mlir.fusion` defines the subclasses and adds to `reserved`.
    """

    #: The id of the site.
    site: str
    #: Attributes that a proxy has and other modules have not. A member with
    #: an attribute of such a name cannot be replaced.
    reserved: ClassVar[frozenset[str]] = frozenset()
