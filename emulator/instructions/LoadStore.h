//===- LoadStore.h - Memory as threads see it -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_INSTRUCTIONS_LOADSTORE_H
#define FUSE_EMULATOR_INSTRUCTIONS_LOADSTORE_H

#include "instructions/DecoderSupport.h"

namespace fuse::emulator {

/// Bits above 32 of generic addresses.
constexpr uint64_t getWindow(StateSpace space) {
  switch (space) {
  case StateSpace::SharedCta:
  case StateSpace::SharedCluster:
    return kSharedWindow;
  case StateSpace::Local:
    return kLocalWindow;
  case StateSpace::Parameter:
    return kParameterWindow;
  case StateSpace::Generic:
  case StateSpace::Global:
    break;
  }
  return 0;
}

struct ResolvedAddress {
  uint8_t *bytes;
  /// Where others may see it.
  MemoryAddress address;
  bool isTracked;
};

/// Throws Fault where there is nothing or something else is under way.
ResolvedAddress locate(Thread &thread, StateSpace space, uint64_t address,
                       uint32_t bytes, unsigned alignment, Access access);

/// Generic without one: of all that are named here, of shared memory, and of
/// that of the own block.
StateSpace takeSpace(Parts &parts);
StateSpace takeSharedSpace(Parts &parts);
StateSpace takeCtaSpace(Parts &parts);
/// With the scope behind it.
Order takeOrder(Parts &parts, Order otherwise);
/// What says which cache holds it; whether there is an operand for that.
bool takeCaches(Parts &parts);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_INSTRUCTIONS_LOADSTORE_H
