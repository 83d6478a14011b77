//===- TemporaryDirectory.h - Directory for temporary files -----*- C++ -*-===//
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

/// A new directory that only this user can access. The destructor removes it
/// with all of its contents.
class TemporaryDirectory {
public:
  /// Creates a directory whose name begins with `prefix`.
  static llvm::Expected<TemporaryDirectory> create(llvm::StringRef prefix);

  TemporaryDirectory(TemporaryDirectory &&other)
      : path(std::exchange(other.path, "")) {}
  TemporaryDirectory &operator=(TemporaryDirectory &&) = delete;
  ~TemporaryDirectory();

  /// The path of a file in the directory, which need not exist.
  std::string getFile(llvm::StringRef name) const;

private:
  explicit TemporaryDirectory(std::string path) : path(std::move(path)) {}

  std::string path;
};

} // namespace fuse

#endif // FUSE_SUPPORT_TEMPORARYDIRECTORY_H
