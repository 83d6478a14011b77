//===- Packing.cpp - Weights in the order kernels read them ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Packing.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Tensors.h"
#include "fuse/Runtime/Core/ThreadPool.h"

#include <algorithm>
#include <cstring>

using namespace fuse::runtime;

static constexpr uint64_t kTileRows = 256, kStepBytes = 128, kChunkBytes = 16;
/// Bytes per output in a step of recipe "panels": one 32-bit element or two
/// 16-bit elements.
static constexpr uint64_t kPanelStepBytes = 4;

[[noreturn]] static void fail(const PackedWeight &packed,
                              const std::string &why) {
  throw Failure(FUSE_ERROR_FORMAT, "recipe '" + packed.recipe + "' " + why);
}

/// Rows of one matrix in a tile.
static uint64_t getSourceRows(const PackedWeight &packed) {
  return packed.recipe == "gate_up_256" ? kTileRows / 2 : kTileRows;
}

static uint64_t getRows(const TensorSpec &spec) {
  return static_cast<uint64_t>(spec.shape[0]);
}

static uint64_t getRowBytes(const TensorSpec &spec) {
  return static_cast<uint64_t>(spec.shape[1]) * spec.dtype.bits / 8;
}

static uint64_t countTiles(const PackedWeight &packed, const TensorSpec &spec) {
  uint64_t tileRows = getSourceRows(packed);
  return (getRows(spec) + tileRows - 1) / tileRows;
}

static bool isPanels(const PackedWeight &packed) {
  return packed.recipe == "panels" || packed.recipe == "panels_transposed";
}

/// Whether matrices are stored as [in, out], so that an output is a column.
static bool isTransposed(const PackedWeight &packed) {
  return packed.recipe == "panels_transposed";
}

static void checkPanels(const PackedWeight &packed, const Function &function) {
  size_t count = packed.operands.size();
  if (count == 0 || packed.columns == 0 || packed.columns % count != 0)
    fail(packed, "packs " + std::to_string(count) + " matrices in " +
                     std::to_string(packed.columns) + " columns");
  const TensorSpec &first = function.arguments[packed.operands[0]];
  for (size_t operand : packed.operands) {
    const TensorSpec &spec = function.arguments[operand];
    if (spec.shape.size() != 2 || spec.shape[0] < 0 || spec.shape[1] < 0 ||
        spec.shape != first.shape || spec.element != first.element ||
        (spec.dtype.bits != 16 && spec.dtype.bits != 32))
      fail(packed, "packs matrices of one type of 16 or 32 bits with known "
                   "sizes, got " +
                       toString(spec));
  }
  bool transposed = isTransposed(packed);
  uint64_t rows = static_cast<uint64_t>(first.shape[transposed ? 1 : 0]);
  uint64_t rowBytes = static_cast<uint64_t>(first.shape[transposed ? 0 : 1]) *
                      first.dtype.bits / 8;
  uint64_t tileRows = packed.columns / count;
  if (packed.steps * kPanelStepBytes != rowBytes ||
      packed.tiles != (rows + tileRows - 1) / tileRows)
    fail(packed, "makes other tiles and steps of " + toString(first) +
                     " than the plan has");
  uint64_t bytes = packed.tiles * packed.columns * rowBytes;
  if (packed.bytes != bytes)
    fail(packed, "makes " + std::to_string(bytes) + " bytes, the plan has " +
                     std::to_string(packed.bytes));
}

static void packPanels(const PackedWeight &packed, const TensorSpec &spec,
                       const std::vector<const char *> &operands,
                       char *output) {
  bool transposed = isTransposed(packed);
  uint64_t rows = static_cast<uint64_t>(spec.shape[transposed ? 1 : 0]);
  uint64_t elementBytes = spec.dtype.bits / 8;
  uint64_t tileRows = packed.columns / operands.size();
  // Copies the terms of one output in one step.
  auto packStep = [&](uint64_t tile, uint64_t column, uint64_t step) {
    char *place =
        output + ((tile * packed.steps + step) * packed.columns + column) *
                     kPanelStepBytes;
    uint64_t row = tile * tileRows + column % tileRows;
    const char *matrix = operands[column / tileRows];
    if (row >= rows) {
      std::memset(place, 0, kPanelStepBytes);
    } else if (!transposed) {
      std::memcpy(place, matrix + (row * packed.steps + step) * kPanelStepBytes,
                  kPanelStepBytes);
    } else {
      uint64_t term = step * kPanelStepBytes / elementBytes;
      for (uint64_t at = 0; at < kPanelStepBytes; at += elementBytes)
        std::memcpy(place + at, matrix + (term++ * rows + row) * elementBytes,
                    elementBytes);
    }
  };
  // The inner loop follows the memory order of the matrix.
  auto packTiles = [&](uint64_t first, uint64_t last) {
    for (uint64_t tile = first; tile < last; ++tile)
      if (transposed)
        for (uint64_t step = 0; step < packed.steps; ++step)
          for (uint64_t column = 0; column < packed.columns; ++column)
            packStep(tile, column, step);
      else
        for (uint64_t column = 0; column < packed.columns; ++column)
          for (uint64_t step = 0; step < packed.steps; ++step)
            packStep(tile, column, step);
  };
  using Pack = decltype(packTiles);
  ThreadPool::get().run(
      packed.tiles,
      [](void *context, size_t first, size_t last) {
        (*static_cast<Pack *>(context))(first, last);
      },
      &packTiles);
}

