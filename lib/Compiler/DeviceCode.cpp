//===- DeviceCode.cpp - Code for GPUs in an artefact ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Compiler/DeviceCode.h"
#include "fuse/Analysis/Chip.h"
#include "fuse/Compiler/Phase.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Target/PTX.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/PassManager.h"
#include "tile/IR/TileOps.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;
namespace json = llvm::json;

/// Ten times the version in the text of PTX.
static Expected<int64_t> getPTXVersion(StringRef ptx) {
  StringRef rest = ptx.split(".version ").second;
  auto [major, minor] =
      rest.take_until([](char c) { return c == '\n'; }).trim().split('.');
  unsigned majorNumber, minorNumber;
  if (major.getAsInteger(10, majorNumber) ||
      minor.getAsInteger(10, minorNumber))
    return createStringError("PTX without a version");
  return 10 * majorNumber + minorNumber;
}

static llvm::Error run(PassManager &pm, ModuleOp module, StringRef what) {
  if (failed(pm.run(module)))
    return createStringError("the " + what + " failed");
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The scheduled path
//===----------------------------------------------------------------------===//

/// The ops of a function if they are the launches of one fused op on the
/// function's own arguments, whose results are returned as they are; nothing
/// otherwise. All launches of an op see one workspace.
static SmallVector<tile::LaunchOp> getLaunches(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return {};
  SmallVector<tile::LaunchOp> launches;
  for (Operation &op : function.front().without_terminator()) {
    auto launch = dyn_cast<tile::LaunchOp>(op);
    if (!launch || !launch.getPlan())
      return {};
    auto shares = launch.getPlanAttr().getAs<BoolAttr>("shares_workspace");
    if (launches.empty() == (shares && shares.getValue()))
      return {};
    for (Value input : launch.getInputs())
      if (!isa<BlockArgument>(input))
        return {};
    launches.push_back(launch);
  }
  Operation *returnOp = function.front().getTerminator();
  if (launches.empty() ||
      returnOp->getOperands() != launches.back().getResults())
    return {};
  return launches;
}

namespace {

/// Writes the plans of tile kernels in the form of the manifest.
class TilePlanWriter {
public:
  explicit TilePlanWriter(ArrayRef<tile::LaunchOp> launches)
      : launches(launches) {}

  Expected<json::Object> write();

private:
  int64_t getInt(DictionaryAttr entry, StringRef name) {
    if (auto value = entry.getAs<IntegerAttr>(name))
      return value.getValue().getSExtValue();
    problem = ("the plan of a kernel has no number '" + name + "'").str();
    return 0;
  }
  /// The argument of the function that is an operand of the launch.
  int64_t getArgument(int64_t operand) {
    if (operand >= 0 && operand < int64_t(launch.getInputs().size()))
      return cast<BlockArgument>(launch.getInputs()[operand]).getArgNumber();
    problem = "the plan of a kernel names an operand that does not exist";
    return 0;
  }
  json::Object writeArgument(DictionaryAttr entry);
  json::Object writeMap(DictionaryAttr entry);
  json::Object writePacked(DictionaryAttr entry);
  json::Object writeLaunch();

  ArrayRef<tile::LaunchOp> launches;
  /// The launch that is being written, and its plan.
  tile::LaunchOp launch;
  DictionaryAttr plan;
  json::Array packed;
  std::string problem;
};

} // namespace

json::Object TilePlanWriter::writeMap(DictionaryAttr entry) {
  json::Object map;
  for (StringRef key :
       {"rows", "columns", "box_rows", "box_columns", "swizzle"})
    map[key] = getInt(entry, key);
  std::string element;
  if (auto type = entry.getAs<TypeAttr>("element"))
    llvm::raw_string_ostream(element) << type.getValue();
  map["element"] = element;
  json::Object argument{{"map", std::move(map)}};
  if (entry.contains("operand")) {
    argument["tensor"] = getArgument(getInt(entry, "operand"));
  } else {
    argument["workspace"] = 0;
    argument["offset"] = getInt(entry, "offset");
  }
  return argument;
}

json::Object TilePlanWriter::writePacked(DictionaryAttr entry) {
  json::Array operands;
  if (auto list = entry.getAs<ArrayAttr>("operands"))
    for (auto index : list.getAsRange<IntegerAttr>())
      operands.push_back(getArgument(index.getInt()));
  auto recipe = entry.getAs<StringAttr>("recipe");
  packed.push_back(json::Object{{"recipe", recipe ? recipe.getValue() : ""},
                                {"operands", std::move(operands)},
                                {"tiles", getInt(entry, "tiles")},
                                {"steps", getInt(entry, "steps")},
                                {"bytes", getInt(entry, "bytes")}});
  return json::Object{{"packed", int64_t(packed.size()) - 1}};
}

json::Object TilePlanWriter::writeArgument(DictionaryAttr entry) {
  auto kindAttr = entry.getAs<StringAttr>("kind");
  StringRef kind = kindAttr ? kindAttr.getValue() : "";
  if (kind == "operand")
    return json::Object{{"tensor", getArgument(getInt(entry, "index"))}};
  if (kind == "result") {
    int64_t arguments =
        launch->getParentOfType<func::FuncOp>().getNumArguments();
    return json::Object{{"tensor", arguments + getInt(entry, "index")}};
  }
  if (kind == "packed")
    return writePacked(entry);
  if (kind == "workspace")
    return json::Object{{"workspace", 0}, {"offset", getInt(entry, "offset")}};
  if (kind == "tensor_map")
    return writeMap(entry);
  if (kind == "tokens")
    return json::Object{{"size", "s0"}, {"bytes", 4}};
  if (kind == "i32")
    return json::Object{{"value", getInt(entry, "value")}, {"type", "i32"}};
  if (kind == "scalar" || kind == "f32") {
    if (auto value = entry.getAs<FloatAttr>("value"))
      return json::Object{{"value", value.getValueAsDouble()}, {"type", "f32"}};
  }
  problem =
      ("the plan of a kernel has an argument of unknown kind '" + kind + "'")
          .str();
  return {};
}

json::Object TilePlanWriter::writeLaunch() {
  json::Array arguments;
  if (auto list = plan.getAs<ArrayAttr>("arguments"))
    for (auto entry : list.getAsRange<DictionaryAttr>())
      arguments.push_back(writeArgument(entry));
  auto cooperative = plan.getAs<BoolAttr>("cooperative");
  auto dependent = plan.getAs<BoolAttr>("dependent");
  return json::Object{
      {"kernel", launch.getKernel().getLeafReference().getValue()},
      {"grid", json::Array{getInt(plan, "blocks"), 1, 1}},
      {"block", json::Array{getInt(plan, "threads"), 1, 1}},
      {"shared_bytes", getInt(plan, "shared_bytes")},
      {"cooperative", !cooperative || cooperative.getValue()},
      {"dependent", dependent && dependent.getValue()},
      {"args", std::move(arguments)}};
}

Expected<json::Object> TilePlanWriter::write() {
  json::Array entries;
  for (tile::LaunchOp current : launches) {
    launch = current;
    plan = launch.getPlanAttr();
    entries.push_back(writeLaunch());
  }
  // What they have in common is in each plan; the first operand has a row for
  // each token.
  json::Object cuda{{"path", "scheduled"},
                    {"symbols", json::Array{json::Array{getArgument(0), 0}}},
                    {"max_tokens", getInt(plan, "max_tokens")},
                    {"workspace", json::Array{getInt(plan, "workspace_bytes")}},
                    {"zeroed_bytes", getInt(plan, "zeroed_bytes")},
                    {"packed", std::move(packed)},
                    {"launches", std::move(entries)}};
  if (!problem.empty())
    return createStringError(problem);
  return cuda;
}

/// Compiles the functions that the scheduled path takes as a whole, and adds
/// their names to `done`.
static Expected<DeviceModule> compileTile(ModuleOp module,
                                          ArrayRef<func::FuncOp> functions,
                                          const CompileOptions &options,
                                          llvm::StringSet<> &done) {
  OwningOpRef<ModuleOp> copy(module.clone());
  HopperPipelineOptions pipeline;
  pipeline.tokens = options.tokens;
  pipeline.multiprocessors = options.multiprocessors;
  pipeline.table = options.schedules;
  pipeline.stage = HopperStage::Tile;
  PassManager planning(module.getContext());
  buildHopperPipeline(planning, pipeline);
  if (llvm::Error error = run(planning, *copy, "scheduled path"))
    return std::move(error);

  DeviceModule result;
  llvm::StringSet<> kernels;
  for (func::FuncOp function : functions) {
    auto planned = copy->lookupSymbol<func::FuncOp>(function.getSymName());
    SmallVector<tile::LaunchOp> launches = getLaunches(planned);
    if (launches.empty())
      continue;
    Expected<json::Object> cuda = TilePlanWriter(launches).write();
    if (!cuda)
      return cuda.takeError();
    result.functions.push_back({function.getSymName().str(), std::move(*cuda)});
    done.insert(function.getSymName());
    for (tile::LaunchOp launch : launches)
      kernels.insert(launch.getKernel().getLeafReference().getValue());
  }
  if (result.functions.empty())
    return result;
  // What the host does is in the plans; kernels of other functions are in
  // nobody's.
  for (auto function : llvm::make_early_inc_range(copy->getOps<func::FuncOp>()))
    function.erase();
  for (auto gpuModule : copy->getOps<gpu::GPUModuleOp>())
    for (auto kernel :
         llvm::make_early_inc_range(gpuModule.getOps<tile::KernelOp>()))
      if (!kernels.contains(kernel.getSymName()))
        kernel.erase();
  pipeline.stage = HopperStage::PTX;
  PassManager lowering(module.getContext());
  buildHopperPipeline(lowering, pipeline);
  if (llvm::Error error = run(lowering, *copy, "lowering of scheduled kernels"))
    return std::move(error);
  FailureOr<std::string> ptx = getPTX(*copy);
  if (failed(ptx))
    return createStringError("the scheduled path made no PTX");
  result.ptx = std::move(*ptx);
  return result;
}

//===----------------------------------------------------------------------===//
// The portable path
//===----------------------------------------------------------------------===//

/// Replaces sizes of results by the sizes of arguments that they are.
static void replaceResultSymbols(json::Array &symbols,
                                 const json::Object &description) {
  int64_t numArguments = description.getArray("arguments")->size();
  for (json::Value &value : symbols) {
    json::Array &place = *value.getAsArray();
    int64_t argument = *place[0].getAsInteger();
    if (argument < numArguments)
      continue;
    const json::Object &result =
        *(*description.getArray("results"))[argument - numArguments]
             .getAsObject();
    const json::Value &size =
        (*result.getArray("sizes"))[*place[1].getAsInteger()];
    unsigned symbol;
    StringRef text = size.getAsString().value_or("");
    if (!text.consume_front("s") || text.getAsInteger(10, symbol))
      continue;
    const json::Object &entry =
        *(*description.getArray("symbols"))[symbol].getAsObject();
    json::Array first = *(*entry.getArray("places"))[0].getAsArray();
    place = std::move(first);
  }
}

/// An argument of a kernel in the form of the manifest.
static json::Value convertArgument(const json::Value &value) {
  json::Object argument = *value.getAsObject();
  if (std::optional<int64_t> index = argument.getInteger("arg"))
    return json::Object{{"tensor", *index}};
  return argument;
}

static json::Object convertPlan(const json::Object &plan,
                                const json::Object &description) {
  json::Array launches;
  for (const json::Value &value : *plan.getArray("launches")) {
    json::Object launch = *value.getAsObject();
    json::Array arguments;
    for (const json::Value &argument : *launch.getArray("args"))
      arguments.push_back(convertArgument(argument));
    launch["args"] = std::move(arguments);
    launches.push_back(std::move(launch));
  }
  json::Array symbols = *plan.getArray("symbols");
  replaceResultSymbols(symbols, description);
  return json::Object{{"path", "portable"},
                      {"symbols", std::move(symbols)},
                      {"workspace", json::Array(*plan.getArray("workspace"))},
                      {"launches", std::move(launches)}};
}

static Expected<DeviceModule>
compilePortable(ModuleOp module, ArrayRef<json::Object> descriptions,
                const CompileOptions &options, const llvm::StringSet<> &done) {
  OwningOpRef<ModuleOp> copy(module.clone());
  for (auto function : llvm::make_early_inc_range(copy->getOps<func::FuncOp>()))
    if (done.contains(function.getSymName()))
      function.setPrivate();
  GPUPipelineOptions pipeline;
  pipeline.chip = options.chip;
  PassManager pm(module.getContext());
  std::string problem;
  LogicalResult built =
      buildGPUPipeline(pm, pipeline, [&](const Twine &message) {
        problem = message.str();
        return failure();
      });
  if (failed(built))
    return createStringError(problem);
  if (llvm::Error error = run(pm, *copy, "portable path"))
    return std::move(error);
  FailureOr<std::string> ptx = getPTX(*copy);
  FailureOr<json::Value> plans = getLaunchPlans(*copy);
  if (failed(ptx) || failed(plans))
    return createStringError("the portable path made no PTX");
  DeviceModule result;
  result.ptx = std::move(*ptx);
  for (const json::Value &value :
       *plans->getAsObject()->getArray("functions")) {
    const json::Object &plan = *value.getAsObject();
    StringRef name = *plan.getString("name");
    for (const json::Value &launch : *plan.getArray("launches"))
      if (launch.getAsObject()->get("module"))
        return createStringError("@" + name +
                                 " launches a kernel of another module, which "
                                 "an artefact can not hold");
    for (const json::Object &description : descriptions)
      if (description.getString("name") == name && !done.contains(name))
        result.functions.push_back(
            {name.str(), convertPlan(plan, description)});
  }
  return result;
}

Expected<std::vector<DeviceModule>>
fuse::compileForDevice(ModuleOp module, ArrayRef<func::FuncOp> functions,
                       ArrayRef<json::Object> descriptions,
                       const CompileOptions &options) {
  std::string problem;
  if (failed(lookupChip(options.chip, [&](const Twine &message) {
        problem = message.str();
        return failure();
      })))
    return createStringError(problem);
  std::vector<DeviceModule> modules;
  llvm::StringSet<> done;
  if (options.chip == "sm_90a" && options.scheduled) {
    auto tile = compileTile(module, functions, options, done);
    if (!tile)
      return tile.takeError();
    if (!tile->functions.empty())
      modules.push_back(std::move(*tile));
  }
  if (done.size() < functions.size()) {
    auto portable = compilePortable(module, descriptions, options, done);
    if (!portable)
      return portable.takeError();
    modules.push_back(std::move(*portable));
  }
  for (DeviceModule &made : modules) {
    Expected<int64_t> version = getPTXVersion(made.ptx);
    if (!version)
      return version.takeError();
    for (auto &[name, cuda] : made.functions) {
      cuda["chip"] = options.chip;
      cuda["ptx_version"] = *version;
    }
    if (options.assemble == Assemble::Always ||
        (options.assemble == Assemble::IfPossible && canAssemble())) {
      llvm::Error error = llvm::Error::success();
      runPhase(module.getContext(), "ptxas", [&] {
        if (!error)
          error = assemble(made, options.chip);
      });
      if (error)
        return std::move(error);
    }
  }
  return modules;
}
