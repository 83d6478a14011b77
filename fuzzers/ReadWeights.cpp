//===- ReadWeights.cpp - Fuzz safetensors and npy files -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IO/Npy.h"
#include "fuse/IO/Safetensors.h"

#include <cstdint>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace fuse;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  static const int file = ::memfd_create("input", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (::ftruncate(file, 0) != 0 ||
      ::pwrite(file, data + 1, size - 1, 0) != ssize_t(size - 1))
    return 0;
  if (data[0] % 2) {
    constexpr ElementType types[] = {ElementType::F32, ElementType::BF16,
                                     ElementType::I8, ElementType::F8E4M3FN};
    auto tensor = readNpy(path, types[data[0] / 2 % 4]);
    if (!tensor)
      llvm::consumeError(tensor.takeError());
    return 0;
  }
  auto weights = SafetensorsFile::open(path);
  if (!weights) {
    llvm::consumeError(weights.takeError());
    return 0;
  }
  for (llvm::StringRef name : weights->getNames()) {
    auto tensor = weights->read(name, {ElementType::F32, {-1, -1}});
    if (!tensor)
      llvm::consumeError(tensor.takeError());
  }
  return 0;
}
