//===- SlotGenerator.h - Random modules with slots ------------ -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_SLOTGENERATOR_H
#define FUSE_TOOLS_FUSE_FUZZ_SLOTGENERATOR_H

#include <cstdint>
#include <string>

namespace fuse {

/// The text of a module with slots of registered ops and of its own, with eager
/// bodies and without, with kernels beside it, and with calls in functions and
/// in the forwards of models. For each function `@f0` that calls slots there is
/// one `@g0` with what the slots mean written out.
std::string generateSlots(uint64_t seed);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_SLOTGENERATOR_H
