//===- ManifestTest.cpp - Tests of reading manifests ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GetFailure.h"
#include "TestArtifact.h"
#include "fuse/Runtime/CPU/CpuCode.h"
#include "fuse/Runtime/Core/Instance.h"
#include "gtest/gtest.h"

using namespace fuse;
using namespace fuse::runtime;
using namespace fuse::test;
using nlohmann::json;

/// The error message for an expression, or its value for s0 = 7.
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
  EXPECT_EQ(function.device->plans[0].launches[1].cluster[0], 2u);
}

/// The carveout of the first launch for `value` in the plan, or the error
/// message.
static std::string readCarveout(const json &value) {
  json manifest = json::parse(kManifest);
  manifest["functions"][0]["cuda"]["launches"][0]["carveout"] = value;
  try {
    Artifact artifact(makeArtifact(manifest.dump()));
    const Function &function = artifact.manifest.functions[0];
    return std::to_string(
        function.device->plans[0].launches[0].carveout.value());
  } catch (const Failure &failure) {
    return failure.getMessage();
  }
}

TEST(ManifestTest, ReadsACarveoutWhereThereIsOne) {
  EXPECT_EQ(readCarveout(0), "0");
  EXPECT_EQ(readCarveout(100), "100");
  std::string refusal = "the manifest is malformed: it.functions0.cuda."
                        "launches0 has no 'carveout' from 0 to 100";
  EXPECT_EQ(readCarveout(101), refusal);
  EXPECT_EQ(readCarveout(-1), refusal);
  EXPECT_EQ(readCarveout("100"), refusal);
  Artifact earlier(makeArtifact(kManifest));
  EXPECT_FALSE(
      earlier.manifest.functions[0].device->plans[0].launches[0].carveout);
}

/// The error message for a manifest with one value replaced.
static std::string change(const char *pointer, const json &value) {
  json manifest = json::parse(kManifest);
  manifest[json::json_pointer(pointer)] = value;
  std::string why =
      getFailure([&] { Artifact artifact(makeArtifact(manifest.dump())); });
  std::string where = "the manifest is malformed: it.functions0";
  return why.rfind(where, 0) == 0 ? why.substr(where.size()) : why;
}

TEST(ManifestTest, SaysWhichValueIsWrong) {
  EXPECT_EQ(change("/functions/0/name", "g"), "");
  EXPECT_EQ(change("/functions/0/name", 3), " has no text 'name'");
  EXPECT_EQ(change("/functions/0/arguments", 3), " has no list 'arguments'");
  EXPECT_EQ(change("/functions/0/arguments/0", 3),
            ".arguments0 is not an object");
  EXPECT_EQ(change("/functions/0/arguments/0/shape", std::vector<int>(17, 1)),
            ".arguments0 has 17 dimensions, more than 16");
  EXPECT_EQ(change("/functions/0/results/0/sizes", json::array({1})),
            ".results0 has different numbers of sizes and dimensions");
  EXPECT_EQ(change("/functions/0/symbols/0/places", json::array()),
            ".symbols0 has no place");
  EXPECT_EQ(change("/functions/0/cuda/modules/0/cubin", 1),
            ".cuda.modules0 has no section of the right kind at 'cubin'");
  std::string launch = ".cuda.launches0";
  EXPECT_EQ(change("/functions/0/cuda/launches/0/cooperative", 1),
            launch + " has no truth value 'cooperative'");
  EXPECT_EQ(change("/functions/0/cuda/launches/0/grid", json::array({1})),
            launch + " has no three sizes 'grid'");
  EXPECT_EQ(change("/functions/0/cuda/launches/0/block", json::array({1})),
            launch + " has no three sizes 'block'");
  EXPECT_EQ(
      change("/functions/0/cuda/launches/0/block", json::array({0, 1, 1})),
      launch + " has 'block' out of 1 to 1024");
  EXPECT_EQ(change("/functions/0/cuda/launches/0/args/4/type", "i32"),
            launch + ".args4 is not an integer");
  EXPECT_EQ(change("/functions/0/cuda/launches/0/args/4/type", "i4"),
            launch + ".args4 has a value of unknown type 'i4'");
  EXPECT_EQ(change("/functions/0/cuda/launches/0/args/4/value", "a"),
            launch + ".args4 has no number 'value'");
  EXPECT_EQ(change("/functions/0/cuda/launches/0/args/3/bytes", 2),
            launch + ".args3 is a size of neither 4 nor 8 bytes");
  EXPECT_EQ(
      change("/functions/0/cuda/launches/0/args/3", {{"map",
                                                      {{"rows", 1},
                                                       {"columns", 1},
                                                       {"box_rows", 1},
                                                       {"box_columns", 1},
                                                       {"swizzle", 0},
                                                       {"element", "i8"}}}}),
      launch + ".args3 is a tensor map of nothing");
  EXPECT_EQ(change("/functions/0/arguments/0/type", "i4"),
            ".arguments0 has elements of unknown type 'i4'");
  EXPECT_EQ(change("/functions/0/arguments/0/shape/0", -2),
            ".arguments0 has a size that is none");
  EXPECT_EQ(change("/functions/0/symbols/0/places/0", json::array({0, 2})),
            ".symbols0 names a size that does not exist");
  EXPECT_EQ(change("/functions/0/cuda/packed/0/operands/0", 3),
            ".cuda.packed0 packs an argument that does not exist");
  EXPECT_EQ(change("/functions/0/cuda/workspace", json::array()),
            ".cuda zeroes a workspace that it does not have");
  EXPECT_EQ(change("/functions/0/cuda/launches/0/module", 1),
            launch + " has 'module' = 1, there are 1");
  EXPECT_EQ(change("/functions/0/cuda/modules/0", json::object()),
            ".cuda.modules0 has neither 'ptx' nor 'cubin'");
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

/// A function with only a plan for the CPU.
static constexpr const char *kCpuManifest = R"json({
  "producer": "a test",
  "host": {"arch": "x86_64", "level": "x86-64"},
  "functions": [{
    "name": "f",
    "arguments": [
      {"type": "f32", "shape": [-1, 8]},
      {"type": "f32", "shape": [8, 8], "parameter": "weight"}],
    "results": [{"type": "f32", "shape": [-1, 8], "sizes": ["s0", 8]}],
    "symbols": [{"places": [[0, 0]]}],
    "cpu": {"code": 1, "scheduled": {
      "input": 0, "workspace": [32],
      "packed": [{"recipe": "panels", "operands": [1], "columns": 4,
                  "tiles": 2, "steps": 8, "bytes": 256}],
      "phases": [
        {"symbol": "a", "panels": 1, "tokens": 4,
         "args": [{"tensor": 0}, {"workspace": 0}]},
        {"symbol": "b", "panels": 2, "tokens": 128,
         "args": [{"workspace": 0}, {"packed": 0}, {"tensor": 2}]}]}}}]
})json";

