//===- fuse-weights.cpp - Convert checkpoints to kernel layouts -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/WeightRecipes.h"
#include "fuse/IO/WeightPacking.h"
#include "fuse/InitAllDialects.h"
#include "fuse/Support/OutputFile.h"
#include "fuse/Support/ReadModule.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/InitAllDialects.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace fuse;
namespace cl = llvm::cl;

/// Converts a recipe to a form without MLIR.
static WeightRecipe convert(const StoredWeight &weight) {
  RecipeAttr attr = weight.recipe;
  WeightRecipe recipe;
  recipe.name = attr.getName().str();
  switch (attr.getKind()) {
  case RecipeKind::Concat:
    recipe.kind = WeightRecipe::Concat;
    break;
  case RecipeKind::Interleave:
    recipe.kind = WeightRecipe::Interleave;
    break;
  case RecipeKind::Fold:
    recipe.kind = WeightRecipe::Fold;
    break;
  case RecipeKind::Transpose:
    recipe.kind = WeightRecipe::Transpose;
    break;
  case RecipeKind::Quantize:
    recipe.kind = WeightRecipe::Quantize;
    recipe.scale = attr.getScale().getValueAsDouble();
    recipe.storage =
        isa<Float8E4M3FNType>(attr.getStorageType()) ? ElementType::F8E4M3FN
        : isa<Float8E5M2Type>(attr.getStorageType()) ? ElementType::F8E5M2
                                                     : ElementType::I8;
    break;
  }
  recipe.sources.assign(weight.sources.begin(), weight.sources.end());
  recipe.keep = attr.getKeep();
  recipe.block = attr.getBlock();
  recipe.offset = attr.getOffset();
  return recipe;
}

namespace {

/// Weight recipes of the models in a file.
struct Recipes {
  SmallVector<StoredWeight> list;
  llvm::StringMap<std::string> ties;
};

} // namespace

static FailureOr<Recipes> readRecipes(MLIRContext &context, StringRef path) {
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  auto module = readModule(context, path, sources);
  if (!module) {
    llvm::WithColor::error(llvm::errs(), "fuse-weights")
        << llvm::toString(module.takeError()) << "\n";
    return failure();
  }
  Recipes recipes;
  for (ModelOp model : findModels(**module)) {
    FailureOr<SmallVector<StoredWeight>> list = collectRecipes(model);
    if (failed(list))
      return failure();
    llvm::append_range(recipes.list, *list);
    model->walk([&](ParameterOp parameter) {
      if (std::optional<SymbolRefAttr> owner = parameter.getTiedTo())
        recipes.ties[getParameterName(parameter)] = getPath(*owner);
    });
  }
  return recipes;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::SubCommand pack("pack", "Make a checkpoint in the layouts of kernels");
  cl::SubCommand unpack("unpack", "Make the checkpoint that was packed");
  cl::SubCommand list("list", "Print the recipes of a model");
  cl::opt<std::string> model(cl::Positional, cl::desc("<model.mlir>"),
                             cl::Required, cl::sub(pack));
  cl::opt<std::string> checkpoint(cl::Positional,
                                  cl::desc("<checkpoint.safetensors>"),
                                  cl::Required, cl::sub(pack));
  cl::opt<std::string> packed(cl::Positional, cl::desc("<packed.safetensors>"),
                              cl::Required, cl::sub(unpack));
  cl::opt<std::string> listed(cl::Positional, cl::desc("<model.mlir>"),
                              cl::Required, cl::sub(list));
  cl::opt<std::string> output("o", cl::desc("Where to write the checkpoint"),
                              cl::value_desc("file"), cl::Required,
                              cl::sub(pack), cl::sub(unpack));
  // Hide LLVM's global options: every option here belongs to a command.
  cl::OptionCategory category("fuse-weights options");
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "fuse-weights: convert checkpoints to the layouts that the kernels of a "
      "model store, and back\n");

  auto fail = [](const Twine &message) {
    llvm::WithColor::error(llvm::errs(), "fuse-weights") << message << "\n";
    return 1;
  };
  if (unpack) {
    llvm::Expected<SafetensorsFile> file = SafetensorsFile::open(packed);
    if (!file)
      return fail(llvm::toString(file.takeError()));
    if (llvm::Error error = writeFile(
            output, [&](raw_ostream &os) { return unpackWeights(*file, os); }))
      return fail(llvm::toString(std::move(error)));
    return 0;
  }
  if (!pack && !list)
    return fail("no command; expected one of pack, unpack, list");

  DialectRegistry registry;
  mlir::registerAllDialects(registry);
  fuse::registerAllDialects(registry);
  MLIRContext context(registry);
  FailureOr<Recipes> recipes =
      readRecipes(context, pack ? model.getValue() : listed.getValue());
  if (failed(recipes))
    return 1;
  if (list) {
    for (const StoredWeight &weight : recipes->list)
      llvm::outs() << weight.recipe << "\n";
    return 0;
  }
  if (recipes->list.empty())
    return fail(model + ": no site of a model has recipes");
  llvm::Expected<SafetensorsFile> file = SafetensorsFile::open(checkpoint);
  if (!file)
    return fail(llvm::toString(file.takeError()));
  SmallVector<WeightRecipe> steps(llvm::map_range(recipes->list, convert));
  if (llvm::Error error = writeFile(output, [&](raw_ostream &os) {
        return packWeights(*file, steps, recipes->ties, os);
      }))
    return fail(llvm::toString(std::move(error)));
  return 0;
}
