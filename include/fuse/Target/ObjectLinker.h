//===- ObjectLinker.h - Relocatable objects in this process -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TARGET_OBJECTLINKER_H
#define FUSE_TARGET_OBJECTLINKER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace fuse {

/// An object that LLVM's JIT linker loaded into this process.
class LinkedObject {
public:
  static llvm::Expected<std::unique_ptr<LinkedObject>>
  create(llvm::StringRef object);
  ~LinkedObject();

  /// The address of a symbol, or the error of the linker.
  llvm::Expected<void *> lookup(llvm::StringRef symbol) const;

private:
  LinkedObject(std::unique_ptr<llvm::orc::LLJIT> jit,
               std::shared_ptr<std::string> problem);

  /// The last error that the linker reported.
  std::shared_ptr<std::string> problem;
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace fuse

#endif // FUSE_TARGET_OBJECTLINKER_H