static std::string makeCpuArtifact(const std::string &manifest) {
  return writeContainer({{FUSE_SECTION_MANIFEST, manifest},
                         {FUSE_SECTION_HOST_LIBRARY, "\x7f"
                                                     "ELF..."}});
}

TEST(ManifestTest, ReadsAPlanForTheCpu) {
  Artifact artifact(makeCpuArtifact(kCpuManifest));
  const CpuCode &code = *artifact.manifest.functions[0].cpu;
  EXPECT_EQ(code.symbol, "");
  ASSERT_TRUE(code.plan);
  EXPECT_EQ(code.plan->packed[0].columns, 4u);
  EXPECT_EQ(code.plan->phases[1].symbol, "b");
  EXPECT_EQ(code.plan->phases[1].arguments[2].index, 2u);
}

/// The error message for a manifest with one text replaced.
static std::string breakCpuManifest(const std::string &from,
                                    const std::string &to) {
  std::string text = kCpuManifest;
  text.replace(text.find(from), from.size(), to);
  try {
    Artifact artifact(makeCpuArtifact(text));
    return "";
  } catch (const Failure &failure) {
    return failure.getMessage();
  }
}

TEST(ManifestTest, RefusesPlansThatDoNotFit) {
  std::string where = "the manifest is malformed: it.functions0.cpu.scheduled";
  EXPECT_EQ(breakCpuManifest(R"("input": 0)", R"("input": 2)"),
            where + " has no rows in its input");
  EXPECT_EQ(breakCpuManifest(R"("workspace": [32])", R"("workspace": [-1])"),
            where + " has a workspace buffer of no size");
  EXPECT_EQ(breakCpuManifest(R"("panels": 1)", R"("panels": 0)"),
            where + ".phases0 has tasks of nothing");
  EXPECT_EQ(breakCpuManifest(R"("panels": 1)", R"("panels": 1, "multiple": 0)"),
            where + ".phases0 has tasks of no size");
  EXPECT_NE(
      breakCpuManifest(R"("panels": 1)", R"("panels": 1, "multiple": 999)"),
      "");
  EXPECT_EQ(breakCpuManifest(R"({"tensor": 2})", R"({"tensor": 3})"),
            where + ".phases1.args2 has 'tensor' = 3, there are 3");
  EXPECT_EQ(breakCpuManifest(R"({"packed": 0})", R"({"packed": 1})"),
            where + ".phases1.args1 has 'packed' = 1, there are 1");
  EXPECT_EQ(breakCpuManifest(R"({"tensor": 2})", R"({})"),
            where +
                ".phases1.args2 is not a tensor, packed weight or workspace "
                "buffer");
  std::string many = R"({"tensor": 0})";
  for (int i = 0; i < 30; ++i)
    many += R"(, {"tensor": 0})";
  EXPECT_EQ(breakCpuManifest(R"({"tensor": 0})", many),
            where + ".phases0 has 32 arguments, more than 30");
  const std::string host = R"("host": {"arch": "x86_64", "level": "x86-64"},)";
  EXPECT_EQ(breakCpuManifest(host, ""),
            "the manifest is malformed: it has code for a host that it does "
            "not name");
  EXPECT_EQ(breakCpuManifest(R"("level": "x86-64")",
                             R"("level": "native", "cpuid": [4294967296])"),
            "the manifest is malformed: it.host has a word of 'cpuid' that is "
            "not a 32-bit number");
}

