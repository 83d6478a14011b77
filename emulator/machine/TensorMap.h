//===- TensorMap.h - Tensor maps of cuTensorMapEncodeTiled ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The 128 opaque bytes that cuTensorMapEncodeTiled writes. Section 6.31 of the
// CUDA driver API documents the constraints on its arguments.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_MACHINE_TENSORMAP_H
#define FUSE_EMULATOR_MACHINE_TENSORMAP_H

#include <array>
#include <cstdint>
#include <string>

namespace fuse::emulator {

constexpr unsigned kMaxTensorRank = 5;

/// A decoded tensor map. Dimension 0 is the innermost one.
struct TensorMap {
  /// Distinguishes a tensor map from other bytes.
  static constexpr uint64_t kMagic = 0x70616d726f736e65; // "ensormap"
  uint64_t magic = kMagic;
  uint64_t address = 0;
  /// Elements in each dimension.
  std::array<uint64_t, kMaxTensorRank> sizes{};
  /// Bytes between neighbors in each dimension after the first.
  std::array<uint64_t, kMaxTensorRank - 1> strides{};
  std::array<uint16_t, kMaxTensorRank> box{};
  std::array<uint8_t, kMaxTensorRank> steps{};
  uint8_t rank = 0;
  uint8_t elementBytes = 0;
  /// Swizzle: bytes of a row in which 16-byte chunks are permuted. 0, 32, 64 or
  /// 128.
  uint8_t swizzle = 0;
  /// Whether elements outside of the tensor read as NaN. They read as zero
  /// otherwise.
  bool fillsNan = false;
  uint8_t type = 0;

  /// Elements of a box that are copied in a dimension: one in each `steps`.
  unsigned getBoxSize(unsigned dimension) const {
    return (box[dimension] + steps[dimension] - 1u) / steps[dimension];
  }
  /// Bytes of a box in shared memory, including elements outside of the tensor.
  uint32_t getBoxBytes() const;
};
static_assert(sizeof(TensorMap) <= 128);

/// Implements cuTensorMapEncodeTiled and returns its code. `result` has 128
/// bytes. `what` receives the reason of an error.
int encodeTensorMap(void *result, int type, unsigned rank, uint64_t address,
                    const uint64_t *sizes, const uint64_t *strides,
                    const unsigned *box, const unsigned *steps, int interleave,
                    int swizzle, int promotion, int fill, std::string &what);

/// Throws Fault if `bytes` are not a tensor map.
TensorMap readTensorMap(const void *bytes);

/// Maps an offset in shared memory to its offset under a swizzle. The position
/// of a 16-byte chunk is XORed with the address bits above it. The beginning of
/// the box does not matter.
constexpr uint32_t swizzle(uint32_t offset, unsigned rowBytes) {
  return rowBytes == 0 ? offset
                       : offset ^ ((offset >> 7 & (rowBytes / 16 - 1)) << 4);
}

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_MACHINE_TENSORMAP_H
