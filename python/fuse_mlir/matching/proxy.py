# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The base class of modules that replace members of a fused chain."""

from __future__ import annotations

from typing import ClassVar

from torch import nn


class Proxy(nn.Module):
    """Replaces a member of a fused chain.

    `fuse_mlir.fusion` defines the subclasses and adds to `reserved`.
    """

    #: The id of the site.
    site: str
    #: Attributes of proxies that other modules lack. A member with an
    #: attribute of such a name cannot be replaced.
    reserved: ClassVar[frozenset[str]] = frozenset()
