# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which modules of a model are fused, and how they are put in and taken out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from torch import nn

from fuse_mlir.errors import FuseError
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.fusion.hub_mlp import EndpointMlp
from fuse_mlir.fusion.proxies import FusedPlace
from fuse_mlir.matching.path_glob import match
from fuse_mlir.matching.plans import child_at, replace_members
from fuse_mlir.matching.sites import Site, join
from fuse_mlir.support.arguments import require, require_module

#: The modules that replace the first member of a chain.
Place = FusedModule | EndpointMlp


def put_all(model: nn.Module, planned: Sequence[tuple[Site, Place]]) -> None:
    """Puts all modules in place, or none."""
    placed: list[tuple[nn.Module, Place]] = []
    try:
        for site, module in planned:
            placed.append((model.get_submodule(site.parent), module))
            module.put_into(placed[-1][0])
    # If one site cannot be replaced, the others are restored.
    except BaseException:
        for parent, module in placed:
            module.take_out_of(parent)
        raise


def fused_sites(model: nn.Module) -> list[tuple[str, FusedModule]]:
    """Fused modules of `model`, with the paths of their parents.

    Several parents may share one fused module.
    """
    return [
        (path, module)
        for path, module in all_sites(model)
        if isinstance(module, FusedModule)
    ]


def all_sites(model: nn.Module) -> list[tuple[str, Place]]:
    """`fused_sites`, and sites with kernels of the Hub."""
    return [
        (_parent_of(path, module), module)
        for path, module in _places(model)
        if isinstance(module, (FusedModule, EndpointMlp))
    ]


def _parent_of(holder: str, module: Place) -> str:
    """The path of the common parent of a site.

    Args:
        holder: path of the module that has the fused module as its child.
        module: the fused module.
    """
    between = module.names[0].rpartition(".")[0]
    if not between or not f".{holder}".endswith(f".{between}"):
        return holder
    return holder[: len(holder) - len(between)].removesuffix(".")


def _places(model: nn.Module) -> Iterator[tuple[str, FusedPlace]]:
    """Proxies of fused sites, with the paths of the modules that have them.

    Raises:
        FuseError: the model itself is a proxy.
    """
    if isinstance(require_module(model), FusedPlace):
        raise FuseError(
            f"the model is {model._get_name()} of site "
            f"'{model.site}'; expected one that has it"
        )
    for path, parent in model.named_modules():
        for child in dict.fromkeys(parent.children()):
            if isinstance(child, FusedPlace):
                yield path, child


def one_kernel(
    model: nn.Module,
    site: str | None,
    fits: Callable[[FusedModule], bool] = lambda _: True,
) -> FusedModule:
    """The fused module of a site, or any module if all share one kernel.

    Args:
        model: with fused sites.
        site: its id; None for any.
        fits: whether a module counts if no site is named.

    Raises:
        FuseError: no such site, or kernels that differ.
    """
    found = {
        join(parent, module.site): module
        for parent, module in fused_sites(model)
    }
    chosen = [
        m
        for name, m in found.items()
        if (fits(m) if site is None else site in (name, m.site)) and m._kernel
    ]
    if not found:
        raise FuseError("nothing is fused; call fuse_modules before")
    codes = {m._kernel.compiled.formed for m in chosen if m._kernel}
    if len(codes) != 1:
        what = (
            f"no fused site '{site}'"
            if site is not None
            else f"sites have {len(codes)} kernels"
        )
        raise FuseError(f"{what}; name one of {', '.join(found)}")
    return chosen[0]


@contextlib.contextmanager
def members_back(model: nn.Module) -> Iterator[None]:
    """Puts the members back for the duration of a `with`.

    Raises:
        FuseError: another module has replaced a proxy.
    """
    sites = []
    for path, module in all_sites(model):
        _check_places(model, path, module, "running it without fusion")
        sites.append((model.get_submodule(path), module))
    places = []
    for parent, module in sites:
        places.append([parent.get_submodule(n) for n in module.names])
        replace_members(parent, module.names, module.members)
    try:
        yield
    finally:
        for (parent, module), held in zip(sites, places):
            replace_members(parent, module.names, held)


def unfuse_modules(
    model: nn.Module, sites: str | Sequence[str] | None = None
) -> list[str]:
    """Puts the members back: the same modules in the same order.

    Args:
        model: may be fused or not.
        sites: ids, or path globs of members or their parents; all when None.

    Returns:
        The parents of the restored sites. If another module has replaced a
        fused module, it stays, and the other members are put back.

    Raises:
        FuseError: an id or glob names no fused site, or another module has
            replaced a proxy.

    Examples:
        >>> result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        >>> fuse_mlir.unfuse_modules(model)
        ['layers.0']
    """
    found = all_sites(model)
    chosen = found
    if sites is not None:
        require(
            sites,
            Iterable,
            "argument 'sites'",
            "an id, a path glob, or a list of them",
        )
        wanted = [sites] if isinstance(sites, str) else list(sites)
        chosen = []
        for name in wanted:
            require(name, str, f"the site {name!r}", "an id or a path glob")
            matching = [s for s in found if _names_site(name, *s)]
            if not matching:
                known = ", ".join(join(p, m.site) for p, m in found) or "none"
                raise FuseError(f"no fused site '{name}'; there are {known}")
            chosen += [s for s in matching if s not in chosen]
    for path, module in chosen:
        _check_places(model, path, module, "unfusing")
    for path, module in chosen:
        module.take_out_of(model.get_submodule(path))
    left = _put_back_left(model) if sites is None else []
    return [path for path, _ in chosen] + left


def _put_back_left(model: nn.Module) -> list[str]:
    """Puts members back whose fused module was replaced by another module.

    Returns:
        The parents of these sites.
    """
    left = list(_places(model))
    for path, place in left:
        parent = model.get_submodule(path)
        for name, child in parent._modules.items():
            if child is place:
                parent._modules[name] = place._member
                place._member.training = place.training
    return list(dict.fromkeys(path for path, _ in left))


def _check_places(
    model: nn.Module, path: str, module: Place, before: str
) -> None:
    """Checks that a site's proxies are still the children at `path`.

    Args:
        model: that was fused.
        path: of the parent of the site.
        module: the fused module of the site.
        before: what the user should do first, for the message.

    Raises:
        FuseError: another module has replaced a proxy.
    """
    parent = model.get_submodule(path)
    if child_at(parent, module.names[0]) is not module:
        raise FuseError(
            f"the kernel of site '{module.site}' is not in the place of "
            f"'{module.names[0]}' any more, but somewhere in '{path}'; put it "
            f"back before {before}"
        )
    for name in module.names:
        place = child_at(parent, name)
        if not isinstance(place, FusedPlace) or place.site != module.site:
            raise FuseError(
                f"'{join(path, name)}' is a {type(place).__name__} and not "
                f"part of site '{module.site}' any more; put it back before "
                + before
            )


def _names_site(name: str, parent: str, module: Place) -> bool:
    if name in (module.site, join(parent, module.site)):
        return True
    if "#" in name or "+" in name:
        return False
    return match(name, parent) or any(
        match(name, join(parent, n)) for n in module.names
    )
