//===- Statistic.h - Statistics as LLVM lays them out -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stands before LLVM's header of the same name when fuse is built with
// assertions and LLVM was not. LLVM's header takes the layout of a statistic
// from NDEBUG, and mlir::Pass::Statistic is constructed inside LLVM's library:
// with a setting of our own, passes would count in uninitialized memory.
//
//===----------------------------------------------------------------------===//

#pragma push_macro("NDEBUG")
#undef NDEBUG
#define NDEBUG 1
#include_next "llvm/ADT/Statistic.h"
#pragma pop_macro("NDEBUG")
// What Statistic.h includes may have included <cassert> in that setting; assert
// is what the last inclusion says.
#include <cassert>
