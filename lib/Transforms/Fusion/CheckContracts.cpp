//===- CheckContracts.cpp - Check fusion contracts ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A contract is an attribute of a model or a function: the number of its fused
// sites, or the modules that must be fused. The pass does not change the IR. It
// finds fused modules in fused calls and in the origins of fused ops. To
// explain why other sites are not fused, it forms kernels in a copy.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/ChainMatch.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

namespace fuse {
#define GEN_PASS_DEF_CHECKCONTRACTSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

/// Maximum number of notes of one error, for models with thousands of sites.
static constexpr unsigned kMaxNotes = 40;

namespace {

/// A site that is not fused, and the reason.
struct Missing {
  Location loc;
  std::string text;
};

/// The state that a contract is checked against: the modules in fused sites,
/// the number of fused sites, and the reasons why other sites are not fused.
struct Fusions {
  llvm::StringSet<> modules;
  unsigned sites = 0;
  std::vector<Missing> missing;
  /// Reasons by the path of each member.
  llvm::StringMap<std::string> reasons;
};

} // namespace

static std::string toText(StringRef site, const Refusal &refusal) {
  const RefusalText &text = getText(refusal.kind);
  return (site + ": " + text.id + " " + text.name + ": " + text.reason).str();
}

/// Adds the fused ops of a function, and the reasons why its other sites are
/// not fused.
static void addFunction(FunctionOpInterface function, Fusions &fusions) {
  function->walk([&](FusedOpInterface op) {
    ++fusions.sites;
    if (ArrayAttr origins = op.getOriginsAttr())
      for (StringRef path : origins.getAsValueRange<StringAttr>())
        fusions.modules.insert(path);
  });
  // Kernels are formed in a detached copy.
  OwningOpRef<Operation *> copy = function->clone();
  KernelFormation formation;
  auto note = [&](Location at, const std::string &text) {
    fusions.missing.push_back({at, text});
    at->walk([&](Location loc) {
      if (auto name = dyn_cast<NameLoc>(loc))
        fusions.reasons.try_emplace(name.getName(), text);
      return WalkResult::advance();
    });
  };
  formation.onRefusal = [&](StringRef site, const Refusal &refusal, Location at,
                            Operation *) { note(at, toText(site, refusal)); };
  formation.onFused = [&](StringRef site, FusedOpInterface kernel) {
    note(kernel->getLoc(), (site + ": fuse-form-kernels would make it " +
                            kernel->getName().getStringRef())
                               .str());
  };
  (void)formKernels(cast<FunctionOpInterface>(copy.get()), formation);
}

/// Paths of the members in the id of a refused site.
static SmallVector<std::string> getMembers(StringRef id) {
  // The id of a call ends in `#<number>`; names may contain `#`, too.
  auto [members, number] = id.rsplit('#');
  if (unsigned value; number.getAsInteger(10, value))
    members = id;
  auto [parent, names] = members.rsplit('.');
  if (names.empty())
    std::swap(parent, names);
  SmallVector<StringRef> parts;
  names.split(parts, '+');
  SmallVector<std::string> paths;
  for (StringRef part : parts)
    paths.push_back(parent.empty() ? part.str() : (parent + "." + part).str());
  return paths;
}

std::string fuse::describeOtherFamily(FusedCallOp call, Operation *function) {
  // A group accepts any members.
  std::optional<KernelFamily> family = call.getFamily();
  if (!family || family == KernelFamily::Group)
    return "";
  llvm::SetVector<StringRef> formed;
  function->walk([&](FusedOpInterface kernel) {
    formed.insert(kernel->getName().stripDialect());
  });
  if (formed.empty() || formed.contains(call.getKernelName()))
    return "";
  return "the members form " + llvm::join(formed, ", ") +
         ", the pattern asks for " + call.getKernelName().str();
}

/// The modules that have ops in `function` outside of its kernels.
static llvm::StringSet<> collectUnfused(Operation *function) {
  llvm::StringSet<> modules;
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<FusedOpInterface>(op))
      return WalkResult::skip();
    op->getLoc()->walk([&](Location loc) {
      if (auto name = dyn_cast<NameLoc>(loc))
        modules.insert(name.getName());
      return WalkResult::advance();
    });
    return WalkResult::advance();
  });
  return modules;
}

