//===- Manifest.cpp - Manifest of an artifact -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Manifest.h"
#include "fuse-c/Runtime.h"
#include "fuse/Runtime/Core/Failure.h"
#include "nlohmann/json.hpp"

#include <cstring>

using namespace fuse::runtime;
using nlohmann::json;

/// Maximum nesting of JSON and maximum rank of a tensor.
static constexpr int kMaxDepth = 64;
static constexpr size_t kMaxRank = 16;

[[noreturn]] static void malformed(const std::string &why) {
  throw Failure(FUSE_ERROR_FORMAT, "the manifest is malformed: " + why);
}

namespace {

/// Reads one JSON object and reports what is wrong with it.
class Reader {
public:
  Reader(const json &value, const std::vector<Section> &sections, bool mayDefer,
         std::string where)
      : value(value), sections(sections), mayDefer(mayDefer),
        where(std::move(where)) {
    if (!value.is_object())
      fail("is not an object");
  }

  [[noreturn]] void fail(const std::string &why) const {
    malformed(where + " " + why);
  }
  bool has(const char *key) const { return value.contains(key); }
  const json &get(const char *key) const {
    auto it = value.find(key);
    if (it == value.end())
      fail("has no '" + std::string(key) + "'");
    return *it;
  }
  const std::string &getString(const char *key) const {
    const json &entry = get(key);
    if (!entry.is_string())
      fail("has no text '" + std::string(key) + "'");
    return entry.get_ref<const std::string &>();
  }
  uint64_t getUnsigned(const char *key, uint64_t most = uint64_t(1)
                                                        << 48) const {
    const json &entry = get(key);
    if (!entry.is_number_unsigned() || entry.get<uint64_t>() > most)
      fail("has no '" + std::string(key) + "' from 0 to " +
           std::to_string(most));
    return entry.get<uint64_t>();
  }
  uint64_t getUnsigned(const char *key, uint64_t otherwise,
                       uint64_t most) const {
    return has(key) ? getUnsigned(key, most) : otherwise;
  }
  bool getBool(const char *key) const {
    if (!has(key))
      return false;
    if (!get(key).is_boolean())
      fail("has no truth value '" + std::string(key) + "'");
    return get(key).get<bool>();
  }
  const json &getArray(const char *key) const {
    const json &entry = get(key);
    if (!entry.is_array())
      fail("has no list '" + std::string(key) + "'");
    return entry;
  }
  size_t getSection(const char *key, uint32_t kind,
                    uint32_t otherKind = 0) const {
    uint64_t index = getUnsigned(key);
    if (index >= sections.size() ||
        (sections[index].kind != kind && sections[index].kind != otherKind))
      fail("has no section of the right kind at '" + std::string(key) + "'");
    return index;
  }
  uint64_t getSectionSize(size_t index) const {
    return sections[index].data.size();
  }
  Reader at(const json &entry, const std::string &name) const {
    return Reader(entry, sections, mayDefer, where + "." + name);
  }
  template <typename Read>
  auto readList(const char *key, Read read) const {
    std::vector<decltype(read(*this))> list;
    const json &array = getArray(key);
    for (size_t i = 0; i < array.size(); ++i)
      list.push_back(read(at(array[i], key + std::to_string(i))));
    return list;
  }
  const std::string &getWhere() const { return where; }
  /// Whether there may be modules that are not in the file.
  bool getMayDefer() const { return mayDefer; }

private:
  const json &value;
  const std::vector<Section> &sections;
  bool mayDefer;
  std::string where;
};

} // namespace

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static constexpr std::pair<std::string_view, DLDataType> kDataTypes[] = {
    {"f64", {kDLFloat, 64, 1}},
    {"f32", {kDLFloat, 32, 1}},
    {"f16", {kDLFloat, 16, 1}},
    {"bf16", {kDLBfloat, 16, 1}},
    {"f8E4M3FN", {kDLFloat8_e4m3fn, 8, 1}},
    {"f8E5M2", {kDLFloat8_e5m2, 8, 1}},
    {"i64", {kDLInt, 64, 1}},
    {"i32", {kDLInt, 32, 1}},
    {"i8", {kDLInt, 8, 1}},
};

