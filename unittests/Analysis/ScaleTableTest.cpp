//===- ScaleTableTest.cpp - Parsing of scale tables -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/ScaleTable.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace fuse;

namespace {

class ScaleTableTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(
        llvm::sys::fs::createTemporaryFile("scale-table", "json", path));
  }
  void TearDown() override { llvm::sys::fs::remove(path); }

  llvm::Expected<ScaleTable> read(llvm::StringRef text,
                                  bool needsInput = true) {
    std::error_code error;
    llvm::raw_fd_ostream(path, error) << text;
    EXPECT_FALSE(error);
    return readScaleTable(path, needsInput);
  }

  /// The error message for a table, without the name of the file.
  std::string getError(llvm::StringRef text) {
    llvm::Expected<ScaleTable> table = read(text);
    if (table)
      return "";
    std::string error = llvm::toString(table.takeError());
    EXPECT_EQ(error.find("scale table '" + path.str().str() + "': "), 0u);
    return error.substr(error.find("': ") + 3);
  }

  llvm::SmallString<128> path;
};

TEST_F(ScaleTableTest, Entries) {
  llvm::Expected<ScaleTable> table = read(
      R"({"up": {"input_scale": 0.5, "weight_scale": 0.25, "storage": "i8"},
          "down": {"input_scale": 2, "weight_scale": "per_channel"}})");
  ASSERT_TRUE(bool(table)) << llvm::toString(table.takeError());
  ASSERT_EQ(table->size(), 2u);
  LinearScales up = table->at("up"), down = table->at("down");
  EXPECT_EQ(up.input, 0.5);
  EXPECT_EQ(up.weight, 0.25);
  EXPECT_EQ(up.storage, "i8");
  EXPECT_EQ(down.input, 2.0);
  EXPECT_EQ(down.weight, std::nullopt);
  EXPECT_EQ(down.storage, std::nullopt);
}

TEST_F(ScaleTableTest, InputScaleIsOptionalIfUnused) {
  constexpr llvm::StringLiteral text = R"({"up": {"weight_scale": 0.25}})";
  EXPECT_EQ(getError(text), "'up' has no 'input_scale'");
  llvm::Expected<ScaleTable> table = read(text, /*needsInput=*/false);
  ASSERT_TRUE(bool(table)) << llvm::toString(table.takeError());
  EXPECT_EQ(table->at("up").input, std::nullopt);
}

TEST_F(ScaleTableTest, InvalidText) {
  EXPECT_EQ(getError(R"({"up": })").substr(0, 3), "[1:");
  EXPECT_EQ(getError("[1]"), "expected an object with one entry per linear");
  EXPECT_EQ(getError(std::string(100000, '[')),
            "brackets are nested more than 256 deep in line 1");
}

TEST_F(ScaleTableTest, InvalidEntries) {
  EXPECT_EQ(getError(R"({"up": 1})"), "'up' is not an object");
  EXPECT_EQ(getError(R"({"up": {"scale": 1}})"),
            "unknown entry 'scale' of 'up'; expected one of input_scale, "
            "weight_scale, storage");
  EXPECT_EQ(getError(R"({"up": {"storage": 8}})"),
            "'storage' of 'up' is not a string");
}

TEST_F(ScaleTableTest, InvalidScales) {
  EXPECT_EQ(getError(R"({"up": {"input_scale": 1}})"),
            "'up' has no 'weight_scale'");
  EXPECT_EQ(getError(R"({"up": {"input_scale": "large"}})"),
            "'input_scale' of 'up' is not a number");
  EXPECT_EQ(getError(R"({"up": {"input_scale": -1}})"),
            "'input_scale' of 'up' is negative, got -1");
  EXPECT_EQ(getError(R"({"up": {"input_scale": 1, "weight_scale": 0}})"),
            "'weight_scale' of 'up' is zero in f32, got 0");
}

} // namespace
