//===- Patterns.td - Rewriting patterns of another project ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

include "fuse/IR/FuseOps.td"
include "mlir/IR/PatternBase.td"

def IsRelu : Constraint<
    CPred<"$0.getValue() == ::fuse::Activation::ReLU">, "is a ReLU">;

/// A second ReLU changes nothing: the first one has rounded its result.
def : Pat<(Fuse_ActivationOp $kind,
              (Fuse_ActivationOp:$first $same, $x)),
          (replaceWithValue $first),
          [(IsRelu $kind), (IsRelu $same)]>;
