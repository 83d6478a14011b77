//===- LoadStore.cpp - Loads, stores, atomics -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

using namespace fuse::emulator;

const Opcode fuse::emulator::kMemory[] = {{nullptr, nullptr}};
