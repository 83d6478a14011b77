//===- WeightPacking.h - Convert checkpoints to kernel layouts --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A packed checkpoint holds what kernels store in place of parameters, the
// parameters that no recipe takes or that are kept, the recipes, and the
// header of the checkpoint that it was made of. It needs nothing else to be
// converted back, to the bytes of that checkpoint.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IO_WEIGHTPACKING_H
#define FUSE_IO_WEIGHTPACKING_H

#include "fuse/IO/Safetensors.h"
#include "llvm/Support/raw_ostream.h"

namespace fuse {

/// What `#fuse.recipe` says, for hosts without MLIR.
struct WeightRecipe {
  enum Kind { Concat, Interleave, Fold, Quantize };

  std::string name;
  Kind kind = Concat;
  std::vector<std::string> sources;
  bool keep = false;
  /// Rows of a block of an interleaved weight.
  int64_t block = 0;
  /// What is added to the vector that is folded into a matrix.
  int64_t offset = 0;
  ElementType storage = ElementType::I8;
  double scale = 0.0;
};

/// Writes `checkpoint` with the weights that `recipes` make. `ties` has, for a
/// parameter that a checkpoint may leave out, the name of the one that it is
/// another name of.
llvm::Error packWeights(const SafetensorsFile &checkpoint,
                        llvm::ArrayRef<WeightRecipe> recipes,
                        const llvm::StringMap<std::string> &ties,
                        llvm::raw_ostream &os);

/// Writes the checkpoint that `packed` was made of: parameters that the file
/// contains as they are there, the others from the stored weights.
llvm::Error unpackWeights(const SafetensorsFile &packed, llvm::raw_ostream &os);

} // namespace fuse

#endif // FUSE_IO_WEIGHTPACKING_H
