//===- Statistic.h - Statistics with the layout of LLVM's build -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Overrides LLVM's header of the same name if fuse is built with assertions and
// LLVM was not. The layout of a statistic depends on NDEBUG there, and LLVM's
// library constructs mlir::Pass::Statistic. With another setting, passes would
// count in uninitialized memory.
//
//===----------------------------------------------------------------------===//

#pragma push_macro("NDEBUG")
#undef NDEBUG
#define NDEBUG 1
#include_next "llvm/ADT/Statistic.h"
#pragma pop_macro("NDEBUG")
// Statistic.h may have included <cassert> with that setting. Include it again,
// since the last inclusion defines assert.
#include <cassert>
