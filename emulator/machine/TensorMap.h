//===- TensorMap.h - What copies know of tensors ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The 128 opaque bytes that cuTensorMapEncodeTiled writes. What it demands of
// its arguments is in the documentation of the driver API, section 6.31.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_MACHINE_TENSORMAP_H
#define FUSE_EMULATOR_MACHINE_TENSORMAP_H

#include <array>
#include <cstdint>
#include <string>

namespace fuse::emulator {

constexpr unsigned kMaxTensorRank = 5;

/// The innermost dimension is the first one.
struct TensorMap {
  /// Tells it from other bytes.
  static constexpr uint64_t kMagic = 0x70616d726f736e65; // "ensormap"
  uint64_t magic = kMagic;
  uint64_t address = 0;
  /// Elements.
  std::array<uint64_t, kMaxTensorRank> sizes{};
  /// Bytes between neighbors in the dimensions behind the first one.
  std::array<uint64_t, kMaxTensorRank - 1> strides{};
  std::array<uint16_t, kMaxTensorRank> box{};
  std::array<uint8_t, kMaxTensorRank> steps{};
  uint8_t rank = 0;
  uint8_t elementBytes = 0;
  /// Bytes of a row in which chunks of 16 are permuted: 0, 32, 64 or 128.
  uint8_t swizzle = 0;
  /// What a float outside of the tensor is, or zero.
  bool fillsNan = false;
  uint8_t type = 0;

  /// Elements of a box that are copied: every `steps`th one.
  unsigned getBoxSize(unsigned dimension) const {
    return (box[dimension] + steps[dimension] - 1u) / steps[dimension];
  }
  /// Of a box in shared memory. All of them count, also those outside of the
  /// tensor.
  uint32_t getBoxBytes() const;
};
static_assert(sizeof(TensorMap) <= 128);

/// The code that cuTensorMapEncodeTiled returns, with its arguments; `result`
/// are 128 bytes. `what` gets the reason of an error.
int encodeTensorMap(void *result, int type, unsigned rank, uint64_t address,
                    const uint64_t *sizes, const uint64_t *strides,
                    const unsigned *box, const unsigned *steps, int interleave,
                    int swizzle, int promotion, int fill, std::string &what);

/// Throws Fault where `bytes` are not a tensor map.
TensorMap readTensorMap(const void *bytes);

/// Where a byte of a box is that would be at `offset` in shared memory without
/// the swizzle: chunks of 16 bytes trade places by the bits of the address
/// above them, whatever the beginning of the box is.
constexpr uint32_t swizzle(uint32_t offset, unsigned rowBytes) {
  return rowBytes == 0 ? offset
                       : offset ^ ((offset >> 7 & (rowBytes / 16 - 1)) << 4);
}

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_MACHINE_TENSORMAP_H
