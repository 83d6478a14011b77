//===- Arithmetic.cpp - Integers, predicates, moves -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

using namespace fuse::emulator;

const Opcode fuse::emulator::kArithmetic[] = {{nullptr, nullptr}};
