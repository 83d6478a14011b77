//===- TensorMap.cpp - Tensor maps of cuTensorMapEncodeTiled --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "machine/TensorMap.h"
#include "machine/Instruction.h"

#include <cstring>

using namespace fuse;
using namespace fuse::emulator;

/// Codes of `CUresult`.
static constexpr int kSuccess = 0, kInvalidValue = 1, kNotSupported = 801;

namespace {

/// Properties of the types of CUtensorMapDataType, by number.
struct ElementType {
  uint8_t bytes;
  bool isFloat;
};

} // namespace

static constexpr ElementType kElementTypes[] = {
    {1, false}, // UINT8
    {2, false}, // UINT16
    {4, false}, // UINT32
    {4, false}, // INT32
    {8, false}, // UINT64
    {8, false}, // INT64
    {2, true},  // FLOAT16
    {4, true},  // FLOAT32
    {8, true},  // FLOAT64
    {2, true},  // BFLOAT16
};
/// The last type that the driver knows. Types beyond kElementTypes convert
/// values during the copy or need later architectures.
static constexpr int kMaxElementType = 15;

uint32_t TensorMap::getBoxBytes() const {
  uint32_t bytes = elementBytes;
  for (unsigned i = 0; i < rank; ++i)
    bytes *= getBoxSize(i);
  return bytes;
}

int emulator::encodeTensorMap(void *result, int type, unsigned rank,
                              uint64_t address, const uint64_t *sizes,
                              const uint64_t *strides, const unsigned *box,
                              const unsigned *steps, int interleave,
                              int swizzle, int promotion, int fill,
                              std::string &what) {
  auto refuse = [&](std::string reason) {
    what = "a tensor map with " + std::move(reason);
    return kInvalidValue;
  };
  auto refuseLevel = [&](std::string reason) {
    what = "the emulator does not know tensor maps with " + std::move(reason);
    return kNotSupported;
  };
  auto isWithin = [](int value, int most) {
    return value >= 0 && value <= most;
  };

  if (!result || reinterpret_cast<uintptr_t>(result) % 64 != 0)
    return refuse("an address that is not aligned to 64");
  if (!isWithin(type, kMaxElementType))
    return refuse("element type " + std::to_string(type));
  constexpr int mostInterleave = 2, mostSwizzle = 3, mostPromotion = 3,
                mostFill = 1;
  // Swizzles above that of 128 bytes exist only on later architectures.
  if (!isWithin(interleave, mostInterleave) ||
      !isWithin(swizzle, mostSwizzle) || !isWithin(promotion, mostPromotion) ||
      !isWithin(fill, mostFill))
    return refuse("interleave " + std::to_string(interleave) + ", swizzle " +
                  std::to_string(swizzle) + ", promotion " +
                  std::to_string(promotion) + ", fill " + std::to_string(fill));
  if (rank == 0 || rank > kMaxTensorRank)
    return refuse(std::to_string(rank) + " dimensions, not 1 to " +
                  std::to_string(kMaxTensorRank));
  if (interleave != 0)
    return refuseLevel("interleave " + std::to_string(interleave));
  if (type >= static_cast<int>(std::size(kElementTypes)))
    return refuseLevel("element type " + std::to_string(type));
  if (!sizes || !box || !steps || (rank > 1 && !strides))
    return refuse("a null pointer");
  ElementType element = kElementTypes[type];
  if (address % 16 != 0)
    return refuse("a tensor that begins " + std::to_string(address % 16) +
                  " bytes after a multiple of 16");
  if (fill == 1 && !element.isFloat)
    return refuse("NaN to fill integers");

  TensorMap map;
  map.address = address;
  map.rank = static_cast<uint8_t>(rank);
  map.elementBytes = element.bytes;
  map.type = static_cast<uint8_t>(type);
  map.fillsNan = fill == 1;
  constexpr uint64_t mostElements = uint64_t(1) << 32, strideEnd = uint64_t(1)
                                                                   << 40;
  constexpr unsigned mostBox = 256, mostStep = 8;
  for (unsigned i = 0; i < rank; ++i) {
    std::string name = " in dimension " + std::to_string(i);
    if (sizes[i] == 0 || sizes[i] > mostElements)
      return refuse(std::to_string(sizes[i]) + " elements" + name);
    if (box[i] == 0 || box[i] > mostBox)
      return refuse("a box of " + std::to_string(box[i]) + name +
                    ", not 1 to " + std::to_string(mostBox));
    if (steps[i] == 0 || steps[i] > mostStep)
      return refuse("steps of " + std::to_string(steps[i]) + name +
                    ", not 1 to " + std::to_string(mostStep));
    map.sizes[i] = sizes[i];
    map.box[i] = static_cast<uint16_t>(box[i]);
    // Without interleave, the first dimension has no steps.
    map.steps[i] = static_cast<uint8_t>(i == 0 ? 1 : steps[i]);
    if (i + 1 == rank)
      break;
    if (strides[i] % 16 != 0 || strides[i] >= strideEnd)
      return refuse("a stride of " + std::to_string(strides[i]) +
                    " bytes, not a multiple of 16 below 2^40," + name);
    map.strides[i] = strides[i];
  }
  unsigned rowBytes = box[0] * element.bytes;
  if (rowBytes % 16 != 0)
    return refuse("a box of " + std::to_string(rowBytes) +
                  " bytes in the first dimension, not a multiple of 16");
  if (swizzle != 0) {
    map.swizzle = static_cast<uint8_t>(16 << swizzle);
    if (rowBytes > map.swizzle)
      return refuse("a box of " + std::to_string(rowBytes) +
                    " bytes in the first dimension, more than the swizzle of " +
                    std::to_string(map.swizzle));
    if (rowBytes != map.swizzle)
      return refuseLevel("a box of " + std::to_string(rowBytes) +
                         " bytes in the first dimension, less than the "
                         "swizzle of " +
                         std::to_string(map.swizzle));
  }
  std::memset(result, 0, 128);
  std::memcpy(result, &map, sizeof(map));
  return kSuccess;
}

TensorMap emulator::readTensorMap(const void *bytes) {
  TensorMap map;
  std::memcpy(&map, bytes, sizeof(map));
  if (map.magic != TensorMap::kMagic || map.rank == 0 ||
      map.rank > kMaxTensorRank)
    throw Fault(Fault::IllegalInstruction, "there is no tensor map");
  return map;
}
