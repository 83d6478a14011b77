//===- TileLaunchPlan.cpp - Tile launches as JSON -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Target/TileLaunchPlan.h"

#include "fuse/IR/FuseDialect.h"
#include "fuse/Target/PTX.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "tile/IR/TileOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace fuse;
namespace json = llvm::json;

/// Incremented when a reader of an older version would misread the object.
static constexpr int64_t kVersion = 1;

static std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static json::Object argumentToJSON(Attribute argument) {
  return llvm::TypeSwitch<Attribute, json::Object>(argument)
      .Case([](tile::OperandAttr attr) {
        return json::Object{{"kind", "operand"}, {"index", attr.getIndex()}};
      })
      .Case([](tile::ResultAttr attr) {
        return json::Object{{"kind", "result"}, {"index", attr.getIndex()}};
      })
      .Case([](tile::PackedAttr attr) {
        json::Object packed{{"kind", "packed"},
                            {"recipe", attr.getRecipe()},
                            {"operands", json::Array(attr.getOperands())},
                            {"tiles", attr.getTiles()},
                            {"steps", attr.getSteps()},
                            {"bytes", attr.getBytes()}};
        // The verifier of the attribute has checked the views.
        if (attr.getViews())
          packed["views"] = *viewsToJSON(attr.getViews());
        return packed;
      })
      .Case([](tile::PlaceAttr attr) {
        json::Object place{{"kind", "workspace"}, {"offset", attr.getOffset()}};
        if (attr.getElement()) {
          place["rows"] = attr.getRows();
          place["columns"] = attr.getColumns();
          place["element"] = print(attr.getElement());
        }
        return place;
      })
      .Case([](tile::TokenMapAttr attr) {
        return json::Object{{"kind", "tensor_map"},
                            {"offset", attr.getOffset()},
                            {"rows", attr.getRows()},
                            {"columns", attr.getColumns()},
                            {"element", print(attr.getElement())},
                            {"box_rows", attr.getBoxRows()},
                            {"box_columns", attr.getBoxColumns()},
                            {"swizzle", attr.getSwizzle()}};
      })
      .Case([](tile::TokensAttr) { return json::Object{{"kind", "tokens"}}; })
      .Case([](tile::ScalarAttr attr) {
        return json::Object{{"kind", "scalar"},
                            {"name", attr.getName()},
                            {"value", attr.getValue().getValueAsDouble()}};
      });
}

static json::Object planToJSON(tile::PlanAttr plan) {
  json::Array arguments, matrices;
  for (Attribute argument : plan.getArguments())
    arguments.push_back(argumentToJSON(argument));
  for (tile::TokenMatrixAttr matrix : plan.getMatrices())
    matrices.push_back(json::Object{{"offset", matrix.getOffset()},
                                    {"row_bytes", matrix.getRowBytes()},
                                    {"multiple", matrix.getMultiple()}});
  json::Object object{{"blocks", plan.getBlocks()},
                      {"threads", plan.getThreads()},
                      {"shared_bytes", plan.getSharedBytes()},
                      {"dependent", plan.getDependent()},
                      {"max_tokens", plan.getMaxTokens()},
                      {"workspace_bytes", plan.getWorkspaceBytes()},
                      {"zeroed_bytes", plan.getZeroedBytes()},
                      {"arguments", std::move(arguments)}};
  // Readers consider a launch cooperative unless it says otherwise. Digests of
  // measured kernels contain this object, so it must not change: those of one
  // launch have never had the field.
  if (!plan.getCooperative() || !matrices.empty())
    object["cooperative"] = plan.getCooperative();
  if (plan.getCluster() > 1)
    object["cluster"] = plan.getCluster();
  if (!matrices.empty())
    object["token_buffers"] = std::move(matrices);
  if (plan.getSharesWorkspace())
    object["shares_workspace"] = true;
  if (plan.getCarveout())
    object["carveout"] = *plan.getCarveout();
  return object;
}

LogicalResult fuse::translateToLaunchPlan(ModuleOp module,
                                          llvm::raw_ostream &os) {
  json::Object modules;
  for (auto binary : module.getOps<gpu::BinaryOp>()) {
    if (binary.getObjects().size() != 1)
      return binary.emitOpError() << "has " << binary.getObjects().size()
                                  << " objects: expected one";
    auto object = cast<gpu::ObjectAttr>(binary.getObjects()[0]);
    if (object.getFormat() != gpu::CompilationTarget::Assembly)
      return binary.emitOpError("does not hold PTX");
    json::Object entry;
    entry["ptx"] = object.getObject().getValue().str();
    if (StringRef chip = getTargetChip(object.getTarget()); !chip.empty())
      entry["chip"] = chip.str();
    modules[binary.getSymName()] = std::move(entry);
  }
  json::Array launches;
  WalkResult result = module.walk([&](tile::LaunchOp launch) {
    if (!launch.getPlan()) {
      launch.emitOpError("has no plan");
      return WalkResult::interrupt();
    }
    StringRef name = launch.getKernel().getRootReference().getValue();
    if (!modules.get(name)) {
      launch.emitOpError() << "is of a kernel in @" << name
                           << ", which is not a binary";
      return WalkResult::interrupt();
    }
    json::Object entry;
    if (auto function = launch->getParentOfType<func::FuncOp>())
      entry["function"] = function.getSymName().str();
    entry["module"] = name.str();
    entry["kernel"] = launch.getKernel().getLeafReference().getValue().str();
    if (auto dispatch = launch->getParentOfType<tile::DispatchOp>())
      entry["upto"] =
          dispatch.getBounds()[launch->getParentRegion()->getRegionNumber()];
    json::Array inputs, outputs;
    for (Type type : launch.getInputs().getTypes())
      inputs.push_back(print(type));
    for (Type type : launch.getOutputs().getTypes())
      outputs.push_back(print(type));
    entry["inputs"] = std::move(inputs);
    entry["outputs"] = std::move(outputs);
    entry["plan"] = planToJSON(*launch.getPlan());
    launches.push_back(std::move(entry));
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  os << json::Value(json::Object{{"version", kVersion},
                                 {"modules", std::move(modules)},
                                 {"launches", std::move(launches)}})
     << "\n";
  return success();
}

void fuse::registerLaunchPlanTranslation() {
  static TranslateFromMLIRRegistration registration(
      "mlir-to-launch-plan",
      "write the PTX of kernels and the plans of launches as JSON",
      [](Operation *op, llvm::raw_ostream &os) -> LogicalResult {
        auto module = dyn_cast<ModuleOp>(op);
        if (!module)
          return op->emitError("expected a builtin.module");
        return translateToLaunchPlan(module, os);
      },
      [](DialectRegistry &registry) {
        registry.insert<FuseDialect, arith::ArithDialect, func::FuncDialect,
                        gpu::GPUDialect, tensor::TensorDialect,
                        tile::TileDialect>();
        registerPTXTranslation(registry);
      });
}