/// Tries `replacements` everywhere. Returns the numbers of refused and accepted
/// manifests.
static std::pair<int, int>
tryEverywhere(const char *manifest,
              const std::function<std::string(const std::string &)> &make) {
  json root = json::parse(manifest);
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
      Artifact artifact(make(text));
      ++taken;
    } catch (const Failure &failure) {
      EXPECT_EQ(failure.getStatus(), FUSE_ERROR_FORMAT) << text;
      ++refused;
    }
  });
  return {refused, taken};
}

// An invalid manifest is an error; a valid one can be used.
TEST(ManifestTest, SurvivesAnyValueAnywhere) {
  auto [refused, taken] = tryEverywhere(kManifest, makeArtifact);
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 50);
  std::tie(refused, taken) = tryEverywhere(kCpuManifest, makeCpuArtifact);
  EXPECT_GT(refused, 500);
  EXPECT_GT(taken, 50);
}

/// The error message for a manifest with a constant in a section of 16 bytes,
/// which the argument `argument` of the last launch names.
static std::string readConstant(const json &constant, const json &argument) {
  json manifest = json::parse(kManifest);
  json &cuda = manifest["functions"][0]["cuda"];
  cuda["constants"] = json::array({constant});
  cuda["launches"][1]["args"].push_back(argument);
  try {
    Artifact artifact(
        writeContainer({{FUSE_SECTION_MANIFEST, manifest.dump()},
                        {FUSE_SECTION_PTX, ".version 8.0\n"},
                        {FUSE_SECTION_CUBIN, "ELF"},
                        {FUSE_SECTION_CONSTANTS, std::string(16, 'c')}}));
    EXPECT_EQ(getFormatVersion(artifact.bytes), 6u);
    const DeviceCode &code = *artifact.manifest.functions[0].device;
    EXPECT_EQ(code.constants[0].section, 3u);
    EXPECT_EQ(code.plans[0].launches[1].arguments.back().kind,
              KernelArgument::Kind::Constant);
    return "";
  } catch (const Failure &failure) {
    return failure.getMessage();
  }
}

TEST(ManifestTest, ReadsConstants) {
  json first = {{"constant", 0}};
  auto make = [](int section, int offset, int bytes) -> json {
    return {{"section", section}, {"offset", offset}, {"bytes", bytes}};
  };
  EXPECT_EQ(readConstant(make(3, 8, 8), first), "");
  const std::string where = "the manifest is malformed: it.functions0.cuda.";
  EXPECT_EQ(readConstant(make(3, 8, 16), first),
            where + "constants0 ends at byte 24 of a section of 16");
  EXPECT_EQ(readConstant(make(3, 4, 8), first),
            where +
                "constants0 begins at byte 4, which is not a multiple of 8");
  EXPECT_EQ(readConstant(make(1, 0, 8), first),
            where + "constants0 has no section of the right kind at 'section'");
  EXPECT_EQ(readConstant(make(3, 0, 8), {{"constant", 1}}),
            where + "launches1.args5 has 'constant' = 1, there are 1");
}

/// The error message for static scales of a function, whose last number is an
/// argument of a launch.
static std::string readScales(const json &scales, const json &scalars,
                              size_t argument) {
  json manifest = json::parse(kManifest);
  json &cuda = manifest["functions"][0]["cuda"];
  cuda["scales"] = scales;
  cuda["scalars"] = scalars;
  cuda["launches"][1]["args"].push_back({{"scalar", argument}});
  try {
    Artifact artifact(makeArtifact(manifest.dump()));
    const DeviceCode &code = *artifact.manifest.functions[0].device;
    EXPECT_EQ(code.plans[0].launches[1].arguments.back().kind,
              KernelArgument::Kind::Scalar);
    return "";
  } catch (const Failure &failure) {
    return failure.getMessage();
  }
}

