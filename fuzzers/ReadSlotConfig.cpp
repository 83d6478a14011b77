//===- ReadSlotConfig.cpp - Fuzz configurations of slots ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/SlotConfig.h"

#include <cstdint>

using namespace fuse;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto config = SlotConfig::parse(text, "input");
  if (!config) {
    llvm::consumeError(config.takeError());
    SlotConfig empty;
    llvm::consumeError(empty.addBinding(text));
    return 0;
  }
  auto target = config->getTarget();
  if (!target)
    llvm::consumeError(target.takeError());
  return 0;
}
