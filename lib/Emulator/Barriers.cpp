//===- Barriers.cpp - What threads wait for -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

using namespace fuse::emulator;

const Opcode fuse::emulator::kBarriers[] = {{nullptr, nullptr}};
