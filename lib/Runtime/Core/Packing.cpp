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
/// Bytes per output in a step of recipe "panels": one 32-bit element, two
/// 16-bit elements, or eight codes of 4 bits in four bytes.
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

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

std::vector<TensorSpec> fuse::runtime::getMatrices(const PackedWeight &packed,
                                                   const Function &function) {
  std::vector<TensorSpec> matrices;
  if (packed.views.empty())
    for (size_t operand : packed.operands)
      matrices.push_back(function.arguments[operand]);
  for (const std::vector<ViewBox> &view : packed.views) {
    TensorSpec spec = function.arguments[packed.operands[view.front().source]];
    spec.parameter.clear();
    spec.shape.assign(view.front().at.size(), 0);
    // The boxes fill the matrix.
    for (const ViewBox &box : view)
      for (size_t dim = 0; dim < spec.shape.size(); ++dim)
        spec.shape[dim] =
            std::max(spec.shape[dim],
                     static_cast<int64_t>(box.at[dim] + box.sizes[dim]));
    matrices.push_back(std::move(spec));
  }
  return matrices;
}

const ViewBox *fuse::runtime::getContiguous(const std::vector<ViewBox> &view,
                                            const TensorSpec &matrix) {
  if (view.size() != 1)
    return nullptr;
  uint64_t stride = 1;
  for (size_t dim = matrix.shape.size(); dim-- > 0;) {
    if (view[0].sizes[dim] != 1 && view[0].strides[dim] != stride)
      return nullptr;
    stride *= view[0].sizes[dim];
  }
  return view.data();
}

static bool overlap(const ViewBox &a, const ViewBox &b) {
  for (size_t dim = 0; dim < a.at.size(); ++dim)
    if (a.at[dim] >= b.at[dim] + b.sizes[dim] ||
        b.at[dim] >= a.at[dim] + a.sizes[dim])
      return false;
  return true;
}

/// Checks that boxes fill their matrix and are within their arguments.
static void checkViews(const PackedWeight &packed, const Function &function) {
  // Both keep products far from overflow.
  constexpr uint64_t most = uint64_t(1) << 48;
  auto multiply = [&](uint64_t a, uint64_t b) {
    if (b != 0 && a > most / b)
      fail(packed, "has a view of more than 2^48 elements");
    return a * b;
  };
  std::vector<TensorSpec> matrices = getMatrices(packed, function);
  for (size_t i = 0; i < packed.views.size(); ++i) {
    if (matrices[i].shape.size() > 2)
      fail(packed, "packs matrices and vectors, got " + toString(matrices[i]));
    uint64_t total = 1, filled = 0;
    for (int64_t size : matrices[i].shape)
      total = multiply(total, static_cast<uint64_t>(size));
    for (const ViewBox &box : packed.views[i]) {
      const TensorSpec &source =
          function.arguments[packed.operands[box.source]];
      uint64_t available = 1, count = 1, last = box.offset;
      for (int64_t size : source.shape)
        available = multiply(available, size < 0 ? 0 : uint64_t(size));
      for (size_t dim = 0; dim < box.sizes.size(); ++dim) {
        count = multiply(count, box.sizes[dim]);
        if (box.sizes[dim] > 0)
          last += multiply(box.sizes[dim] - 1, box.strides[dim]);
      }
      if (source.element != matrices[i].element || source.dtype.bits % 8 != 0 ||
          (count > 0 && last >= available))
        fail(packed, "has a view of elements that " + toString(source) +
                         " does not have");
      filled += count;
      for (const ViewBox &other : packed.views[i])
        if (&other != &box && overlap(other, box))
          fail(packed, "has a view with boxes that overlap");
    }
    if (filled != total)
      fail(packed,
           "has a view with boxes that do not fill " + toString(matrices[i]));
  }
}

/// Copies the elements of a box of rank 1 or 2 to a matrix.
static void gather(const ViewBox &box, const TensorSpec &matrix,
                   const char *source, char *output) {
  size_t bytes = matrix.dtype.bits / 8;
  size_t rank = box.sizes.size();
  auto get = [&](const std::vector<uint64_t> &values, size_t fromLast,
                 uint64_t otherwise) {
    return fromLast < rank ? values[rank - 1 - fromLast] : otherwise;
  };
  uint64_t pitch = rank > 0 ? static_cast<uint64_t>(matrix.shape.back()) : 1;
  uint64_t columns = get(box.sizes, 0, 1), step = get(box.strides, 0, 0);
  auto copyRows = [&](uint64_t first, uint64_t last) {
    for (uint64_t row = first; row < last; ++row) {
      const char *from =
          source + (box.offset + row * get(box.strides, 1, 0)) * bytes;
      char *to =
          output +
          ((get(box.at, 1, 0) + row) * pitch + get(box.at, 0, 0)) * bytes;
      if (step == 1) {
        std::memcpy(to, from, columns * bytes);
        continue;
      }
      for (uint64_t column = 0; column < columns; ++column)
        std::memcpy(to + column * bytes, from + column * step * bytes, bytes);
    }
  };
  using Copy = decltype(copyRows);
  ThreadPool::get().run(
      get(box.sizes, 1, 1),
      [](void *context, size_t first, size_t last) {
        (*static_cast<Copy *>(context))(first, last);
      },
      &copyRows);
}

