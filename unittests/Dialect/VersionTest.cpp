//===- VersionTest.cpp - Versions of text and of bytecode -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseDialect.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Support/IRVersion.h"
#include "mlir/Bytecode/BytecodeImplementation.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fuse;

namespace {

/// Three versions: an op and an attribute were renamed, the attribute twice.
constexpr IRRename kRenames[] = {
    {2, "fuse.add", "fuse.residual_add"},
    {2, "#fuse.table", "#fuse.scale_table"},
    {3, "#fuse.scale_table", "#fuse.scales"},
};
const IRVersions kVersions = {1, 3, kRenames};

/// The upgraded text, "same" if there is nothing to do, or the error.
std::string upgrade(llvm::StringRef text) {
  auto upgraded = upgradeText(text, kVersions);
  if (!upgraded)
    return llvm::toString(upgraded.takeError());
  return upgraded->value_or("same");
}

TEST(VersionTest, OldNamesBecomeNewOnes) {
  EXPECT_EQ(upgrade("module attributes {fuse.version = 1 : i32} {\n"
                    "  %0 = fuse.add %x, %y {a = #fuse.table<x>} // fuse.add\n"
                    "}\n"),
            "module attributes {fuse.version = 3 : i32} {\n"
            "  %0 = fuse.residual_add %x, %y {a = #fuse.scales<x>} // fuse.add"
            "\n}\n");
}

TEST(VersionTest, LaterRenamesAlone) {
  EXPECT_EQ(upgrade("fuse.version=2 fuse.add #fuse.table #fuse.scale_table"),
            "fuse.version=3 fuse.add #fuse.table #fuse.scales");
}

TEST(VersionTest, GenericNamesAreStrings) {
  EXPECT_EQ(upgrade("\"fuse.add\"(%x) {n = \"fuse.add\"}\n"
                    "{fuse.version = 1 : i32}"),
            "\"fuse.residual_add\"(%x) {n = \"fuse.add\"}\n"
            "{fuse.version = 3 : i32}");
}

TEST(VersionTest, NamesOfAttributesStay) {
  EXPECT_EQ(upgrade("{fuse.version = 1} {fuse.add = 1, a, fuse.add, fuse.add}"
                    " [#fuse.table, #fuse.table]"),
            "{fuse.version = 3} {fuse.add = 1, a, fuse.add, fuse.add}"
            " [#fuse.scales, #fuse.scales]");
}

TEST(VersionTest, WordsAreWhole) {
  EXPECT_EQ(upgrade("fuse.version = 1 @fuse.add %fuse.add fuse.add_more "
                    "my.fuse.add fuse.add.x 'fuse.add'"),
            "fuse.version = 3 @fuse.add %fuse.add fuse.add_more "
            "my.fuse.add fuse.add.x 'fuse.residual_add'");
}

TEST(VersionTest, NothingToDo) {
  EXPECT_EQ(upgrade("module { fuse.add }"), "same");
  EXPECT_EQ(upgrade("module {fuse.version = 3 : i32} fuse.add"), "same");
  EXPECT_EQ(upgrade("// fuse.version = 1"), "same");
  EXPECT_EQ(upgrade("\"fuse.version = 1"), "same");
  EXPECT_EQ(upgrade("\"\\\"fuse.version = 1\""), "same");
  EXPECT_EQ(upgrade("@fuse.version = 1"), "same");
  EXPECT_EQ(upgrade("fuse.version"), "same");
  EXPECT_EQ(upgrade("fuse.version = \"1\""), "same");
}

TEST(VersionTest, OtherVersionsAreRefused) {
  EXPECT_EQ(upgrade("fuse.version = 4 : i32"),
            "the IR has version 4, this build reads versions 1 to 3");
  EXPECT_EQ(upgrade("fuse.version = 1 fuse.version = 0"),
            "the IR has version 0, this build reads versions 1 to 3");
}

class BytecodeVersionTest : public testing::Test {
protected:
  BytecodeVersionTest()
      : handler(&context, [this](Diagnostic &diagnostic) {
          errors += diagnostic.str() + "\n";
        }) {
    context.loadDialect<FuseDialect>();
  }

  /// Writes an op with a version of the dialect, and reads it.
  OwningOpRef<ModuleOp> roundTrip(unsigned version) {
    auto module = parseSourceString<ModuleOp>(
        "%x = builtin.unrealized_conversion_cast to tensor<?x8xf32>\n"
        "%y = fuse.activation silu %x : tensor<?x8xf32> -> tensor<?x8xf32>",
        &context);
    EXPECT_TRUE(module);
    BytecodeWriterConfig config;
    config.setDialectVersion<FuseDialect>(makeDialectVersion(version));
    std::string bytes;
    llvm::raw_string_ostream os(bytes);
    EXPECT_TRUE(succeeded(writeBytecodeToFile(*module, os, config)));
    return parseSourceString<ModuleOp>(bytes, &context);
  }

  MLIRContext context;
  std::string errors;
  ScopedDiagnosticHandler handler;
};

TEST_F(BytecodeVersionTest, Current) {
  OwningOpRef<ModuleOp> read = roundTrip(getIRVersions().current);
  ASSERT_TRUE(read) << errors;
  EXPECT_TRUE(isa<ActivationOp>(read->getBody()->back()));
}

TEST_F(BytecodeVersionTest, OthersAreRefused) {
  EXPECT_FALSE(roundTrip(getIRVersions().current + 1));
  EXPECT_NE(errors.find("dialect 'fuse': the IR has version " +
                        std::to_string(getIRVersions().current + 1)),
            std::string::npos)
      << errors;
  errors.clear();
  EXPECT_FALSE(roundTrip(getIRVersions().current - 1));
  EXPECT_NE(errors.find("dialect 'fuse': the IR has version " +
                        std::to_string(getIRVersions().current - 1)),
            std::string::npos)
      << errors;
}

} // namespace
