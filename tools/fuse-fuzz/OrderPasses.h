//===- OrderPasses.h - Passes for random orders -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_ORDERPASSES_H
#define FUSE_TOOLS_FUSE_FUZZ_ORDERPASSES_H

#include "ModuleGenerator.h"

#include <vector>

namespace fuse {

/// Kinds of IR for which passes are made.
enum class OrderStage { Tensors, Buffers, Loops, LLVM, GPU };

/// Effect of a pass on a program.
enum class OrderEffect {
  /// Results keep their bits.
  Exact,
  /// Sums have another order, or layers another rounding.
  Rounds,
  /// The function has another signature or is for another device, so it cannot
  /// run as before.
  NotRun
};

/// A pass or pipeline that an order may contain.
struct OrderPass {
  /// Name and options, as in a textual pipeline.
  llvm::StringLiteral text;
  OrderStage stage;
  OrderEffect effect = OrderEffect::Exact;
  /// The kind of IR after the pass.
  OrderStage next = stage;
  /// The pass is left out for programs with this text, if not empty.
  llvm::StringLiteral unless = "";
};

/// The first pass with this text, or null. A text has one effect, whatever IR
/// the pass is drawn for.
const OrderPass *findOrderPass(llvm::StringRef text);

/// Draws 2 to 6 passes for a program of a stage. Most of them are for the stage
/// that the IR has by then, and the others for any stage.
std::vector<const OrderPass *> drawOrder(Random &random, OrderStage stage,
                                         llvm::StringRef program);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_ORDERPASSES_H