void fuse::runtime::checkPacking(const PackedWeight &packed,
                                 const Function &function) {
  if (isPanels(packed))
    return checkPanels(packed, function);
  bool isPair = packed.recipe == "gate_up_256",
       isRows = packed.recipe == "rows_256";
  if (!isPair && !isRows && packed.recipe != "identity")
    fail(packed, "is unknown; there are gate_up_256, rows_256, panels, "
                 "panels_transposed, identity");
  size_t count = isPair ? 2 : 1;
  if (isRows ? packed.operands.empty() : packed.operands.size() != count)
    fail(packed, std::string("packs ") + (isRows ? "at least " : "") +
                     std::to_string(count) + " matrices, got " +
                     std::to_string(packed.operands.size()));
  const TensorSpec &first = function.arguments[packed.operands[0]];
  uint64_t tiles = 0;
  for (size_t operand : packed.operands) {
    const TensorSpec &spec = function.arguments[operand];
    if (spec.shape.size() != 2 || spec.shape[0] < 0 || spec.shape[1] < 0 ||
        spec.shape[1] != first.shape[1] || spec.element != first.element ||
        (!isRows && spec.shape != first.shape))
      fail(packed, "packs matrices of one type with known sizes, got " +
                       toString(spec));
    tiles += countTiles(packed, spec);
  }
  // The two matrices of a pair share their tiles.
  tiles /= count;
  uint64_t rowBytes = getRowBytes(first), bytes = getRows(first) * rowBytes;
  if (isPair || isRows) {
    if (packed.tiles != tiles ||
        packed.steps != (rowBytes + kStepBytes - 1) / kStepBytes)
      fail(packed, "makes other tiles and steps of " + toString(first) +
                       " than the plan has");
    bytes = packed.tiles * packed.steps * kTileRows * kStepBytes;
  }
  if (packed.bytes != bytes)
    fail(packed, "makes " + std::to_string(bytes) + " bytes, the plan has " +
                     std::to_string(packed.bytes));
}

std::vector<PackedTiles>
fuse::runtime::getPackedTiles(const PackedWeight &packed,
                              const Function &function) {
  std::vector<PackedTiles> parts;
  bool isPair = packed.recipe == "gate_up_256";
  if (!isPair && packed.recipe != "rows_256")
    return parts;
  // Matrices of rows_256 follow each other, and each begins with a new tile.
  // The two matrices of a pair share their tiles.
  uint64_t first = 0;
  for (size_t i = 0; i < packed.operands.size(); i += isPair ? 2 : 1) {
    const TensorSpec &spec = function.arguments[packed.operands[i]];
    uint64_t count = countTiles(packed, spec);
    parts.push_back(
        {i, isPair, getRows(spec), getRowBytes(spec), first, count});
    first += count;
  }
  return parts;
}

/// Packs tile `tile` of `part`.
static void packTile(const PackedWeight &packed, const PackedTiles &part,
                     const char *const *matrices, uint64_t tile, char *output) {
  for (uint64_t p = 0; p < kTileRows; ++p) {
    uint64_t group = p / 128, m = p / 64 % 2, warp = p / 16 % 4,
             half = p / 8 % 2, lr = p % 8;
    uint64_t row = part.isPair
                       ? group * 64 + lr / 2 * 16 + warp * 4 + lr % 2 * 2 + m
                       : group * 128 + warp * 32 + lr * 4 + m * 2 + half;
    row += tile * getSourceRows(packed);
    const char *source = matrices[part.isPair ? half : 0] + row * part.rowBytes;
    for (uint64_t step = 0; step < packed.steps; ++step) {
      char *target =
          output +
          ((step * packed.tiles + part.firstTile + tile) * kTileRows + p) *
              kStepBytes;
      uint64_t begin = step * kStepBytes;
      uint64_t end = std::min(begin + kStepBytes, part.rowBytes);
      if (row >= part.rows || end - begin < kStepBytes)
        std::memset(target, 0, kStepBytes);
      if (row >= part.rows)
        continue;
      for (uint64_t offset = begin; offset < end; offset += kChunkBytes) {
        uint64_t chunk = (offset - begin) / kChunkBytes ^ p % 8;
        std::memcpy(target + chunk * kChunkBytes, source + offset,
                    std::min(kChunkBytes, end - offset));
      }
    }
  }
}

void fuse::runtime::packWeights(const PackedWeight &packed,
                                const Function &function,
                                const std::vector<const char *> &operands,
                                char *output) {
  if (packed.recipe == "identity") {
    std::memcpy(output, operands[0], packed.bytes);
    return;
  }
  if (isPanels(packed))
    return packPanels(packed, function.arguments[packed.operands[0]], operands,
                      output);
  for (const PackedTiles &part : getPackedTiles(packed, function)) {
    auto packTiles = [&](uint64_t first, uint64_t last) {
      for (uint64_t tile = first; tile < last; ++tile)
        packTile(packed, part, &operands[part.operand], tile, output);
    };
    using Pack = decltype(packTiles);
    ThreadPool::get().run(
        part.numTiles,
        [](void *context, size_t first, size_t last) {
          (*static_cast<Pack *>(context))(first, last);
        },
        &packTiles);
  }
}
