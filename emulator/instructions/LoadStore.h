//===- LoadStore.h - Loads, stores and addresses ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_INSTRUCTIONS_LOADSTORE_H
#define FUSE_EMULATOR_INSTRUCTIONS_LOADSTORE_H

#include "instructions/DecoderSupport.h"

namespace fuse::emulator {

/// The upper 32 bits of generic addresses of a space.
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
  /// The address for race detection. Only memory that other threads can access
  /// is tracked.
  MemoryAddress address;
  bool isTracked;
};

/// Checks an access. Throws Fault if the memory does not exist, is misaligned,
/// or conflicts with a pending access.
ResolvedAddress locate(Thread &thread, StateSpace space, uint64_t address,
                       uint32_t bytes, unsigned alignment, Access access);

/// The bytes at a generic address, with the checks of their space but without
/// race detection. Throws Fault.
uint8_t *accessGeneric(Thread &thread, uint64_t address, uint32_t bytes,
                       unsigned alignment, Access access);

/// Remove the address space from an opcode; Generic if it names none. takeSpace
/// accepts all spaces, takeSharedSpace those of shared memory, takeCtaSpace
/// only `.shared` and `.shared::cta`.
StateSpace takeSpace(Parts &parts);
StateSpace takeSharedSpace(Parts &parts);
StateSpace takeCtaSpace(Parts &parts);
/// Removes the memory order and its scope from an opcode.
Order takeOrder(Parts &parts, Order otherwise);
/// Removes cache hints from an opcode. Returns whether there is an operand with
/// a cache policy.
bool takeCaches(Parts &parts);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_INSTRUCTIONS_LOADSTORE_H