TEST(ManifestTest, ReadsScales) {
  json product = {{"of", {0, 1}}}, reciprocal = {{"over", 1}};
  EXPECT_EQ(readScales({0.5, 0.25}, {product, reciprocal}, 1), "");
  const std::string where = "the manifest is malformed: it.functions0.cuda";
  EXPECT_EQ(readScales({0.5, 0.0}, json::array({product}), 0),
            where + " has a scale that is not a positive number");
  EXPECT_EQ(readScales({0.5, "0.5"}, json::array({product}), 0),
            where + " has a scale that is not a positive number");
  EXPECT_EQ(readScales({0.5}, json::array({product}), 0),
            where + ".scalars0 names a scale that does not exist");
  EXPECT_EQ(readScales({0.5}, json::array({reciprocal}), 0),
            where + ".scalars0 names a scale that does not exist");
  EXPECT_EQ(readScales({0.5}, json::array({{{"of", json::array()}}}), 0),
            where + ".scalars0 is the product of no scales");
  EXPECT_EQ(readScales({0.5, 0.25}, json::array({product}), 1),
            where + ".launches1.args5 has 'scalar' = 1, there are 1");
}

TEST(ManifestTest, RoundsNumbersOfScalesAsTheCompilerDoes) {
  ScaleTable table;
  table.scales = {0.3f, 0.7f, 3.0f};
  table.scalars = {
      {{0, 1}, false}, {{2}, true}, {{1}, false}, {{0, 1, 2}, false}};
  float product = 0.3f * 0.7f;
  EXPECT_EQ(table.evaluate(table.scales),
            (std::vector<float>{product, 1.0f / 3.0f, 0.7f, product * 3.0f}));
  EXPECT_EQ(table.evaluate({2.0f, 4.0f, 8.0f}),
            (std::vector<float>{8.0f, 0.125f, 4.0f, 64.0f}));
}

/// The error message for an input of `size` rows and a check of the size.
static std::string check(const json &check, int64_t size) {
  json manifest = json::parse(kManifest);
  manifest["functions"][0]["checks"] = json::array({check});
  try {
    Artifact artifact(makeArtifact(manifest.dump()));
    int64_t shape[] = {size, 64}, symbol = 0;
    TensorView view;
    view.shape = shape;
    evaluateSymbols(artifact.manifest.functions[0], {view}, &symbol);
    return "";
  } catch (const Failure &failure) {
    return failure.getMessage();
  }
}

TEST(ManifestTest, ComparesSizes) {
  auto make = [](const char *predicate) -> json {
    return {{"predicate", predicate},
            {"lhs", "s0"},
            {"rhs", 8},
            {"message", "too many"}};
  };
  const std::string refused =
      "the sizes of the arguments do not fit f: too many";
  EXPECT_EQ(check(make("eq"), 8), "");
  EXPECT_EQ(check(make("eq"), 7), refused);
  EXPECT_EQ(check(make("ne"), 7), "");
  EXPECT_EQ(check(make("ne"), 8), refused);
  EXPECT_EQ(check(make("lt"), 7), "");
  EXPECT_EQ(check(make("lt"), 8), refused);
  EXPECT_EQ(check(make("le"), 8), "");
  EXPECT_EQ(check(make("le"), 9), refused);
  EXPECT_EQ(check(make("gt"), 9),
            "the manifest is malformed: it.functions0.checks0 has the unknown "
            "predicate 'gt', expected one of eq, ne, lt, le");
}

TEST(CpuCodeTest, RefusesOtherMachines) {
  CpuTarget here = getThisCpu();
  EXPECT_NO_THROW(checkCpu(here));
  CpuTarget other = here;
  other.arch = "vax";
  EXPECT_THROW(checkCpu(other), Failure);
  other = here;
  other.level = "x86-64-v9";
  EXPECT_THROW(checkCpu(other), Failure);
  // Unsupported instructions, and a list of the wrong type.
  other = here;
  other.cpuid.push_back(0);
  EXPECT_THROW(checkCpu(other), Failure);
  for (size_t i = 0; i < here.cpuid.size(); ++i) {
    if (here.cpuid[i] == UINT32_MAX)
      continue;
    other = here;
    other.cpuid[i] = UINT32_MAX;
    EXPECT_THROW(checkCpu(other), Failure);
  }
  for (const std::string &level : getCpuLevels(/*ofThisMachine=*/true))
    EXPECT_NO_THROW(checkCpu({here.arch, level, {}}));
}

TEST(CpuCodeTest, NamesWhatCodeLacks) {
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
