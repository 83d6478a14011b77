//===- TemporaryDirectory.h - Files of one test -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_UNITTESTS_RUNTIME_TEMPORARYDIRECTORY_H
#define FUSE_UNITTESTS_RUNTIME_TEMPORARYDIRECTORY_H

#include "gtest/gtest.h"

#include <filesystem>
#include <string>

#include <unistd.h>

namespace fuse::test {

/// A directory for the current test. It is empty at first and removed at the
/// end.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    const testing::TestInfo &test =
        *testing::UnitTest::GetInstance()->current_test_info();
    path = std::filesystem::temp_directory_path() /
           (std::string(test.test_suite_name()) + "." + test.name() + "." +
            std::to_string(::getpid()));
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
  }
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }

  const std::filesystem::path &get() const { return path; }
  std::filesystem::path operator/(const std::string &name) const {
    return path / name;
  }

private:
  std::filesystem::path path;
};

} // namespace fuse::test

#endif // FUSE_UNITTESTS_RUNTIME_TEMPORARYDIRECTORY_H