std::optional<DLDataType> fuse::runtime::getDataType(std::string_view element) {
  for (auto [name, type] : kDataTypes)
    if (name == element)
      return type;
  return std::nullopt;
}

std::string fuse::runtime::toString(const TensorSpec &spec) {
  std::string text;
  for (int64_t size : spec.shape)
    text += (size < 0 ? "?" : std::to_string(size)) + "x";
  return text + spec.element;
}

static TensorSpec readTensor(const Reader &reader) {
  TensorSpec spec;
  spec.element = reader.getString("type");
  std::optional<DLDataType> type = getDataType(spec.element);
  if (!type)
    reader.fail("has elements of unknown type '" + spec.element + "'");
  spec.dtype = *type;
  const json &shape = reader.getArray("shape");
  if (shape.size() > kMaxRank)
    reader.fail("has " + std::to_string(shape.size()) +
                " dimensions, more than " + std::to_string(kMaxRank));
  int64_t bytes = 8;
  for (const json &size : shape) {
    if (!size.is_number_integer() || size.get<int64_t>() < -1)
      reader.fail("has a size that is none");
    spec.shape.push_back(size.get<int64_t>());
    if (spec.shape.back() > 0 &&
        (__builtin_mul_overflow(bytes, spec.shape.back(), &bytes) ||
         bytes > int64_t(1) << 56))
      reader.fail("is too large");
  }
  if (reader.has("parameter"))
    spec.parameter = reader.getString("parameter");
  return spec;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// Reads a pair of argument and dimension. The argument may be a result if the
/// caller allows it.
static Symbol::Place readPlace(const Reader &reader, const json &entry,
                               const Function &function, bool orResult) {
  auto fail = [&] { reader.fail("names a size that does not exist"); };
  if (!entry.is_array() || entry.size() != 2 ||
      !entry[0].is_number_unsigned() || !entry[1].is_number_unsigned())
    fail();
  Symbol::Place place{entry[0].get<size_t>(), entry[1].get<size_t>()};
  size_t numArguments = function.arguments.size();
  size_t limit = numArguments + (orResult ? function.results.size() : 0);
  if (place.argument >= limit)
    fail();
  const TensorSpec &spec =
      place.argument < numArguments
          ? function.arguments[place.argument]
          : function.results[place.argument - numArguments];
  if (place.dim >= spec.shape.size())
    fail();
  return place;
}

static Symbol readSymbol(const Reader &reader, const Function &function) {
  Symbol symbol;
  for (const json &entry : reader.getArray("places"))
    symbol.places.push_back(readPlace(reader, entry, function, false));
  if (symbol.places.empty())
    reader.fail("has no place");
  if (reader.has("size"))
    symbol.size = static_cast<int64_t>(reader.getUnsigned("size"));
  return symbol;
}

static std::vector<std::optional<Expression>>
readResultSizes(const Reader &reader, const TensorSpec &spec,
                size_t numSymbols) {
  const json &sizes = reader.getArray("sizes");
  if (sizes.size() != spec.shape.size())
    reader.fail("has different numbers of sizes and dimensions");
  std::vector<std::optional<Expression>> result;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (spec.shape[dim] >= 0)
      result.push_back(Expression::constant(spec.shape[dim]));
    else if (sizes[dim].is_null())
      result.push_back(std::nullopt);
    else
      result.push_back(Expression::parse(sizes[dim], numSymbols));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Static scales
//===----------------------------------------------------------------------===//

std::vector<float>
ScaleTable::evaluate(const std::vector<float> &scales) const {
  std::vector<float> values;
  for (const Scalar &scalar : scalars) {
    float value = scales[scalar.factors[0]];
    for (size_t i = 1; i < scalar.factors.size(); ++i)
      value *= scales[scalar.factors[i]];
    values.push_back(scalar.isReciprocal ? 1.0f / value : value);
  }
  return values;
}

static ScaleTable readScales(const Reader &reader) {
  ScaleTable table;
  if (!reader.has("scalars"))
    return table;
  for (const json &scale : reader.getArray("scales")) {
    if (!scale.is_number() || !(scale.get<float>() > 0))
      reader.fail("has a scale that is not a positive number");
    table.scales.push_back(scale.get<float>());
  }
  auto readFactor = [&](const Reader &scalar, const json &index) {
    if (!index.is_number_unsigned() ||
        index.get<uint64_t>() >= table.scales.size())
      scalar.fail("names a scale that does not exist");
    return index.get<size_t>();
  };
  table.scalars = reader.readList("scalars", [&](const Reader &scalar) {
    ScaleTable::Scalar read;
    read.isReciprocal = scalar.has("over");
    if (read.isReciprocal)
      read.factors.push_back(readFactor(scalar, scalar.get("over")));
    else
      for (const json &index : scalar.getArray("of"))
        read.factors.push_back(readFactor(scalar, index));
    if (read.factors.empty())
      scalar.fail("is the product of no scales");
    return read;
  });
  return table;
}

//===----------------------------------------------------------------------===//
// Code for a device
//===----------------------------------------------------------------------===//

/// Reads the bits of a constant argument of a kernel.
static void readValue(const Reader &reader, KernelArgument &argument) {
  const std::string &type = reader.getString("type");
  const json &value = reader.get("value");
  if (!value.is_number())
    reader.fail("has no number 'value'");
  if (type == "f32") {
    float number = value.get<float>();
    argument.bytes = 4;
    std::memcpy(&argument.bits, &number, 4);
  } else if (type == "f64") {
    double number = value.get<double>();
    argument.bytes = 8;
    std::memcpy(&argument.bits, &number, 8);
  } else if (type == "i32" || type == "i64" || type == "index" ||
             type == "i8" || type == "i1") {
    if (!value.is_number_integer())
      reader.fail("is not an integer");
    int64_t number = value.get<int64_t>();
    argument.bytes = type == "i32" ? 4 : type == "i8" || type == "i1" ? 1 : 8;
    // Little-endian: the first bytes are the low ones.
    std::memcpy(&argument.bits, &number, 8);
  } else {
    reader.fail("has a value of unknown type '" + type + "'");
  }
}

static KernelArgument readKernelArgument(const Reader &reader,
                                         const Function &function,
                                         const LaunchPlan &plan,
                                         DeviceCode &code) {
  using Kind = KernelArgument::Kind;
  KernelArgument argument;
  size_t numTensors = function.arguments.size() + function.results.size();
  auto readIndex = [&](const char *key, size_t count) {
    argument.index = reader.getUnsigned(key);
    if (argument.index >= count)
      reader.fail("has '" + std::string(key) +
                  "' = " + std::to_string(argument.index) + ", there are " +
                  std::to_string(count));
  };
  bool isMap = reader.has("map");
  if (isMap) {
    Reader map = reader.at(reader.get("map"), "map");
    argument.kind = Kind::TensorMap;
    argument.map = code.numMaps++;
    argument.rows = map.getUnsigned("rows");
    argument.columns = map.getUnsigned("columns");
    argument.boxRows = map.getUnsigned("box_rows", 256);
    argument.boxColumns = map.getUnsigned("box_columns", 256);
    argument.swizzle = map.getUnsigned("swizzle", 128);
    argument.element = map.getString("element");
    argument.inWorkspace = reader.has("workspace");
  }
  if (reader.has("workspace")) {
    if (!isMap)
      argument.kind = Kind::Workspace;
    readIndex("workspace", plan.workspace.size());
    argument.offset = reader.getUnsigned("offset", 0, uint64_t(1) << 48);
  } else if (reader.has("tensor")) {
    if (!isMap)
      argument.kind = Kind::Tensor;
    readIndex("tensor", numTensors);
  } else if (isMap) {
    reader.fail("is a tensor map of nothing");
  } else if (reader.has("packed")) {
    argument.kind = Kind::Packed;
    readIndex("packed", code.packed.size());
  } else if (reader.has("scalar")) {
    argument.kind = Kind::Scalar;
    readIndex("scalar", code.scales.scalars.size());
  } else if (reader.has("constant")) {
    argument.kind = Kind::Constant;
    readIndex("constant", code.constants.size());
  } else if (reader.has("size")) {
    argument.kind = Kind::Size;
    argument.size = Expression::parse(reader.get("size"), code.symbols.size());
    argument.bytes = reader.getUnsigned("bytes", 8, 8);
    if (argument.bytes != 4 && argument.bytes != 8)
      reader.fail("is a size of neither 4 nor 8 bytes");
  } else {
    argument.kind = Kind::Value;
    readValue(reader, argument);
  }
  return argument;
}

static std::array<unsigned, 3> readExtent(const Reader &reader,
                                          const char *key) {
  const json &entry = reader.getArray(key);
  std::array<unsigned, 3> extent;
  if (entry.size() != 3)
    reader.fail("has no three sizes '" + std::string(key) + "'");
  for (size_t i = 0; i < 3; ++i) {
    if (!entry[i].is_number_unsigned() || entry[i].get<uint64_t>() == 0 ||
        entry[i].get<uint64_t>() > 1024)
      reader.fail("has '" + std::string(key) + "' out of 1 to 1024");
    extent[i] = entry[i].get<unsigned>();
  }
  return extent;
}

static Launch readLaunch(const Reader &reader, const Function &function,
                         const LaunchPlan &plan, DeviceCode &code) {
  Launch launch;
  launch.kernel = reader.getString("kernel");
  if (reader.has("module"))
    launch.module = reader.getUnsigned("module");
  if (launch.module >= code.modules.size())
    reader.fail("has 'module' = " + std::to_string(launch.module) +
                ", there are " + std::to_string(code.modules.size()));
  const json &grid = reader.getArray("grid");
  if (grid.size() != 3)
    reader.fail("has no three sizes 'grid'");
  for (size_t i = 0; i < 3; ++i)
    launch.grid[i] = Expression::parse(grid[i], code.symbols.size());
  launch.block = readExtent(reader, "block");
  if (reader.has("cluster"))
    launch.cluster = readExtent(reader, "cluster");
  launch.sharedBytes = reader.getUnsigned("shared_bytes", 0, 1 << 20);
  if (reader.has("carveout"))
    launch.carveout = reader.getUnsigned("carveout", 100);
  launch.cooperative = reader.getBool("cooperative");
  launch.dependent = reader.getBool("dependent");
  launch.arguments = reader.readList("args", [&](const Reader &argument) {
    return readKernelArgument(argument, function, plan, code);
  });
  return launch;
}

static PackedWeight readPacked(const Reader &reader, const Function &function) {
  PackedWeight packed;
  packed.recipe = reader.getString("recipe");
  packed.tiles = reader.getUnsigned("tiles", 1 << 24);
  packed.steps = reader.getUnsigned("steps", 1 << 24);
  packed.bytes = reader.getUnsigned("bytes");
  packed.columns = reader.getUnsigned("columns", 0, 1 << 16);
  for (const json &operand : reader.getArray("operands")) {
    if (!operand.is_number_unsigned() ||
        operand.get<uint64_t>() >= function.arguments.size())
      reader.fail("packs an argument that does not exist");
    packed.operands.push_back(operand.get<size_t>());
  }
  return packed;
}

static Constant readConstant(const Reader &reader) {
  Constant constant;
  constant.section = reader.getSection("section", FUSE_SECTION_CONSTANTS);
  constant.offset = reader.getUnsigned("offset");
  constant.bytes = reader.getUnsigned("bytes");
  // Both numbers have at most 49 bits, so the sum does not overflow.
  uint64_t size = reader.getSectionSize(constant.section);
  if (constant.offset + constant.bytes > size)
    reader.fail("ends at byte " +
                std::to_string(constant.offset + constant.bytes) +
                " of a section of " + std::to_string(size));
  // Elements have up to 8 bytes, and kernels read whole elements.
  if (constant.offset % 8 != 0)
    reader.fail("begins at byte " + std::to_string(constant.offset) +
                ", which is not a multiple of 8");
  return constant;
}

static KernelModule readModule(const Reader &reader) {
  KernelModule module;
  if (reader.has("ptx")) {
    module.ptx = reader.getSection("ptx", FUSE_SECTION_PTX);
    module.ptxVersion = reader.getUnsigned("ptx_version", 1000);
    module.ptxMinimum =
        reader.getUnsigned("ptx_minimum", module.ptxVersion, module.ptxVersion);
  }
  if (reader.has("cubin"))
    module.cubin = reader.getSection("cubin", FUSE_SECTION_CUBIN);
  if (reader.getMayDefer() && reader.has("deferred")) {
    module.deferred = reader.getUnsigned("deferred");
    module.ptxVersion = module.ptxMinimum =
        reader.getUnsigned("ptx_version", 1000);
  }
  if (!module.ptx && !module.cubin && !module.deferred)
    reader.fail("has neither 'ptx' nor 'cubin'");
  if (reader.has("source"))
    module.source = reader.getString("source");
  return module;
}

static LaunchPlan readLaunchPlan(const Reader &reader, const Function &function,
                                 DeviceCode &code) {
  LaunchPlan plan;
  for (const json &entry : reader.getArray("workspace"))
    plan.workspace.push_back(Expression::parse(entry, code.symbols.size()));
  if (code.zeroedBytes > 0 && plan.workspace.empty())
    reader.fail("zeroes a workspace that it does not have");
  plan.launches = reader.readList("launches", [&](const Reader &launch) {
    return readLaunch(launch, function, plan, code);
  });
  return plan;
}

/// Reads plans for ranges of the number of tokens, up to `maxTokens`.
static void readAlternatives(const Reader &reader, const Function &function,
                             int64_t maxTokens, DeviceCode &code) {
  if (reader.getArray("tokens").empty())
    reader.fail("has alternatives by a number of tokens that it does not name");
  auto getZeroed = [](const LaunchPlan &plan) {
    bool isKnown = !plan.workspace.empty() && plan.workspace[0].isConstant();
    return isKnown ? plan.workspace[0].evaluate(nullptr) : 0;
  };
  code.plans = reader.readList("alternatives", [&](const Reader &alternative) {
    LaunchPlan plan = readLaunchPlan(alternative, function, code);
    plan.upTo = alternative.getUnsigned("upto", 1 << 30);
    return plan;
  });
  if (code.plans.empty())
    reader.fail("has no alternative in 'alternatives'");
  int64_t before = 0;
  for (const LaunchPlan &plan : code.plans) {
    if (plan.upTo <= before)
      reader.fail("has an alternative for up to " + std::to_string(plan.upTo) +
                  " tokens after one for up to " + std::to_string(before));
    before = plan.upTo;
    // Semaphores count across launches, so they must not move.
    if (code.zeroedBytes > 0 &&
        (getZeroed(plan) != getZeroed(code.plans[0]) ||
         getZeroed(plan) < static_cast<int64_t>(code.zeroedBytes)))
      reader.fail("has an alternative for up to " + std::to_string(plan.upTo) +
                  " tokens with another buffer of zeros");
  }
  if (before != maxTokens)
    reader.fail("has alternatives for up to " + std::to_string(before) +
                " tokens, and 'max_tokens' = " + std::to_string(maxTokens));
}

static DeviceCode readDeviceCode(const Reader &reader,
                                 const Function &function) {
  DeviceCode code;
  code.chip = reader.getString("chip");
  code.modules = reader.readList("modules", readModule);
  for (const json &entry : reader.getArray("symbols"))
    code.symbols.push_back(readPlace(reader, entry, function, true));
  code.zeroedBytes = reader.getUnsigned("zeroed_bytes", 0, uint64_t(1) << 40);
  if (reader.has("packed"))
    code.packed = reader.readList("packed", [&](const Reader &packed) {
      return readPacked(packed, function);
    });
  if (reader.has("constants"))
    code.constants = reader.readList("constants", readConstant);
  code.scales = readScales(reader);
  if (reader.has("alternatives"))
    readAlternatives(reader, function, function.maxTokens, code);
  else
    code.plans.push_back(readLaunchPlan(reader, function, code));
  return code;
}

//===----------------------------------------------------------------------===//
// Code for the CPU
//===----------------------------------------------------------------------===//

static CpuPhase readCpuPhase(const Reader &reader, const Function &function,
                             const CpuPlan &plan) {
  using Kind = CpuPhase::Argument::Kind;
  CpuPhase phase;
  phase.symbol = reader.getString("symbol");
  phase.panels = reader.getUnsigned("panels", uint64_t(1) << 32);
  phase.tokens = reader.getUnsigned("tokens", uint64_t(1) << 32);
  if (phase.panels == 0 || phase.tokens == 0)
    reader.fail("has tasks of nothing");
  if (reader.has("multiple")) {
    phase.multiple = reader.getUnsigned("multiple", phase.tokens);
    if (phase.multiple == 0 || phase.tokens >= uint64_t(1) << 16)
      reader.fail("has tasks of no size");
  }
  phase.arguments = reader.readList("args", [&](const Reader &argument) {
    std::pair<const char *, size_t> kinds[] = {
        {"tensor", function.arguments.size() + function.results.size()},
        {"packed", plan.packed.size()},
        {"workspace", plan.workspace.size()}};
    for (size_t kind = 0; kind < std::size(kinds); ++kind) {
      auto [key, count] = kinds[kind];
      if (!argument.has(key))
        continue;
      uint64_t index = argument.getUnsigned(key);
      if (index >= count)
        argument.fail("has '" + std::string(key) +
                      "' = " + std::to_string(index) + ", there are " +
                      std::to_string(count));
      return CpuPhase::Argument{static_cast<Kind>(kind), index};
    }
    argument.fail("is not a tensor, packed weight or workspace buffer");
  });
  if (phase.arguments.size() > kMaxPhaseArguments)
    reader.fail("has " + std::to_string(phase.arguments.size()) +
                " arguments, more than " + std::to_string(kMaxPhaseArguments));
  return phase;
}

static CpuPlan readCpuPlan(const Reader &reader, const Function &function) {
  CpuPlan plan;
  plan.input = reader.getUnsigned("input");
  if (plan.input >= function.arguments.size() ||
      function.arguments[plan.input].shape.empty())
    reader.fail("has no rows in its input");
  plan.packed = reader.readList("packed", [&](const Reader &packed) {
    return readPacked(packed, function);
  });
  for (const json &bytes : reader.getArray("workspace")) {
    if (!bytes.is_number_unsigned() || bytes.get<uint64_t>() > 1 << 30)
      reader.fail("has a workspace buffer of no size");
    plan.workspace.push_back(bytes.get<uint64_t>());
  }
  plan.phases = reader.readList("phases", [&](const Reader &phase) {
    return readCpuPhase(phase, function, plan);
  });
  return plan;
}

static CpuCode readCpuCode(const Reader &reader, const Function &function) {
  CpuCode code;
  code.section = reader.getSection("code", FUSE_SECTION_HOST_LIBRARY,
                                   FUSE_SECTION_HOST_OBJECT);
  if (reader.has("scheduled"))
    code.plan =
        readCpuPlan(reader.at(reader.get("scheduled"), "scheduled"), function);
  if (!code.plan || reader.has("symbol"))
    code.symbol = reader.getString("symbol");
  code.scales = readScales(reader);
  return code;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static Check readCheck(const Reader &reader, size_t numSymbols) {
  using Predicate = Check::Predicate;
  static constexpr std::pair<std::string_view, Predicate> predicates[] = {
      {"eq", Predicate::Equal},
      {"ne", Predicate::NotEqual},
      {"lt", Predicate::Less},
      {"le", Predicate::LessOrEqual}};
  const std::string &text = reader.getString("predicate");
  for (auto [name, predicate] : predicates)
    if (text == name)
      return {predicate, Expression::parse(reader.get("lhs"), numSymbols),
              Expression::parse(reader.get("rhs"), numSymbols),
              reader.getString("message")};
  reader.fail("has the unknown predicate '" + text +
              "', expected one of eq, ne, lt, le");
}

bool Check::holds(const int64_t *symbols) const {
  int64_t left = lhs.evaluate(symbols), right = rhs.evaluate(symbols);
  switch (predicate) {
  case Predicate::Equal:
    return left == right;
  case Predicate::NotEqual:
    return left != right;
  case Predicate::Less:
    return left < right;
  case Predicate::LessOrEqual:
    return left <= right;
  }
  return false;
}

static Function readFunction(const Reader &reader) {
  Function function;
  function.name = reader.getString("name");
  if (reader.has("sites"))
    for (const std::string &site :
         reader.readList("sites", [](const Reader &site) {
           return site.has("site") ? site.getString("site") : std::string();
         }))
      if (!site.empty())
        function.label += (function.label.empty() ? "" : " ") + site;
  if (function.label.empty())
    function.label = function.name;
  function.arguments = reader.readList("arguments", readTensor);
  function.results = reader.readList("results", readTensor);
  function.symbols = reader.readList("symbols", [&](const Reader &symbol) {
    return readSymbol(symbol, function);
  });
  if (reader.has("checks"))
    function.checks = reader.readList("checks", [&](const Reader &check) {
      return readCheck(check, function.symbols.size());
    });
  const json &results = reader.getArray("results");
  for (size_t i = 0; i < results.size(); ++i)
    function.resultSizes.push_back(
        readResultSizes(reader.at(results[i], "results" + std::to_string(i)),
                        function.results[i], function.symbols.size()));
  if (reader.has("cpu")) {
    function.cpu = readCpuCode(reader.at(reader.get("cpu"), "cpu"), function);
  }
  if (reader.has("cuda")) {
    Reader cuda = reader.at(reader.get("cuda"), "cuda");
    function.maxTokens =
        static_cast<int64_t>(cuda.getUnsigned("max_tokens", 0, 1 << 30));
    function.device = readDeviceCode(cuda, function);
    if (cuda.has("tokens"))
      for (const json &number : cuda.getArray("tokens"))
        function.tokens.push_back(
            Expression::parse(number, function.device->symbols.size()));
  }
  return function;
}

json fuse::runtime::parseJSON(std::string_view text) {
  auto limitDepth = [](int depth, json::parse_event_t, json &) {
    if (depth > kMaxDepth)
      malformed("it is nested more than " + std::to_string(kMaxDepth) +
                " deep");
    return true;
  };
  try {
    return json::parse(text, limitDepth);
  } catch (const json::exception &error) {
    malformed(error.what());
  }
}

Manifest fuse::runtime::readManifest(const std::vector<Section> &sections,
                                     bool hasSource) {
  if (sections.empty() || sections[0].kind != FUSE_SECTION_MANIFEST)
    throw Failure(FUSE_ERROR_FORMAT, "the artifact has no manifest");
  json value = parseJSON(sections[0].data);
  Reader reader(value, sections, hasSource, "it");
  Manifest manifest;
  manifest.producer = reader.getString("producer");
  if (reader.has("host")) {
    Reader host = reader.at(reader.get("host"), "host");
    CpuTarget target{host.getString("arch"), host.getString("level"), {}};
    if (host.has("cpuid"))
      for (const json &word : host.getArray("cpuid")) {
        if (!word.is_number_unsigned() || word.get<uint64_t>() > UINT32_MAX)
          host.fail("has a word of 'cpuid' that is not a 32-bit number");
        target.cpuid.push_back(word.get<uint32_t>());
      }
    manifest.cpuTarget = std::move(target);
  }
  manifest.functions = reader.readList("functions", readFunction);
  for (const Function &function : manifest.functions)
    if (function.cpu && !manifest.cpuTarget)
      malformed("it has code for a host that it does not name");
  return manifest;
}
