//===- FuseDialect.td - The fuse dialect -------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEDIALECT_TD
#define FUSE_IR_FUSEDIALECT_TD

include "mlir/IR/DialectBase.td"

def Fuse_Dialect : Dialect {
  let name = "fuse";
  let summary = "Layers of neural networks and their fused kernels";
  let description = [{
    Three strata of ops.

    *Modules* say what a network is: a tree of modules with class names and
    parameters, whose forwards call each other, so that data flows between
    modules as SSA values. Fusing changes calls and never the tree.

    *Layer ops* say what a module of a network computes: norms, linear maps,
    activations, residual adds, quantization. Every layer op rounds once, to
    the element type of its result, after computing in f32; a chain of layer
    ops therefore states every rounding point of the network.

    Beside them stand *function ops*, what models call as functions: rotary
    embedding, cross entropy, the experts of a mixture. Each states its own
    roundings; the only fused op that may hold one is `fuse.group`.

    *Fused ops* are one kernel each. A fused op means what its decomposition
    into layer ops means, and keeps what is needed to restore that chain
    exactly: types of intermediates, operand order, member order, locations
    and discardable attributes.

    Tensors may have any number of leading dimensions, static or dynamic; the
    last one is the feature dimension and is static.

    A scale always maps stored values to real ones:
    `real value = scale * stored value`. Scales are rounded to f32 before use.
  }];
  let cppNamespace = "::fuse";
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();

    /// Whether a tied parameter was ever verified. Most networks have none, and
    /// what ties say is seen in a walk over all of a model.
    std::atomic<bool> hasTies = false;
  }];
}

#endif // FUSE_IR_FUSEDIALECT_TD
