//===- RunPtx.cpp - Fuzz the PTX parser and emulator ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first byte selects the interleaving seed, and whether the text is a
// module or the body of a kernel that has some registers. The emulator must
// refuse the text or run it. It must report an invalid access as a fault.
//
//===----------------------------------------------------------------------===//

#include "instructions/Decoder.h"
#include "machine/Machine.h"

#include <cstring>
#include <string>

using namespace fuse::emulator;

/// The beginning of a module, up to the body of its kernel. fuzzers/ptx.dict
/// uses its registers and variables.
static constexpr const char *kBodyPrefix = R"(.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 a, .param .u64 b) {
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
.shared .align 8 .b64 bars[4]; .local .align 8 .b8 stack[64];
ld.param.u64 %rd1, [a]; mov.b64 %rd2, smem; mov.b64 %rd3, bars;
mov.u32 %r1, %tid.x; mov.u32 %r2, 1; setp.eq.u32 %p1, %r1, 0;
)";

/// Runs each kernel of the module on two blocks of two warps, unless it
/// requires another number of threads. All pointers are to one small buffer.
static void run(std::string_view text, uint64_t seed) {
  constexpr uint64_t maxGlobalBytes = 1 << 20, bufferBytes = 4096;
  Limits limits;
  limits.multiprocessors = 2;
  limits.instructions = 100000;
  Machine machine(limits, seed);
  auto allocate = [&](const std::vector<uint8_t> &bytes, unsigned alignment) {
    if (bytes.size() > maxGlobalBytes)
      throw std::runtime_error("line 0: the variable is too large");
    uint64_t address =
        machine.allocate(bytes.size(), alignment < 8 ? 8 : alignment);
    if (address)
      std::memcpy(reinterpret_cast<void *>(address), bytes.data(),
                  bytes.size());
    return address;
  };
  uint64_t buffer = machine.allocate(bufferBytes);
  std::memset(reinterpret_cast<void *>(buffer), 0, bufferBytes);
  ParsedModule module = parsePtx(text, allocate);
  for (auto &[name, parsed] : module.kernels) {
    std::vector<uint8_t> parameters(parsed.parameterBytes);
    for (const Parameter &parameter : parsed.parameters)
      if (parameter.bytes == sizeof(buffer))
        std::memcpy(parameters.data() + parameter.offset, &buffer,
                    sizeof(buffer));
    LaunchShape shape;
    shape.grid = {2, 1, 1};
    shape.cluster[0] = parsed.requiredCluster[0] == 2 ? 2 : 1;
    shape.block = {64, 1, 1};
    if (parsed.requiredThreads[0])
      shape.block = parsed.requiredThreads;
    shape.dynamicShared = 2048;
    shape.isProgrammatic = true;
    machine.launch(decode(std::move(parsed)), nullptr, shape,
                   std::move(parameters), 0);
  }
  machine.synchronize();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  std::string text(reinterpret_cast<const char *>(data) + 1, size - 1);
  // Bits 0 and 1 are the seed, bit 2 the kind of text.
  constexpr uint8_t seedMask = 3, bodyBit = 4;
  if (data[0] & bodyBit)
    text = kBodyPrefix + text + "\n}\n";
  try {
    run(text, data[0] & seedMask);
  } catch (const std::runtime_error &) {
  }
  return 0;
}