//===----------------------------------------------------------------------===//
// Panels
//===----------------------------------------------------------------------===//

static void checkPanels(const PackedWeight &packed,
                        const std::vector<TensorSpec> &matrices) {
  size_t count = matrices.size();
  if (count == 0 || packed.columns == 0 || packed.columns % count != 0)
    fail(packed, "packs " + std::to_string(count) + " matrices in " +
                     std::to_string(packed.columns) + " columns");
  const TensorSpec &first = matrices[0];
  for (const TensorSpec &spec : matrices) {
    if (spec.shape.size() != 2 || spec.shape[0] < 0 || spec.shape[1] < 0 ||
        spec.shape != first.shape || spec.element != first.element ||
        (spec.dtype.bits != 8 && spec.dtype.bits != 16 &&
         spec.dtype.bits != 32))
      fail(packed, "packs matrices of one type of 8, 16 or 32 bits with known "
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

//===----------------------------------------------------------------------===//
// All recipes
//===----------------------------------------------------------------------===//

static void checkIdentity(const PackedWeight &packed, const TensorSpec &spec) {
  uint64_t bytes = spec.dtype.bits / 8;
  for (int64_t size : spec.shape) {
    if (size < 0)
      fail(packed, "packs a matrix with known sizes, got " + toString(spec));
    bytes *= static_cast<uint64_t>(size);
  }
  if (packed.bytes != bytes)
    fail(packed, "makes " + std::to_string(bytes) + " bytes, the plan has " +
                     std::to_string(packed.bytes));
}

void fuse::runtime::checkPacking(const PackedWeight &packed,
                                 const Function &function) {
  checkViews(packed, function);
  std::vector<TensorSpec> matrices = getMatrices(packed, function);
  if (isPanels(packed))
    return checkPanels(packed, matrices);
  bool isPair = packed.recipe == "gate_up_256",
       isRows = packed.recipe == "rows_256";
  if (!isPair && !isRows && packed.recipe != "identity")
    fail(packed, "is unknown; there are gate_up_256, rows_256, panels, "
                 "panels_transposed, identity");
  size_t count = isPair ? 2 : 1;
  if (isRows ? matrices.empty() : matrices.size() != count)
    fail(packed, std::string("packs ") + (isRows ? "at least " : "") +
                     std::to_string(count) + " matrices, got " +
                     std::to_string(matrices.size()));
  const TensorSpec &first = matrices[0];
  if (!isPair && !isRows)
    return checkIdentity(packed, first);
  uint64_t tiles = 0;
  for (const TensorSpec &spec : matrices) {
    if (spec.shape.size() != 2 || spec.shape[0] < 0 || spec.shape[1] < 0 ||
        spec.shape[1] != first.shape[1] || spec.element != first.element ||
        (!isRows && spec.shape != first.shape))
      fail(packed, "packs matrices of one type with known sizes, got " +
                       toString(spec));
    tiles += countTiles(packed, spec);
  }
  // The two matrices of a pair share their tiles.
  tiles /= count;
  if (packed.tiles != tiles ||
      packed.steps != (getRowBytes(first) + kStepBytes - 1) / kStepBytes)
    fail(packed, "makes other tiles and steps of " + toString(first) +
                     " than the plan has");
  uint64_t bytes = packed.tiles * packed.steps * kTileRows * kStepBytes;
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
  std::vector<TensorSpec> matrices = getMatrices(packed, function);
  for (size_t i = 0; i < matrices.size(); i += isPair ? 2 : 1) {
    const TensorSpec &spec = matrices[i];
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
  std::vector<TensorSpec> specs = getMatrices(packed, function);
  std::vector<const char *> matrices = operands;
  std::vector<std::vector<char>> gathered(packed.views.size());
  if (!packed.views.empty())
    matrices.resize(packed.views.size());
  for (size_t i = 0; i < packed.views.size(); ++i) {
    const std::vector<ViewBox> &view = packed.views[i];
    size_t bytes = specs[i].dtype.bits / 8;
    if (const ViewBox *box = getContiguous(view, specs[i])) {
      matrices[i] = operands[box->source] + box->offset * bytes;
      continue;
    }
    gathered[i].resize(getNumBytes(specs[i], specs[i].shape.data()));
    for (const ViewBox &box : view)
      gather(box, specs[i], operands[box.source], gathered[i].data());
    matrices[i] = gathered[i].data();
  }
  if (packed.recipe == "identity") {
    std::memcpy(output, matrices[0], packed.bytes);
    return;
  }
  if (isPanels(packed))
    return packPanels(packed, specs[0], matrices, output);
  for (const PackedTiles &part : getPackedTiles(packed, function)) {
    auto packTiles = [&](uint64_t first, uint64_t last) {
      for (uint64_t tile = first; tile < last; ++tile)
        packTile(packed, part, &matrices[part.operand], tile, output);
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
