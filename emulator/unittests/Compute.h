//===- Compute.h - Single instructions on the emulated GPU ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_UNITTESTS_COMPUTE_H
#define FUSE_EMULATOR_UNITTESTS_COMPUTE_H

#include "Emulate.h"

#include <gtest/gtest.h>

namespace fuse::emulator {

/// Executes PTX in one thread and returns %rd0. There are 64-bit %rd<8>, 32-bit
/// %r<8>, 16-bit %h<8> and %p<8>. %rd1, %r1 and %h1 hold the first of `inputs`,
/// and so on.
inline uint64_t compute(const std::string &body,
                        const std::vector<uint64_t> &inputs = {}) {
  Machine machine;
  std::string text = ".visible .entry k(.param .u64 out) {\n"
                     ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<8>;\n"
                     ".reg .b64 %rd<8>, %out;\n";
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string number = std::to_string(i + 1);
    text += "mov.b64 %rd" + number + ", " + std::to_string(inputs[i]) +
            "; cvt.u32.u64 %r" + number + ", %rd" + number +
            "; cvt.u16.u64 %h" + number + ", %rd" + number + ";\n";
  }
  text += body + "\nld.param.u64 %out, [out]; st.global.b64 [%out], %rd0; }\n";
  uint64_t out = machine.allocate(8);
  launch(machine, text, makeShape(1, 1), {out});
  machine.synchronize();
  return read<uint64_t>(out);
}

/// Executes one instruction with a 32-bit result.
inline uint32_t compute32(const std::string &opcode,
                          const std::string &operands,
                          const std::vector<uint64_t> &inputs = {}) {
  return static_cast<uint32_t>(compute(
      opcode + " %r0, " + operands + "; cvt.u64.u32 %rd0, %r0;", inputs));
}
inline uint16_t compute16(const std::string &opcode,
                          const std::string &operands,
                          const std::vector<uint64_t> &inputs = {}) {
  return static_cast<uint16_t>(compute(
      opcode + " %h0, " + operands + "; cvt.u64.u16 %rd0, %h0;", inputs));
}
inline uint64_t compute64(const std::string &opcode,
                          const std::string &operands,
                          const std::vector<uint64_t> &inputs = {}) {
  return compute(opcode + " %rd0, " + operands + ";", inputs);
}
inline bool test(const std::string &opcode, const std::string &operands,
                 const std::vector<uint64_t> &inputs = {}) {
  return compute(opcode + " %p0, " + operands + "; selp.b64 %rd0, 1, 0, %p0;",
                 inputs) != 0;
}

inline uint64_t bits(float value) {
  uint32_t result;
  std::memcpy(&result, &value, sizeof(result));
  return result;
}
inline uint64_t bits(double value) {
  uint64_t result;
  std::memcpy(&result, &value, sizeof(result));
  return result;
}

/// The error that decoding reports, or nothing.
inline std::string refuse(const std::string &body) {
  try {
    (void)compute(body);
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_UNITTESTS_COMPUTE_H
