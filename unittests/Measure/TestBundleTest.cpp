//===- TestBundleTest.cpp - Damaged test bundles --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Measure/TestBundle.h"
#include "../Runtime/GetFailure.h"
#include "../Runtime/TemporaryDirectory.h"
#include "../Runtime/TestArtifact.h"
#include "gtest/gtest.h"

using namespace fuse;
using namespace fuse::runtime;
using namespace fuse::test;
using namespace fuse::measure;
using nlohmann::json;

namespace {

class TestBundleTest : public testing::Test {
protected:
  /// Writes a file with a description and a pool of six bytes.
  void write(const std::string &description) {
    writeFileAtomically(path,
                        writeContainer({{kDescriptionSection, description},
                                        {kPoolSection, "abcdef"}}));
  }
  TestBundle open() { return TestBundle(path, "a-format", 3); }

  /// The error message for a description, without the name of the file.
  std::string check(const std::string &description) {
    write(description);
    std::string why = getFailure([&] { open(); });
    return why.rfind(path + ": ", 0) == 0 ? why.substr(path.size() + 2) : why;
  }

  TemporaryDirectory directory;
  std::string path = directory.get() / "a.bundle";
};

} // namespace

TEST_F(TestBundleTest, ChecksFormatAndVersion) {
  EXPECT_EQ(check(R"({"format": "a-format", "version": 3})"), "");
  EXPECT_EQ(check(R"({"format": "other", "version": 3})"),
            "the description is not of format 'a-format'");
  EXPECT_EQ(check("[]"), "the description is not of format 'a-format'");
  EXPECT_EQ(check(R"({"format": "a-format", "version": 4})"),
            "the description has version 4, expected 3");
  writeFileAtomically(path, makeArtifact(kManifest));
  EXPECT_EQ(getFailure([&] { open(); }),
            path + ": this is an artifact, not a test bundle");
}

TEST_F(TestBundleTest, ReadsArguments) {
  write(R"({"format": "a-format", "version": 3})");
  TestBundle file = open();
  json good = {{"element", "i8"},
               {"shape", {2, 3}},
               {"pool", 1},
               {"seed", 5},
               {"bound", false}};
  Argument argument = file.readArgument(good);
  EXPECT_EQ(argument.getCount(), 6u);
  auto change = [&](const char *key, const json &value) {
    json bad = good;
    bad[key] = value;
    return getFailure([&] { file.readArgument(bad); });
  };
  EXPECT_EQ(change("shape", {2, 0}), "");
  EXPECT_EQ(change("element", "i4"), "there are no tensors of 'i4'");
  EXPECT_EQ(change("element", "f32"),
            "the description has a pool with a part of an element");
  std::string large = "the description has a tensor that is too large";
  EXPECT_EQ(change("shape", {-1}), large);
  EXPECT_EQ(change("shape", {1 << 20, 1 << 20}), large);
  EXPECT_EQ(change("pool", 0),
            "the description names section 0, which is not of kind 66");
  EXPECT_EQ(change("pool", 2),
            "the description names section 2, which is not of kind 66");
  EXPECT_EQ(change("seed", "a")
                .rfind("the description has an argument that "
                       "cannot be read: ",
                       0),
            0u);
}
