//===- Tensor.h - Tensors of the example ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef EMBED_TENSOR_H
#define EMBED_TENSOR_H

#include "fuse-c/Runtime.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace embed {

/// A tensor in host memory with a view for fuse.
struct Tensor {
  Tensor(DLDataType dtype, std::vector<int64_t> sizes)
      : shape(std::move(sizes)) {
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    bytes.resize(count * dtype.bits / 8);
    view = {bytes.data(),
            {kDLCPU, 0},
            static_cast<int32_t>(shape.size()),
            dtype,
            shape.data(),
            nullptr,
            0};
  }
  Tensor(Tensor &&) = default;

  int64_t getNumElements() const {
    return int64_t(bytes.size()) * 8 / view.dtype.bits;
  }
  double get(int64_t index) const;
  void fill(std::mt19937_64 &random, double scale);

  std::vector<int64_t> shape;
  std::vector<char> bytes;
  DLTensor view;
};

inline double Tensor::get(int64_t index) const {
  const char *data = bytes.data() + index * view.dtype.bits / 8;
  float single;
  double wide;
  if (view.dtype.code == kDLFloat && view.dtype.bits == 32) {
    std::memcpy(&single, data, 4);
    return single;
  }
  if (view.dtype.code == kDLFloat && view.dtype.bits == 64) {
    std::memcpy(&wide, data, 8);
    return wide;
  }
  if (view.dtype.code == kDLBfloat) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<char *>(&bits) + 2, data, 2);
    std::memcpy(&single, &bits, 4);
    return single;
  }
  return static_cast<unsigned char>(*data);
}

/// Random values in [-scale, scale]; 8-bit floats over their whole range.
inline void Tensor::fill(std::mt19937_64 &random, double scale) {
  int64_t count = getNumElements();
  size_t width = view.dtype.bits / 8;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = random();
    double value = (double(bits >> 11) * 0x1p-52 - 1.0) * scale;
    auto single = float(value);
    if (view.dtype.code == kDLFloat && width == 4) {
      std::memcpy(&bits, &single, 4);
    } else if (view.dtype.code == kDLFloat && width == 8) {
      std::memcpy(&bits, &value, 8);
    } else if (view.dtype.code == kDLBfloat) {
      uint32_t word;
      std::memcpy(&word, &single, 4);
      bits = word >> 16;
    } else if (view.dtype.code == kDLFloat8_e4m3fn) {
      // All values except the two NaNs.
      bits &= (bits & 0x7f) == 0x7f ? 0xbf : 0xff;
    } else {
      bits %= 8;
    }
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
}

/// The shape of a tensor whose dynamic sizes equal the number of tokens.
inline std::vector<int64_t> getShape(const fuse_tensor_type &type,
                                     int64_t tokens) {
  std::vector<int64_t> shape(type.shape, type.shape + type.ndim);
  for (int64_t &size : shape)
    size = size < 0 ? tokens : size;
  return shape;
}

} // namespace embed

#endif // EMBED_TENSOR_H
