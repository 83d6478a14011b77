//===- Packing.h - Weights in the order kernels read them -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CORE_PACKING_H
#define FUSE_RUNTIME_CORE_PACKING_H

#include "fuse/Runtime/Core/Manifest.h"

namespace fuse::runtime {

/// Throws `Failure` unless the recipe can pack the operands of `function` into
/// exactly as many bytes as the plan states.
void checkPacking(const PackedWeight &packed, const Function &function);

/// The matrices of a packed weight: type and shape.
std::vector<TensorSpec> getMatrices(const PackedWeight &packed,
                                    const Function &function);

/// The only box of `view` if its elements are contiguous.
const ViewBox *getContiguous(const std::vector<ViewBox> &view,
                             const TensorSpec &matrix);

/// Packs matrices [out, in] into `output`, which has room for `packed.bytes`.
/// Views are gathered first.
///
/// A tile is 256 rows. A step is 128 bytes of each row. The result is
/// `[step][tile][256 rows][128 bytes]` with zeros past the edges of the matrix.
/// The 16-byte chunk c of row r lies at chunk c xor (r mod 8), which matches
/// the 128-byte swizzle of shared memory. Row p of a tile is, from the high
/// bit, the warpgroup (1), its instruction m (1), its warp (2), the half of the
/// warp's rows (1) and a row lr (3):
/// - `gate_up_256`: two matrices, gate in half 0 and up in half 1, with 128
///   rows of each; neighboring rows differ in m;
/// - `rows_256`: one matrix; four neighboring rows differ in m and half;
/// - `identity`: one matrix or vector, unchanged.
///
/// `panels` is the layout for CPUs, of one or several matrices of one shape. A
/// tile is `columns` outputs, equally many of each matrix. A step is one input
/// or a pair of 16-bit inputs. The result is `[tile][step][columns][1 or 2]`,
/// with zeros for outputs past the end.
void packWeights(const PackedWeight &packed, const Function &function,
                 const std::vector<const char *> &operands, char *output);

/// The tiles of the output that one matrix fills, or the two of a pair.
struct PackedTiles {
  /// Index of the first matrix.
  size_t operand;
  bool isPair;
  uint64_t rows;
  uint64_t rowBytes;
  uint64_t firstTile;
  uint64_t numTiles;
};

/// All tiles of the recipes `gate_up_256` and `rows_256`; none for others.
std::vector<PackedTiles> getPackedTiles(const PackedWeight &packed,
                                        const Function &function);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_PACKING_H
