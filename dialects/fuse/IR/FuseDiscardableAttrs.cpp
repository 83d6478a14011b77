//===- FuseDiscardableAttrs.cpp - Verify fuse.* attributes ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes ignore attributes that they do not know, so a misspelled name or a
// value of another type would have no effect. Both are errors here. Ops that
// are not functions, models or modules have attributes only within a pipeline,
// which are not verified.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseAttrNames.h"
#include "fuse/IR/FuseAttrs.h"
#include "fuse/IR/FuseDialect.h"
#include "fuse/Support/IRVersion.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fuse;

namespace {

/// An attribute of a function, of its arguments or results, or of a model.
struct KnownAttr {
  StringRef name;
  bool (*isValid)(Attribute);
  /// Completes "must be ".
  StringRef expected;
};

} // namespace

static bool isUnit(Attribute attr) { return isa<UnitAttr>(attr); }

static bool isName(Attribute attr) {
  auto name = dyn_cast<StringAttr>(attr);
  return name && !name.empty();
}

static bool isParameter(Attribute attr) {
  // A symbol starts with the name of the model.
  auto symbol = dyn_cast<SymbolRefAttr>(attr);
  return isName(attr) || (symbol && !symbol.getNestedReferences().empty());
}

static bool isStrings(Attribute attr) {
  auto array = dyn_cast<ArrayAttr>(attr);
  return array && llvm::all_of(array, llvm::IsaPred<StringAttr>);
}

static bool isDictionaries(Attribute attr) {
  auto array = dyn_cast<ArrayAttr>(attr);
  return array && llvm::all_of(array, llvm::IsaPred<DictionaryAttr>);
}

/// Whether an attribute lists pairs of an argument and one of its dimensions.
static bool isPlaces(Attribute attr) {
  auto array = dyn_cast<ArrayAttr>(attr);
  return array && llvm::all_of(array, [](Attribute list) {
           auto places = dyn_cast<DenseI64ArrayAttr>(list);
           return places && places.size() % 2 == 0;
         });
}

static bool isCount(Attribute attr) {
  auto count = dyn_cast<IntegerAttr>(attr);
  return count && !count.getValue().isNegative();
}

static bool isShard(Attribute attr) { return isa<ShardAttr>(attr); }

static bool isDictionary(Attribute attr) { return isa<DictionaryAttr>(attr); }

static constexpr KnownAttr kMustFuse = {kMustFuseAttrName, isStrings,
                                        "an array of path globs"};
static constexpr KnownAttr kExpectSites = {kExpectSitesAttrName, isCount,
                                           "a number of sites"};

static constexpr KnownAttr kModelAttrs[] = {
    kMustFuse,
    kExpectSites,
    {kNoFuseAttrName, isStrings, "an array of path globs"},
    {kRefusalsAttrName, isDictionary, "a dictionary of refusals"}};

static constexpr KnownAttr kFunctionAttrs[] = {
    kMustFuse,
    kExpectSites,
    {kGroupAttrName, isUnit, "a unit attribute"},
    {kConstantScalesAttrName, isUnit, "a unit attribute"},
    {kRanksAttrName, isCount, "a number of ranks"},
    {kLibraryAttrName, isName, "the path of a shared library"},
    {kLaunchPlanAttrName, isDictionary, "a dictionary"},
    {kCPUPlanAttrName, isDictionary, "a dictionary"},
    {kChecksAttrName, isDictionaries, "an array of dictionaries"},
    {kEqualSizesAttrName, isPlaces,
     "an array of pairs of arguments and dimensions"}};

// The verifier of a module compares a default with the type of its argument.
static constexpr KnownAttr kArgumentAttrs[] = {
    {kParameterAttrName, isParameter,
     "the name of a parameter or its symbol in a model"},
    {kShardAttrName, isShard, "a #fuse.shard"},
    {kNameAttrName, isName, "the name of an argument"},
    {kDefaultAttrName, [](Attribute) { return true; }, ""},
    {kResultAttrName, isUnit, "a unit attribute"},
    {kScalarAttrName, isDictionary, "a dictionary"}};

static constexpr KnownAttr kResultAttrs[] = {
    {kNameAttrName, isName, "the name of a result"},
    {kShardAttrName, isShard, "a #fuse.shard"},
    {kObservedAttrName, isStrings, "an array of names"}};

/// Completes the error of an unknown attribute by the valid ones of `owner`.
static InFlightDiagnostic reportUnknown(StringRef name,
                                        ArrayRef<KnownAttr> known,
                                        StringRef owner,
                                        InFlightDiagnostic diag) {
  diag << "has no attribute '" << name << "'; " << owner << " has ";
  llvm::interleaveComma(known, diag,
                        [&](const KnownAttr &entry) { diag << entry.name; });
  return diag;
}

/// Verifies that `attr` is one of `known`. `describe` starts an error, and
/// `owner` is what has these attributes: a model, an argument.
static LogicalResult
verifyKnown(NamedAttribute attr, ArrayRef<KnownAttr> known, StringRef owner,
            llvm::function_ref<InFlightDiagnostic()> describe) {
  StringRef name = attr.getName();
  const KnownAttr *entry = llvm::find_if(
      known, [&](const KnownAttr &entry) { return entry.name == name; });
  if (entry == known.end())
    return reportUnknown(name, known, owner, describe());
  if (entry->isValid(attr.getValue()))
    return success();
  return describe() << "'" << name << "' must be " << entry->expected
                    << ", got " << attr.getValue();
}

LogicalResult FuseDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  if (attr.getName() == kVersionAttrName)
    return verifyVersion(op, attr.getValue());
  auto describe = [&] { return op->emitOpError(); };
  if (op->getName().getStringRef() == "nn.model")
    return verifyKnown(attr, kModelAttrs, "a model", describe);
  // A module has none. Those of the model are the most likely mistake.
  if (op->getName().getStringRef() == "nn.module")
    return reportUnknown(attr.getName(), kModelAttrs, "a model", describe());
  if (isa<FunctionOpInterface>(op))
    return verifyKnown(attr, kFunctionAttrs, "a function", describe);
  if (attr.getName() == kMustFuseAttrName ||
      attr.getName() == kExpectSitesAttrName)
    return op->emitError("has a fusion contract but is neither a model nor a "
                         "function");
  return success();
}

LogicalResult FuseDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned index,
                                                    NamedAttribute attr) {
  return verifyKnown(attr, kArgumentAttrs, "an argument", [&] {
    return op->emitOpError() << "argument " << index << " ";
  });
}

LogicalResult FuseDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                       unsigned index,
                                                       NamedAttribute attr) {
  return verifyKnown(attr, kResultAttrs, "a result", [&] {
    return op->emitOpError() << "result " << index << " ";
  });
}
