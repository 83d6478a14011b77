//===- TemporaryDirectory.h - A place for the files of a step ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SUPPORT_TEMPORARYDIRECTORY_H
#define FUSE_SUPPORT_TEMPORARYDIRECTORY_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <utility>

namespace fuse {

/// A new directory that only this user can look into, and that goes with all
/// that is in it.
class TemporaryDirectory {
public:
  /// Makes one whose name begins with `prefix`.
  static llvm::Expected<TemporaryDirectory> create(llvm::StringRef prefix);

  TemporaryDirectory(TemporaryDirectory &&other)
      : path(std::exchange(other.path, "")) {}
  TemporaryDirectory &operator=(TemporaryDirectory &&) = delete;
  ~TemporaryDirectory();

  /// The path of a file in it, which need not be there.
  std::string getFile(llvm::StringRef name) const;

private:
  explicit TemporaryDirectory(std::string path) : path(std::move(path)) {}

  std::string path;
};

} // namespace fuse

#endif // FUSE_SUPPORT_TEMPORARYDIRECTORY_H