/// Collects the fused calls of a model. A fused call counts if its kernel is
/// declared in the model, not yet inlined, or formed in its body.
static Fusions collectModel(ModelOp model) {
  Fusions fusions;
  SymbolTableCollection tables;
  Operation *home = model->getParentOp();
  // Visits the members of a call and the modules in them.
  auto visitModules = [&](FusedCallOp call, auto visit) {
    for (auto name : call.getMembers().getAsRange<SymbolRefAttr>()) {
      NetModuleOp member = lookupModule(tables, call, name);
      member.walk([&](NetModuleOp module) {
        visit(getModulePath(module), module == member);
      });
    }
  };
  model->walk([&](FusedCallOp call) {
    // A kernel without a body replaces all ops of its members.
    llvm::StringSet<> left;
    if (FlatSymbolRefAttr body = call.getBodyAttr()) {
      auto function = dyn_cast_or_null<FunctionOpInterface>(
          home && home->hasTrait<OpTrait::SymbolTable>()
              ? tables.lookupSymbolIn(home, body.getAttr())
              : nullptr);
      Fusions inside;
      if (function)
        addFunction(function, inside);
      std::string other = function ? describeOtherFamily(call, function) : "";
      if (!inside.sites || !other.empty()) {
        std::string text = call.getSite().str() + ": ";
        if (!other.empty()) {
          const RefusalText &refusal = getText(RefusalKind::OtherFamily);
          text += (refusal.id + " " + refusal.name + ": " + other).str();
        } else {
          text += "no kernel was formed in its body";
          if (!inside.missing.empty())
            text += "; " + inside.missing.front().text;
        }
        visitModules(call, [&](const std::string &path, bool) {
          fusions.reasons.try_emplace(path, text);
        });
        fusions.missing.push_back({call.getLoc(), std::move(text)});
        return;
      }
      left = collectUnfused(function);
      for (const auto &origin : inside.modules)
        left.erase(origin.getKey());
    }
    ++fusions.sites;
    visitModules(call, [&](const std::string &path, bool isMember) {
      if (isMember || !left.contains(path))
        fusions.modules.insert(path);
      else
        fusions.reasons.try_emplace(path, call.getSite().str() +
                                              ": the kernel does not have it");
    });
  });
  if (auto refusals = model->getAttrOfType<DictionaryAttr>(kRefusalsAttrName))
    for (NamedAttribute refusal : refusals) {
      auto reason = dyn_cast<StringAttr>(refusal.getValue());
      if (!reason)
        continue;
      std::string text =
          (refusal.getName().getValue() + ": " + reason.getValue()).str();
      for (StringRef path : getMembers(refusal.getName()))
        fusions.reasons.try_emplace(path, text);
      fusions.missing.push_back({model.getLoc(), std::move(text)});
    }
  return fusions;
}

static LogicalResult checkCount(Operation *op, const Fusions &fusions) {
  Attribute attr = op->getAttr(kExpectSitesAttrName);
  if (!attr)
    return success();
  auto expected = cast<IntegerAttr>(attr);
  if (expected.getValue() == fusions.sites)
    return success();
  InFlightDiagnostic diag = op->emitError();
  diag << "expected " << expected.getValue().getZExtValue()
       << (expected.getValue().isOne() ? " fused site" : " fused sites")
       << (fusions.sites == 1 ? ", there is " : ", there are ")
       << fusions.sites;
  for (const Missing &missing : ArrayRef(fusions.missing).take_front(kMaxNotes))
    diag.attachNote(missing.loc) << "not fused: " << missing.text;
  if (fusions.missing.size() > kMaxNotes)
    diag.attachNote() << "and " << fusions.missing.size() - kMaxNotes
                      << " more";
  return diag;
}

/// Checks the globs of `fuse.must_fuse`. `modules` are the existing paths.
static LogicalResult checkModules(Operation *op, const Fusions &fusions,
                                  ArrayRef<std::string> modules) {
  Attribute attr = op->getAttr(kMustFuseAttrName);
  if (!attr)
    return success();
  auto globs = cast<ArrayAttr>(attr);
  LogicalResult result = success();
  for (StringRef text : globs.getAsValueRange<StringAttr>()) {
    llvm::Expected<PathGlob> glob = PathGlob::create(text);
    if (!glob)
      return op->emitError(llvm::toString(glob.takeError()));
    std::vector<StringRef> selected, missing;
    for (StringRef path : modules)
      if (glob->match(path)) {
        selected.push_back(path);
        if (!fusions.modules.contains(path))
          missing.push_back(path);
      }
    if (selected.empty()) {
      result = op->emitError() << "'" << kMustFuseAttrName << "': no module "
                               << "matches path glob '" << text << "'";
      continue;
    }
    if (missing.empty())
      continue;
    InFlightDiagnostic diag = op->emitError();
    diag << "must fuse '" << text << "': " << missing.size() << " of "
         << selected.size() << " modules are not fused";
    for (StringRef path : ArrayRef(missing).take_front(kMaxNotes)) {
      auto reason = fusions.reasons.find(path);
      diag.attachNote() << "'" << path << "': "
                        << (reason == fusions.reasons.end()
                                ? "no requested site contains it"
                                : reason->second);
    }
    if (missing.size() > kMaxNotes)
      diag.attachNote() << "and " << missing.size() - kMaxNotes << " more";
    result = failure();
  }
  return result;
}

namespace {

struct CheckContracts : fuse::impl::CheckContractsPassBase<CheckContracts> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    auto check = [&](Operation *op, const Fusions &fusions,
                     ArrayRef<std::string> modules) {
      ++numChecked;
      bool countHolds = succeeded(checkCount(op, fusions));
      if (failed(checkModules(op, fusions, modules)) || !countHolds)
        signalPassFailure();
    };
    getOperation()->walk([&](Operation *op) {
      if (!op->hasAttr(kExpectSitesAttrName) && !op->hasAttr(kMustFuseAttrName))
        return;
      if (auto model = dyn_cast<ModelOp>(op)) {
        std::vector<std::string> modules;
        model->walk<WalkOrder::PreOrder>([&](NetModuleOp module) {
          modules.push_back(getModulePath(module));
        });
        check(op, collectModel(model), modules);
      } else {
        Fusions fusions;
        addFunction(cast<FunctionOpInterface>(op), fusions);
        llvm::StringSet<> seen;
        std::vector<std::string> modules;
        op->walk([&](Operation *inner) {
          inner->getLoc()->walk([&](Location loc) {
            if (auto name = dyn_cast<NameLoc>(loc))
              if (seen.insert(name.getName()).second)
                modules.push_back(name.getName().str());
            return WalkResult::advance();
          });
        });
        check(op, fusions, modules);
      }
    });
  }
};

} // namespace
