//===- ManifestTest.cpp - Tests of reading manifests ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestArtifact.h"
#include "fuse/Runtime/Host/Failure.h"
#include "fuse/Runtime/Host/HostCode.h"
#include "fuse/Runtime/Host/Instance.h"
#include "gtest/gtest.h"

using namespace fuse;
using namespace fuse::host;
using namespace fuse::test;
using nlohmann::json;

/// What is wrong with an expression, or its value for s0 = 7.
static std::string evaluate(const char *text) {
  int64_t symbols[] = {7};
  try {
    return std::to_string(
        Expression::parse(json::parse(text), 1).evaluate(symbols));
  } catch (const Failure &failure) {
    return failure.getMessage();
  }
}

TEST(ExpressionTest, Evaluates) {
  EXPECT_EQ(evaluate("3"), "3");
  EXPECT_EQ(evaluate(R"("s0")"), "7");
  EXPECT_EQ(evaluate(R"(["add", "s0", ["mul", 2, "s0"]])"), "21");
  EXPECT_EQ(evaluate(R"(["floordiv", "s0", 2])"), "3");
  EXPECT_EQ(evaluate(R"(["ceildiv", "s0", 2])"), "4");
  EXPECT_EQ(evaluate(R"(["mod", -1, 4])"), "3");
  EXPECT_EQ(evaluate(R"(["floordiv", -1, 4])"), "-1");
}

TEST(ExpressionTest, RefusesWhatHasNoValue) {
  EXPECT_EQ(evaluate(R"(["mod", "s0", 0])"), "a size is divided by 0");
  EXPECT_EQ(evaluate(R"(["mul", "s0", 9223372036854775807])"),
            "a size does not fit into 64 bits");
  EXPECT_EQ(evaluate(R"("s1")"),
            "the manifest is malformed: 's1' is none of 1 symbols");
  for (const char *bad :
       {R"("")", R"("s")", R"("s-1")", R"("s99999999999")", R"(["sub", 1, 2])",
        R"(["add", 1])", "1.5", "null", "{}", "[]"})
    EXPECT_NE(evaluate(bad).find("malformed"), std::string::npos) << bad;
  std::string deep;
  for (int i = 0; i < 100; ++i)
    deep += R"(["add", 1, )";
  deep += "1" + std::string(100, ']');
  EXPECT_NE(evaluate(deep.c_str()).find("nested more than 64 deep"),
            std::string::npos);
}

TEST(ManifestTest, ReadsAFunction) {
  Artifact artifact(makeArtifact(kManifest));
  ASSERT_EQ(artifact.manifest.functions.size(), 1u);
  const Function &function = artifact.manifest.functions[0];
  EXPECT_EQ(function.label, "f#0");
  EXPECT_EQ(toString(function.arguments[0]), "?x64xbf16");
  EXPECT_EQ(function.arguments[1].parameter, "up");
  EXPECT_EQ(function.maxTokens, 64);
  EXPECT_EQ(function.device->launches[1].cluster[0], 2u);
}

TEST(ManifestTest, RefusesDeepAndBrokenText) {
  for (const std::string &text :
       {std::string("{"), std::string("[]"), std::string(100000, '['),
        std::string("{\"producer\": \"\xff\"}"), std::string()})
    EXPECT_THROW(Artifact(makeArtifact(text)), Failure);
}

/// Replaces every value of `root` in turn and calls `test` with the text.
static void replaceEach(json &root, json &value,
                        const std::vector<json> &replacements,
                        const std::function<void(const std::string &)> &test) {
  json before = value;
  for (const json &replacement : replacements) {
    value = replacement;
    test(root.dump());
  }
  value = before;
  if (value.is_object() || value.is_array())
    for (json &child : value)
      replaceEach(root, child, replacements, test);
}

// A wrong manifest is an error; one that is not wrong can be used.
TEST(ManifestTest, SurvivesAnyValueAnywhere) {
  json root = json::parse(kManifest);
  std::vector<json> replacements = {nullptr,
                                    true,
                                    -1,
                                    0,
                                    1,
                                    1000000007,
                                    UINT64_MAX,
                                    INT64_MIN,
                                    1e300,
                                    "",
                                    "s0",
                                    json::array(),
                                    json::object(),
                                    json::array({0, 0, 0}),
                                    std::string(1000, 'x')};
  int refused = 0, taken = 0;
  replaceEach(root, root, replacements, [&](const std::string &text) {
    try {
      Artifact artifact(makeArtifact(text));
      ++taken;
    } catch (const Failure &failure) {
      EXPECT_EQ(failure.getStatus(), FUSE_ERROR_FORMAT) << text;
      ++refused;
    }
  });
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 50);
}

TEST(HostCodeTest, RefusesOtherMachines) {
  HostTarget here = getThisHost();
  EXPECT_NO_THROW(checkHost(here));
  HostTarget other = here;
  other.arch = "vax";
  EXPECT_THROW(checkHost(other), Failure);
  other = here;
  other.level = "x86-64-v9";
  EXPECT_THROW(checkHost(other), Failure);
  // Instructions that this machine does not have, and a list of another kind.
  other = here;
  other.cpuid.push_back(0);
  EXPECT_THROW(checkHost(other), Failure);
  for (size_t i = 0; i < here.cpuid.size(); ++i) {
    if (here.cpuid[i] == UINT32_MAX)
      continue;
    other = here;
    other.cpuid[i] = UINT32_MAX;
    EXPECT_THROW(checkHost(other), Failure);
  }
  for (const std::string &level : getHostLevels(/*ofThisMachine=*/true))
    EXPECT_NO_THROW(checkHost({here.arch, level, {}}));
}

TEST(HostCodeTest, NamesWhatCodeLacks) {
  EXPECT_THROW(LoadedCode::load({FUSE_SECTION_HOST_LIBRARY, "no ELF file"}),
               Failure);
  EXPECT_THROW(LoadedCode::load({FUSE_SECTION_HOST_LIBRARY, ""}), Failure);
  try {
    LoadedCode::load({FUSE_SECTION_HOST_OBJECT, ""});
    FAIL();
  } catch (const Failure &failure) {
    EXPECT_EQ(failure.getStatus(), FUSE_ERROR_UNSUPPORTED);
  }
}
