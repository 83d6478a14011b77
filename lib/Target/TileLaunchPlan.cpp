//===- TileLaunchPlan.cpp - Tile launches as JSON -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Target/TileLaunchPlan.h"

#include "fuse/IR/FuseDialect.h"
#include "fuse/Target/PTX.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "tile/IR/TileOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace fuse;

/// Incremented when a reader of an older version would misread the object.
static constexpr int64_t kVersion = 1;

static std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static llvm::json::Value attributeToJSON(Attribute attribute) {
  using llvm::json::Value;
  return llvm::TypeSwitch<Attribute, Value>(attribute)
      .Case([](DictionaryAttr dictionary) {
        llvm::json::Object object;
        for (NamedAttribute entry : dictionary)
          object[entry.getName().getValue()] =
              attributeToJSON(entry.getValue());
        return Value(std::move(object));
      })
      .Case([](ArrayAttr array) {
        llvm::json::Array values;
        for (Attribute value : array)
          values.push_back(attributeToJSON(value));
        return Value(std::move(values));
      })
      .Case([](StringAttr string) { return Value(string.getValue().str()); })
      .Case([](BoolAttr value) { return Value(value.getValue()); })
      .Case([](IntegerAttr value) {
        return Value(value.getValue().getSExtValue());
      })
      .Case([](FloatAttr value) { return Value(value.getValueAsDouble()); })
      .Case([](TypeAttr type) { return Value(print(type.getValue())); })
      .Default([](Attribute) { return Value(nullptr); });
}

LogicalResult fuse::translateToLaunchPlan(ModuleOp module,
                                          llvm::raw_ostream &os) {
  llvm::json::Object modules;
  for (auto binary : module.getOps<gpu::BinaryOp>()) {
    if (binary.getObjects().size() != 1)
      return binary.emitOpError() << "has " << binary.getObjects().size()
                                  << " objects: expected one";
    auto object = cast<gpu::ObjectAttr>(binary.getObjects()[0]);
    if (object.getFormat() != gpu::CompilationTarget::Assembly)
      return binary.emitOpError("does not hold PTX");
    llvm::json::Object entry;
    entry["ptx"] = object.getObject().getValue().str();
    if (StringRef chip = getTargetChip(object.getTarget()); !chip.empty())
      entry["chip"] = chip.str();
    modules[binary.getSymName()] = std::move(entry);
  }
  llvm::json::Array launches;
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
    llvm::json::Object entry;
    if (auto function = launch->getParentOfType<func::FuncOp>())
      entry["function"] = function.getSymName().str();
    entry["module"] = name.str();
    entry["kernel"] = launch.getKernel().getLeafReference().getValue().str();
    if (auto dispatch = launch->getParentOfType<tile::DispatchOp>())
      entry["upto"] =
          dispatch.getBounds()[launch->getParentRegion()->getRegionNumber()];
    llvm::json::Array inputs, outputs;
    for (Type type : launch.getInputs().getTypes())
      inputs.push_back(print(type));
    for (Type type : launch.getOutputs().getTypes())
      outputs.push_back(print(type));
    entry["inputs"] = std::move(inputs);
    entry["outputs"] = std::move(outputs);
    entry["plan"] = attributeToJSON(launch.getPlanAttr());
    launches.push_back(std::move(entry));
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  os << llvm::json::Value(llvm::json::Object{{"version", kVersion},
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
        registry.insert<FuseDialect, func::FuncDialect, gpu::GPUDialect,
                        tile::TileDialect>();
        registerPTXTranslation(registry);
      });
}
