//===- TemporaryDirectory.cpp - Directory for temporary files -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Support/TemporaryDirectory.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cerrno>
#include <stdlib.h>

using namespace fuse;

llvm::Expected<TemporaryDirectory>
TemporaryDirectory::create(llvm::StringRef prefix) {
  llvm::SmallString<128> parent;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, parent);
  llvm::SmallString<128> path(parent);
  llvm::sys::path::append(path, prefix + "-XXXXXX");
  std::string name(path);
  // Not LLVM's function, which gives access to the group.
  if (!::mkdtemp(name.data())) {
    std::error_code code(errno, std::generic_category());
    return llvm::createStringError(code, "no temporary directory in '" +
                                             parent + "': " + code.message());
  }
  return TemporaryDirectory(std::move(name));
}

TemporaryDirectory::~TemporaryDirectory() {
  if (!path.empty())
    llvm::sys::fs::remove_directories(path);
}

std::string TemporaryDirectory::getFile(llvm::StringRef name) const {
  llvm::SmallString<128> file(path);
  llvm::sys::path::append(file, name);
  return std::string(file);
}
