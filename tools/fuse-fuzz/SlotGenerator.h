//===- SlotGenerator.h - Random modules with slots --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_SLOTGENERATOR_H
#define FUSE_TOOLS_FUSE_FUZZ_SLOTGENERATOR_H

#include <cstdint>
#include <string>

namespace fuse {

/// The text of a module with slots of registered ops and of unregistered ones,
/// with and without eager bodies and kernels. Functions and the forward
/// functions of models call them. Each function `@f0` that calls slots has a
/// counterpart `@g0` with the meaning of the slots written as ops.
std::string generateSlots(uint64_t seed);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_SLOTGENERATOR_H
