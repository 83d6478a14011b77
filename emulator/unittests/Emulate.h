//===- Emulate.h - Small kernels on the emulated GPU ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_UNITTESTS_EMULATE_H
#define FUSE_EMULATOR_UNITTESTS_EMULATE_H

#include "instructions/Decoder.h"
#include "machine/Machine.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace fuse::emulator {

/// Compiles the only kernel of a module. `text` starts at line 4, after a
/// header with version and target.
inline std::shared_ptr<const Program> compile(Machine &machine,
                                              const std::string &text) {
  auto allocate = [&](const std::vector<uint8_t> &bytes, unsigned alignment) {
    uint64_t address = machine.allocate(bytes.size(), alignment);
    std::memcpy(reinterpret_cast<void *>(address), bytes.data(), bytes.size());
    return address;
  };
  ParsedModule module = parsePtx(
      ".version 8.6\n.target sm_90a\n.address_size 64\n" + text, allocate);
  return decode(std::move(module.kernels.begin()->second));
}

/// Queues a launch of such a kernel. All parameters have 64 bits.
inline void launch(Machine &machine, const std::string &text,
                   const LaunchShape &shape,
                   const std::vector<uint64_t> &parameters,
                   uint64_t stream = 0) {
  std::vector<uint8_t> bytes(parameters.size() * 8);
  std::copy_n(reinterpret_cast<const uint8_t *>(parameters.data()),
              bytes.size(), bytes.data());
  machine.launch(compile(machine, text), nullptr, shape, std::move(bytes),
                 stream);
}

inline LaunchShape makeShape(unsigned blocks, unsigned threads) {
  LaunchShape shape;
  shape.grid[0] = blocks;
  shape.block[0] = threads;
  return shape;
}

template <typename T>
T read(uint64_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void *>(address), sizeof(T));
  return value;
}

template <typename T>
void write(uint64_t address, T value) {
  std::memcpy(reinterpret_cast<void *>(address), &value, sizeof(T));
}

/// The text of what `run` throws, or nothing.
template <typename Run>
std::string getFault(Run run) {
  try {
    run();
  } catch (const Fault &fault) {
    return fault.what();
  }
  return "";
}

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_UNITTESTS_EMULATE_H
