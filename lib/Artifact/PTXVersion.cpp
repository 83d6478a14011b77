//===- PTXVersion.cpp - Versions of PTX -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Artifact/DeviceCode.h"
#include "fuse/Schedule/Chip.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;

Expected<int64_t> fuse::getPTXVersion(StringRef ptx) {
  StringRef rest = ptx.split(".version ").second;
  auto [major, minor] =
      rest.take_until([](char c) { return isspace(c); }).split('.');
  unsigned majorNumber, minorNumber;
  if (major.getAsInteger(10, majorNumber) ||
      minor.getAsInteger(10, minorNumber))
    return createStringError("PTX without a version");
  return 10 * majorNumber + minorNumber;
}

// Instructions of PTX 7.0, which every driver for sm_80 supports.
static constexpr StringLiteral kOld[] = {
    "abs",   "add",      "addc",   "and",   "atom",  "bar",      "barrier",
    "bfe",   "bfi",      "bfind",  "bra",   "brev",  "call",     "clz",
    "cnot",  "copysign", "cos",    "cp",    "cvt",   "cvta",     "discard",
    "div",   "ex2",      "exit",   "fence", "fma",   "fns",      "isspacep",
    "ld",    "ldmatrix", "lg2",    "lop3",  "mad",   "mad24",    "match",
    "max",   "mbarrier", "membar", "min",   "mma",   "mov",      "mul",
    "mul24", "neg",      "not",    "or",    "popc",  "prefetch", "prmt",
    "rcp",   "red",      "rem",    "ret",   "rsqrt", "sad",      "selp",
    "set",   "setp",     "shf",    "shfl",  "shl",   "shr",      "sin",
    "slct",  "sqrt",     "st",     "sub",   "subc",  "tanh",     "testp",
    "trap",  "vote",     "xor"};

namespace {
/// A word in an instruction, and ten times the PTX version that introduced it.
struct Feature {
  StringLiteral word;
  int64_t version;
};
} // namespace

// Words in the qualifiers of an instruction.
static constexpr Feature kQualifiers[] = {{".e4m3", 81},
                                          {".e5m2", 81},
                                          {".e2m1", 86},
                                          {".e3m2", 86},
                                          {".e2m3", 86},
                                          {".ue8m0", 86},
                                          {".bulk", 80},
                                          {".cluster", 78},
                                          {"::cluster", 78},
                                          {".multimem", 81},
                                          {".b128", 83},
                                          {".L2::evict", 74},
                                          {".L2::cache", 74},
                                          {".level::", 74},
                                          {".async", 80},
                                          {"mbarrier.try", 78},
                                          {"mbarrier.expect", 80},
                                          {"expect_tx", 80},
                                          {".bf16", 78},
                                          {".block_scale", 87},
                                          {".kind::", 87},
                                          {".row.col.f32.e4m3", 84},
                                          {".v8", 88},
                                          {".acc::", 86},
                                          {".relu", 70},
                                          {".mxf", 87},
                                          {".proxy", 80},
                                          {".noftz", 78}};

// Instructions with a name that a later version introduced.
static constexpr Feature kNew[] = {
    {"wgmma", 80},          {"setmaxnreg", 80},   {"elect", 80},
    {"griddepcontrol", 78}, {"mapa", 78},         {"getctarank", 78},
    {"stmatrix", 78},       {"createpolicy", 74}, {"nanosleep", 63},
    {"activemask", 62},     {"redux", 70},        {"dp4a", 50},
    {"dp2a", 50},           {"applypriority", 74}};

/// Ten times the PTX version that a chip requires; 0 if the chip is unknown.
static int64_t getChipVersion(StringRef name) {
  for (const Chip &chip : getChips())
    if (chip.name == name)
      // Conversions of 8-bit floats are recognized by their types.
      return name == "sm_89" ? 78 : chip.ptxVersion;
  return 0;
}

int64_t fuse::getMinimalPTXVersion(StringRef ptx, int64_t version) {
  int64_t lowest = 0;
  SmallVector<StringRef> statements;
  // Drop comments, which may have any content. Blocks and labels end statements
  // too.
  std::string plain;
  for (StringRef rest = ptx; !rest.empty();) {
    StringRef line;
    std::tie(line, rest) = rest.split('\n');
    plain += line.split("//").first;
    plain += '\n';
  }
  if (StringRef(plain).contains("/*"))
    return version;
  StringRef text = plain;
  while (!text.empty()) {
    size_t end = text.find_first_of(";{}:\n");
    // A double colon is part of an instruction.
    while (end != StringRef::npos && text.substr(end).starts_with("::"))
      end = text.find_first_of(";{}:\n", end + 2);
    statements.push_back(text.take_front(end).trim());
    text = end == StringRef::npos ? "" : text.drop_front(end + 1);
  }
  for (StringRef statement : statements) {
    if (statement.starts_with(".target ")) {
      StringRef chip = statement.drop_front(8).split(',').first.trim();
      int64_t needed = getChipVersion(chip);
      if (needed == 0)
        return version;
      lowest = std::max(lowest, needed);
      continue;
    }
    // Skip guards such as `@!%p1`.
    if (statement.starts_with("@"))
      statement =
          statement.drop_until([](char c) { return isspace(c); }).trim();
    if (!statement.empty() && !llvm::isAlpha(statement.front()))
      continue;
    StringRef name = statement.take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (name.empty())
      continue;
    const auto *newer = llvm::find_if(
        kNew, [&](const Feature &feature) { return feature.word == name; });
    if (newer != std::end(kNew))
      lowest = std::max(lowest, newer->version);
    // Skip labels, and operands on separate lines.
    else if (!llvm::is_contained(kOld, name)) {
      if (statement.size() == name.size())
        continue;
      return version;
    }
    StringRef instruction =
        statement.take_until([](char c) { return isspace(c); });
    for (const Feature &feature : kQualifiers)
      if (instruction.contains(feature.word))
        lowest = std::max(lowest, feature.version);
  }
  return lowest == 0 ? version : std::min(lowest, version);
}
