//===- Packing.cpp - Weights in the order kernels read them ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Packing.h"
#include "fuse/Runtime/Host/Failure.h"
#include "fuse/Runtime/Host/Tensors.h"

#include <algorithm>
#include <cstring>

using namespace fuse::host;

static constexpr uint64_t kTileRows = 256, kStepBytes = 128, kChunkBytes = 16;

[[noreturn]] static void fail(const PackedWeight &packed,
                              const std::string &why) {
  throw Failure(FUSE_ERROR_FORMAT, "recipe '" + packed.recipe + "' " + why);
}

namespace {

/// Rows and bytes of a row of the matrices of a recipe.
struct Matrix {
  uint64_t rows, rowBytes;
};

} // namespace

static Matrix getMatrix(const PackedWeight &packed, const Function &function) {
  const TensorSpec &spec = function.arguments[packed.operands.front()];
  return {static_cast<uint64_t>(spec.shape[0]),
          static_cast<uint64_t>(spec.shape[1]) * spec.dtype.bits / 8};
}

/// Matrix rows in a tile: those of one matrix.
static uint64_t getSourceRows(const PackedWeight &packed) {
  return packed.recipe == "gate_up_256" ? kTileRows / 2 : kTileRows;
}

void fuse::host::checkPacking(const PackedWeight &packed,
                              const Function &function) {
  if (packed.recipe != "gate_up_256" && packed.recipe != "rows_256" &&
      packed.recipe != "identity")
    fail(packed, "is unknown; there are gate_up_256, rows_256, identity");
  size_t count = packed.recipe == "gate_up_256" ? 2 : 1;
  if (packed.operands.size() != count)
    fail(packed, "packs " + std::to_string(count) + " matrices, got " +
                     std::to_string(packed.operands.size()));
  const TensorSpec &first = function.arguments[packed.operands[0]];
  for (size_t operand : packed.operands) {
    const TensorSpec &spec = function.arguments[operand];
    if (spec.shape.size() != 2 || spec.shape[0] < 0 || spec.shape[1] < 0 ||
        spec.shape != first.shape || spec.element != first.element)
      fail(packed, "packs matrices of one type with known sizes, got " +
                       toString(spec));
  }
  auto [rows, rowBytes] = getMatrix(packed, function);
  uint64_t tileRows = getSourceRows(packed), bytes = rows * rowBytes;
  if (packed.recipe != "identity") {
    if (packed.tiles != (rows + tileRows - 1) / tileRows ||
        packed.steps != (rowBytes + kStepBytes - 1) / kStepBytes)
      fail(packed, "makes other tiles and steps of " + toString(first) +
                       " than the plan has");
    bytes = packed.tiles * packed.steps * kTileRows * kStepBytes;
  }
  if (packed.bytes != bytes)
    fail(packed, "makes " + std::to_string(bytes) + " bytes, the plan has " +
                     std::to_string(packed.bytes));
}

void fuse::host::packWeights(const PackedWeight &packed,
                             const Function &function,
                             const std::vector<const char *> &operands,
                             char *output) {
  if (packed.recipe == "identity") {
    std::memcpy(output, operands[0], packed.bytes);
    return;
  }
  auto [rows, rowBytes] = getMatrix(packed, function);
  bool isPair = operands.size() == 2;
  uint64_t tileRows = getSourceRows(packed);
  std::memset(output, 0, packed.bytes);
  for (uint64_t tile = 0; tile < packed.tiles; ++tile) {
    for (uint64_t p = 0; p < kTileRows; ++p) {
      uint64_t group = p / 128, m = p / 64 % 2, warp = p / 16 % 4,
               half = p / 8 % 2, lr = p % 8;
      uint64_t row = isPair
                         ? group * 64 + lr / 2 * 16 + warp * 4 + lr % 2 * 2 + m
                         : group * 128 + warp * 32 + lr * 4 + m * 2 + half;
      row += tile * tileRows;
      if (row >= rows)
        continue;
      const char *source = operands[isPair ? half : 0] + row * rowBytes;
      for (uint64_t step = 0; step < packed.steps; ++step) {
        char *target = output + ((step * packed.tiles + tile) * kTileRows + p) *
                                    kStepBytes;
        uint64_t begin = step * kStepBytes;
        uint64_t end = std::min(begin + kStepBytes, rowBytes);
        for (uint64_t offset = begin; offset < end; offset += kChunkBytes) {
          uint64_t chunk = (offset - begin) / kChunkBytes ^ p % 8;
          std::memcpy(target + chunk * kChunkBytes, source + offset,
                      std::min(kChunkBytes, end - offset));
        }
      }
    }
  }
}
