//===- Refusal.cpp - Reasons why sites are not fused ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/Refusal.h"

using namespace fuse;

const RefusalText &fuse::getText(RefusalKind kind) {
  static constexpr RefusalText texts[] = {
#define FUSE_REFUSAL(enumerator, id, name, reason, suggestion)                 \
  {llvm::StringLiteral(id), llvm::StringLiteral(name),                         \
   llvm::StringLiteral(reason), llvm::StringLiteral(suggestion)},
#include "fuse/Analysis/Refusals.def"
  };
  return texts[static_cast<unsigned>(kind)];
}
