//===- WeightPacking.h - Convert checkpoints to kernel layouts --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A packed checkpoint contains the weights that kernels store in place of
// parameters, the recipes, and the header of the original checkpoint. It also
// contains parameters that no recipe uses or that are kept. These suffice to
// restore the original byte for byte.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IO_WEIGHTPACKING_H
#define FUSE_IO_WEIGHTPACKING_H

#include "fuse/IO/Safetensors.h"
#include "llvm/Support/raw_ostream.h"

namespace fuse {

/// Contents of `#nn.recipe`, for programs without MLIR.
struct WeightRecipe {
  enum Kind { Concat, Interleave, Fold, Quantize, Transpose };

  std::string name;
  Kind kind = Concat;
  std::vector<std::string> sources;
  bool keep = false;
  /// Rows of a block of an interleaved weight.
  int64_t block = 0;
  /// Offset that is added to the vector before it is folded into a matrix.
  int64_t offset = 0;
  ElementType storage = ElementType::I8;
  double scale = 0.0;
};

/// Writes `checkpoint` with the weights that `recipes` make. A checkpoint may
/// leave out tied parameters: `ties` maps such a parameter to the one that it
/// equals.
llvm::Error packWeights(const SafetensorsFile &checkpoint,
                        llvm::ArrayRef<WeightRecipe> recipes,
                        const llvm::StringMap<std::string> &ties,
                        llvm::raw_ostream &os);

/// Writes the checkpoint from which `packed` was made. Parameters that the file
/// contains are copied, and all others are restored from the stored weights.
llvm::Error unpackWeights(const SafetensorsFile &packed, llvm::raw_ostream &os);

} // namespace fuse

#endif // FUSE_IO_WEIGHTPACKING_H
