//===- NNModuleOps.cpp - Models and their modules -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A container can have thousands of children. A scan per call would make the
// verifier quadratic, so lookups use the caller's SymbolTableCollection. Most
// modules have few children, and a table would need more memory than the
// children. Lookups in small modules therefore scan.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseAttrNames.h"
#include "fuse/IR/FuseParsing.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "nn/IR/NNModules.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fuse;

static ParseResult parseKernel(OpAsmParser &parser, Attribute &kernel) {
  StringAttr declared;
  if (succeeded(parser.parseOptionalSymbolName(declared))) {
    kernel = FlatSymbolRefAttr::get(declared);
    return success();
  }
  KernelFamily family;
  if (parseCase<KernelFamily>(
          parser, "kernel family", family, symbolizeKernelFamily,
          "gated_mlp, mlp, norm_linear, fused_linear, norm_quantize, "
          "act_quantize, group"))
    return failure();
  kernel = KernelFamilyAttr::get(parser.getContext(), family);
  return success();
}

static void printKernel(OpAsmPrinter &printer, Operation *, Attribute kernel) {
  if (auto family = dyn_cast<KernelFamilyAttr>(kernel))
    printer << stringifyKernelFamily(family.getValue());
  else
    printer << kernel;
}

static ParseResult parsePatternMembers(OpAsmParser &parser, ArrayAttr &classes,
                                       ArrayAttr &paths) {
  SmallVector<Attribute> classNames, globs;
  auto parseMember = [&]() -> ParseResult {
    StringAttr className, glob;
    if (parser.parseLParen() || parser.parseAttribute(className) ||
        parser.parseComma() || parser.parseAttribute(glob) ||
        parser.parseRParen())
      return failure();
    classNames.push_back(className);
    globs.push_back(glob);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseMember))
    return failure();
  classes = parser.getBuilder().getArrayAttr(classNames);
  paths = parser.getBuilder().getArrayAttr(globs);
  return success();
}

static void printPatternMembers(OpAsmPrinter &printer, Operation *,
                                ArrayAttr classes, ArrayAttr paths) {
  printer << "[";
  llvm::interleaveComma(llvm::zip(classes, paths), printer, [&](auto member) {
    printer << "(" << std::get<0>(member) << ", " << std::get<1>(member) << ")";
  });
  printer << "]";
}

#define GET_OP_CLASSES
#include "nn/IR/NNOps.cpp.inc"

//===----------------------------------------------------------------------===//
// The tree
//===----------------------------------------------------------------------===//

Operation *fuse::getEnclosingModule(Operation *op) {
  do {
    op = op->getParentOp();
  } while (op && !isa<ModelOp, NetModuleOp>(op));
  return op;
}

std::string fuse::getModulePath(Operation *module) {
  SmallVector<StringRef> names;
  for (Operation *op = module; isa_and_nonnull<NetModuleOp>(op);
       op = op->getParentOp())
    names.push_back(cast<NetModuleOp>(op).getSymName());
  return llvm::join(llvm::reverse(names), ".");
}

SmallVector<ModelOp> fuse::findModels(Operation *root) {
  SmallVector<ModelOp> models;
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto model = dyn_cast<ModelOp>(op))
      models.push_back(model);
    return isa<ModelOp, FunctionOpInterface>(op) ? WalkResult::skip()
                                                 : WalkResult::advance();
  });
  return models;
}

LogicalResult
fuse::walkFusedCalls(Operation *module,
                     llvm::function_ref<LogicalResult(FusedCallOp)> visit) {
  auto ops = module->getRegion(0).getOps();
  if (llvm::none_of(ops, llvm::IsaPred<NetModuleOp>))
    return success();
  for (Operation &op : ops) {
    if (isa<NetModuleOp>(op)) {
      if (failed(walkFusedCalls(&op, visit)))
        return failure();
    } else if (op.getNumRegions()) {
      WalkResult walk =
          op.walk([&](FusedCallOp call) { return WalkResult(visit(call)); });
      if (walk.wasInterrupted())
        return failure();
    }
  }
  return success();
}

/// The name of `op`, or null. Faster than the symbol interface, which looks up
/// the attribute by name. That lookup reads the context through the location,
/// memory that a scan does not touch otherwise.
static StringAttr getSymbol(Operation &op) {
  if (auto module = dyn_cast<NetModuleOp>(op))
    return module.getSymNameAttr();
  if (auto parameter = dyn_cast<ParameterOp>(op))
    return parameter.getSymNameAttr();
  if (auto function = dyn_cast<func::FuncOp>(op))
    return function.getSymNameAttr();
  auto symbol = dyn_cast<SymbolOpInterface>(op);
  return symbol ? symbol.getNameAttr() : StringAttr();
}

/// Number of ops that a lookup scans before it uses a table.
static constexpr unsigned kMaxScanned = 16;

Operation *fuse::lookupSymbol(SymbolTableCollection &tables, Operation *scope,
                              StringAttr name) {
  unsigned count = 0;
  for (Operation &op : scope->getRegion(0).getOps()) {
    if (++count > kMaxScanned)
      return tables.lookupSymbolIn(scope, name);
    if (getSymbol(op) == name)
      return &op;
  }
  return nullptr;
}

Operation *fuse::lookupSymbol(SymbolTableCollection &tables, Operation *scope,
                              SymbolRefAttr name) {
  Operation *op = lookupSymbol(tables, scope, name.getRootReference());
  for (FlatSymbolRefAttr nested : name.getNestedReferences()) {
    if (!op || !op->hasTrait<OpTrait::SymbolTable>())
      return nullptr;
    op = lookupSymbol(tables, op, nested.getAttr());
  }
  return op;
}

FunctionOpInterface fuse::getForward(SymbolTableCollection &tables,
                                     Operation *module) {
  // Most modules end with their forward.
  unsigned count = 0;
  for (Block &block : module->getRegion(0))
    for (Operation &op : llvm::reverse(block)) {
      if (++count > kMaxScanned)
        return dyn_cast_or_null<FunctionOpInterface>(tables.lookupSymbolIn(
            module, StringAttr::get(module->getContext(), kForwardName)));
      StringAttr name = getSymbol(op);
      if (name && name.getValue() == kForwardName)
        return dyn_cast<FunctionOpInterface>(op);
    }
  return {};
}

bool fuse::returnsResults(FunctionOpInterface function) {
  Block &block = function.getFunctionBody().front();
  Operation *last = block.empty() ? nullptr : &block.back();
  return last && last->hasTrait<OpTrait::ReturnLike>() &&
         last->getOperandTypes() == TypeRange(function.getResultTypes());
}

ParameterOp fuse::lookupParameter(SymbolTableCollection &tables, ModelOp model,
                                  StringRef name) {
  SmallVector<StringRef> names;
  name.split(names, '.');
  Operation *scope = model;
  for (StringRef symbol : names) {
    if (!isa_and_nonnull<ModelOp, NetModuleOp>(scope))
      return {};
    scope = lookupSymbol(tables, scope,
                         StringAttr::get(scope->getContext(), symbol));
  }
  return dyn_cast_or_null<ParameterOp>(scope);
}

ParameterOp fuse::lookupParameter(SymbolTableCollection &tables,
                                  Operation *scope, SymbolRefAttr name) {
  return dyn_cast_or_null<ParameterOp>(lookupSymbol(tables, scope, name));
}

SymbolRefAttr fuse::getReference(Operation *scope, Operation *symbol) {
  SmallVector<FlatSymbolRefAttr> names;
  for (; symbol != scope; symbol = symbol->getParentOp())
    names.push_back(FlatSymbolRefAttr::get(getSymbol(*symbol)));
  std::reverse(names.begin(), names.end());
  return SymbolRefAttr::get(names.front().getAttr(),
                            ArrayRef(names).drop_front());
}

std::string fuse::getParameterName(Attribute attr) {
  if (auto name = dyn_cast_or_null<StringAttr>(attr))
    return name.str();
  auto symbol = dyn_cast_or_null<SymbolRefAttr>(attr);
  if (!symbol)
    return "";
  // The name of the model is not part of the name.
  return llvm::join(
      llvm::map_range(symbol.getNestedReferences(),
                      [](FlatSymbolRefAttr name) { return name.getValue(); }),
      ".");
}

std::string fuse::getParameterName(FunctionOpInterface function,
                                   unsigned argument) {
  return getParameterName(function.getArgAttr(argument, kParameterAttrName));
}

std::string fuse::getParameterName(ParameterOp parameter) {
  std::string path = getModulePath(parameter->getParentOp());
  if (!path.empty())
    path += ".";
  return path + parameter.getSymName().str();
}

ParameterOp fuse::getOwner(SymbolTableCollection &tables,
                           ParameterOp parameter) {
  if (!parameter.getTiedTo())
    return parameter;
  return lookupParameter(tables, parameter->getParentOfType<ModelOp>(),
                         *parameter.getTiedTo());
}

NetModuleOp fuse::lookupModule(SymbolTableCollection &tables, Operation *user,
                               SymbolRefAttr name) {
  Operation *scope = getEnclosingModule(user);
  if (!scope)
    return {};
  return dyn_cast_or_null<NetModuleOp>(lookupSymbol(tables, scope, name));
}

unsigned fuse::getNumRequiredArguments(FunctionOpInterface forward) {
  unsigned count = forward.getNumArguments();
  while (count && forward.getArgAttr(count - 1, kDefaultAttrName))
    --count;
  return count;
}

/// Describes a module or model in messages.
static std::string describe(Operation *module) {
  if (isa<ModelOp>(module))
    return ("model '" + SymbolTable::getSymbolName(module).getValue() + "'")
        .str();
  return "module '" + getModulePath(module) + "'";
}

/// Appends the names of all `OpTy` ops in a container to a message.
template <typename OpTy>
static void listNames(InFlightDiagnostic &diag, Operation *module,
                      StringRef none) {
  // Keeps the message short in a container with thousands of children.
  constexpr unsigned maxNames = 16;
  SmallVector<StringRef> names;
  unsigned count = 0;
  for (auto op : module->getRegion(0).getOps<OpTy>())
    if (count++ < maxNames)
      names.push_back(op.getSymName());
  if (!count) {
    diag << none;
    return;
  }
  diag << "expected one of " << llvm::join(names, ", ");
  if (count > maxNames)
    diag << " and " << count - maxNames << " more";
}

//===----------------------------------------------------------------------===//
// Containers
//===----------------------------------------------------------------------===//

/// Verifies that a name is one segment of a path. An empty name would not parse
/// after printing.
static LogicalResult verifySymbol(Operation *op, StringRef name) {
  if (name.empty())
    return op->emitOpError("name must not be empty");
  return success();
}

static LogicalResult verifyName(Operation *op, StringRef name) {
  if (failed(verifySymbol(op, name)))
    return failure();
  if (name.contains('.'))
    return op->emitOpError() << "name '" << name
                             << "' must not contain '.', which separates the "
                                "names of a path";
  return success();
}

static LogicalResult verifyClass(Operation *op, StringRef name) {
  if (name.empty())
    return op->emitOpError("class name must not be empty");
  return success();
}

/// Verifies that a module contains parameters, children and at most one
/// forward.
static LogicalResult verifyMembers(Operation *module) {
  for (Operation &op : module->getRegion(0).getOps()) {
    if (isa<NetModuleOp, ParameterOp>(op))
      continue;
    if (isa<ModelOp>(module) &&
        isa<FusionPatternOp, KernelOp, SlotKernelOp, SlotOp>(op))
      continue;
    auto function = dyn_cast<FunctionOpInterface>(op);
    if (!function)
      return op.emitOpError()
             << "cannot be in an "
             << (isa<ModelOp>(module) ? "nn.model" : "nn.module")
             << "; expected nn.module, nn.parameter or the forward";
    if (function.getName() != kForwardName)
      return op.emitError()
             << "function '" << function.getName() << "' in "
             << describe(module) << "; the only function of a module is '"
             << kForwardName << "'";
    if (!function.isExternal() && function.getFunctionBody().hasOneBlock() &&
        !returnsResults(function))
      return op.emitError() << "forward of " << describe(module)
                            << " does not end in a return of its results";
    for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
      Attribute value = function.getArgAttr(i, kDefaultAttrName);
      auto typed = dyn_cast_or_null<TypedAttr>(value);
      Type type = function.getArgumentTypes()[i];
      if (value && !typed)
        return op.emitError() << "default of argument " << i
                              << " has no type; expected " << type;
      if (typed && typed.getType() != type)
        return op.emitError() << "default of argument " << i << " has type "
                              << typed.getType() << ", the argument " << type;
    }
  }
  return success();
}

LogicalResult ModelOp::verify() {
  if (failed(verifySymbol(*this, getSymName())))
    return failure();
  return verifyClass(*this, getClassName());
}

LogicalResult ModelOp::verifyRegions() {
  if (failed(verifyMembers(*this)))
    return failure();
  return verifyParallelism(*this);
}

LogicalResult NetModuleOp::verify() {
  if (failed(verifyName(*this, getSymName())))
    return failure();
  return verifyClass(*this, getClassName());
}

LogicalResult NetModuleOp::verifyRegions() {
  SymbolRefAttr expected = getForwardUse(getSymNameAttr(), getBody());
  Attribute use = (*this)->getAttr(kForwardUseAttrName);
  // It is not printed, so that it must follow from what is printed.
  if (use && !expected)
    return emitOpError() << "has '" << kForwardUseAttrName
                         << "', but no private forward";
  if (use != expected) {
    InFlightDiagnostic error = emitOpError() << "has a private forward and ";
    if (use)
      error << "'" << kForwardUseAttrName << "' " << use;
    else
      error << "no '" << kForwardUseAttrName << "'";
    return error << ", expected " << expected;
  }
  return verifyMembers(*this);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

LogicalResult ParameterOp::verify() {
  if (failed(verifyName(*this, getSymName())))
    return failure();
  ShardAttr shard = getShardAttr();
  auto type = dyn_cast<RankedTensorType>(getType());
  if (shard && type &&
      failed(shard.getLocalType(type, [&] { return emitOpError(); })))
    return failure();
  return success();
}

/// Looks up a symbol without tables. Each module verifies its ties with its own
/// tables, which would all be built for a few ties.
static Operation *scanForSymbol(Operation *scope, SymbolRefAttr name) {
  auto scan = [](Operation *scope, StringAttr name) -> Operation * {
    if (isa_and_nonnull<ModelOp, NetModuleOp>(scope))
      for (Operation &op : scope->getRegion(0).getOps())
        if (getSymbol(op) == name)
          return &op;
    return nullptr;
  };
  Operation *op = scan(scope, name.getRootReference());
  for (FlatSymbolRefAttr nested : name.getNestedReferences())
    op = scan(op, nested.getAttr());
  return op;
}

LogicalResult ParameterOp::verifySymbolUses(SymbolTableCollection &) {
  std::optional<SymbolRefAttr> name = getTiedTo();
  if (!name)
    return success();
  auto fail = [&](const Twine &why) {
    return emitOpError() << "is tied to '" << getPath(*name) << "', " << why;
  };
  auto owner = dyn_cast_or_null<ParameterOp>(
      scanForSymbol((*this)->getParentOfType<ModelOp>(), *name));
  if (!owner)
    return fail("which is not a parameter of the model");
  if (owner == *this)
    return fail("which is itself");
  if (std::optional<SymbolRefAttr> other = owner.getTiedTo())
    return fail("which is tied to '" + getPath(*other) +
                "'; expected that one");
  if (owner.getShardAttr() != getShardAttr())
    return fail("which ranks share in another way");
  // The other parameter may not be verified yet and reports its own errors.
  if (!owner.getTypeAttr() || owner.getType() == getType())
    return success();
  return emitOpError() << "has type " << getType() << ", '" << getPath(*name)
                       << "' is " << owner.getType();
}

LogicalResult GetParameterOp::verifySymbolUses(SymbolTableCollection &tables) {
  Operation *scope = getEnclosingModule(*this);
  if (!scope)
    return emitOpError("must be in the forward of an nn.module");
  auto parameter = dyn_cast_or_null<ParameterOp>(
      lookupSymbol(tables, scope, getParameterAttr()));
  if (!parameter) {
    InFlightDiagnostic diag = emitOpError();
    diag << "'" << getPath(getParameter()) << "' names no parameter of "
         << describe(scope) << "; ";
    listNames<ParameterOp>(diag, scope, "it has none");
    return diag;
  }
  if (parameter.getType() != getType())
    return emitOpError() << "has type " << getType() << ", parameter '"
                         << getPath(getParameter()) << "' is "
                         << parameter.getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Looks up the forward of `callee`. Emits an error if there is none.
static FailureOr<FunctionOpInterface>
resolveForward(SymbolTableCollection &tables, Operation *call,
               SymbolRefAttr callee) {
  Operation *scope = getEnclosingModule(call);
  if (!scope)
    return call->emitOpError(
        "must be in the forward of an nn.model or nn.module");
  NetModuleOp module = lookupModule(tables, call, callee);
  if (!module) {
    InFlightDiagnostic diag = call->emitOpError();
    diag << "'" << getPath(callee) << "' names no module in " << describe(scope)
         << "; ";
    listNames<NetModuleOp>(diag, scope, "it has no children");
    return diag;
  }
  FunctionOpInterface forward = getForward(tables, module);
  if (!forward)
    return call->emitOpError() << describe(module) << " has no forward to call";
  return forward;
}

/// Verifies that the values match the arguments of `forward`.
static LogicalResult verifyArguments(Operation *call, TypeRange types,
                                     FunctionOpInterface forward,
                                     StringRef path) {
  unsigned required = getNumRequiredArguments(forward);
  unsigned total = forward.getNumArguments();
  if (types.size() < required || types.size() > total) {
    InFlightDiagnostic diag = call->emitOpError();
    diag << "passes " << types.size() << " values, '" << path << "' expects ";
    if (required != total)
      diag << required << " to ";
    return diag << total;
  }
  for (auto [i, type] : llvm::enumerate(types))
    if (type != forward.getArgumentTypes()[i])
      return call->emitOpError()
             << "passes " << type << " as argument " << i << ", '" << path
             << "' expects " << forward.getArgumentTypes()[i];
  return success();
}

static LogicalResult verifyOutputs(Operation *call, TypeRange types,
                                   FunctionOpInterface forward,
                                   StringRef path) {
  if (types != TypeRange(forward.getResultTypes()))
    return call->emitOpError() << "returns " << types << ", '" << path
                               << "' returns " << forward.getResultTypes();
  return success();
}

LogicalResult CallModuleOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<FunctionOpInterface> forward =
      resolveForward(tables, *this, getCallee());
  if (failed(forward))
    return failure();
  std::string path = getPath(getCallee());
  return success(
      succeeded(verifyArguments(*this, getArgs().getTypes(), *forward, path)) &&
      succeeded(verifyOutputs(*this, getResultTypes(), *forward, path)));
}

Operation *CallModuleOp::resolveCallableInTable(SymbolTableCollection *tables) {
  NetModuleOp module = lookupModule(*tables, *this, getCallee());
  return module ? getForward(*tables, module).getOperation() : nullptr;
}

SmallVector<IdentityCallOp> fuse::getIdentities(FusedCallOp fused) {
  SmallVector<IdentityCallOp> identities;
  ResultRange values = fused.getFinalOutputs();
  for (Attribute member : fused.getMembers().getValue().drop_front()) {
    IdentityCallOp next;
    if (!values.empty())
      for (Operation *user : values.front().getUsers()) {
        auto call = dyn_cast<IdentityCallOp>(user);
        if (call && call.getSiteAttr() == fused.getSiteAttr() &&
            call.getCalleeAttr() == member &&
            call->getBlock() == fused->getBlock())
          next = call;
      }
    identities.push_back(next);
    if (next)
      values = next.getOutputs();
  }
  return identities;
}

/// Whether `name` is a symbol in the module `member`, with the same scope.
static bool isBelow(SymbolRefAttr name, SymbolRefAttr member) {
  ArrayRef<FlatSymbolRefAttr> nested = name.getNestedReferences();
  ArrayRef<FlatSymbolRefAttr> prefix = member.getNestedReferences();
  return name.getRootReference() == member.getRootReference() &&
         nested.size() > prefix.size() &&
         nested.take_front(prefix.size()) == prefix;
}

/// Verifies that the recipes of a call read parameters of its members and are
/// invertible or keep the parameters.
static LogicalResult verifyWeights(FusedCallOp call,
                                   SymbolTableCollection &tables) {
  Operation *scope = getEnclosingModule(call);
  for (auto recipe : call.getWeightsAttr().getAsRange<RecipeAttr>()) {
    if (!recipe.isInvertible() && !recipe.getKeep())
      return call.emitOpError()
             << "recipe '" << recipe.getName().getValue()
             << "' rounds without 'keep'; its parameters cannot be restored";
    SmallVector<RankedTensorType> types;
    SmallVector<ShardAttr> shards;
    for (Attribute source : recipe.getSources()) {
      auto name = dyn_cast<SymbolRefAttr>(source);
      if (!name)
        return call.emitOpError()
               << "recipe '" << recipe.getName().getValue() << "' reads "
               << source << "; expected the symbol of a parameter";
      ParameterOp parameter;
      if (llvm::any_of(
              call.getMembers().getAsRange<SymbolRefAttr>(),
              [&](SymbolRefAttr member) { return isBelow(name, member); }))
        parameter = lookupParameter(tables, scope, name);
      if (!parameter)
        return call.emitOpError()
               << "recipe '" << recipe.getName().getValue() << "' reads '"
               << getPath(name) << "', which is not a parameter of a member";
      types.push_back(cast<RankedTensorType>(parameter.getType()));
      shards.push_back(parameter.getShardAttr());
    }
    auto emitError = [&] { return call.emitOpError(); };
    if (failed(recipe.inferType(types, emitError)) ||
        failed(recipe.inferShard(types, shards, emitError)))
      return failure();
  }
  return success();
}

LogicalResult FusedCallOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (getMembers().empty())
    return emitOpError("needs at least one member");
  SmallVector<FunctionOpInterface> forwards;
  SmallVector<Type> intermediates;
  for (auto [i, member] :
       llvm::enumerate(getMembers().getAsRange<SymbolRefAttr>())) {
    FailureOr<FunctionOpInterface> forward =
        resolveForward(tables, *this, member);
    if (failed(forward))
      return failure();
    forwards.push_back(*forward);
    if (i + 1 < getMembers().size())
      llvm::append_range(intermediates, forward->getResultTypes());
  }
  auto pathOf = [&](unsigned i) {
    return getPath(cast<SymbolRefAttr>(getMembers()[i]));
  };
  if (failed(verifyArguments(*this, getArgs().getTypes(), forwards.front(),
                             pathOf(0))))
    return failure();
  SmallVector<Type> outputs(forwards.back().getResultTypes());
  if (outputs.empty())
    return emitOpError() << "last member '" << pathOf(forwards.size() - 1)
                         << "' has no results";
  for (int64_t position : getAlso().value_or(ArrayRef<int64_t>())) {
    if (position < 0 || position >= static_cast<int64_t>(intermediates.size()))
      return emitOpError() << "'also' has position " << position << ", there "
                           << "are " << intermediates.size()
                           << " intermediates";
    outputs.push_back(intermediates[position]);
  }
  if (getResultTypes() != TypeRange(outputs))
    return emitOpError() << "returns " << getResultTypes()
                         << ", its members return " << outputs;
  if (getWeightsAttr() && failed(verifyWeights(*this, tables)))
    return failure();
  auto model = (*this)->getParentOfType<ModelOp>();
  Operation *home = model ? model->getParentOp() : nullptr;
  if (getBodyAttr() && home && home->hasTrait<OpTrait::SymbolTable>() &&
      !isa_and_nonnull<FunctionOpInterface>(
          tables.lookupSymbolIn(home, getBodyAttr())))
    return emitOpError() << "body '" << *getBody()
                         << "' is not a function next to the model";
  SmallVector<Value> sides;
  SmallVector<Type> available;
  ValueRange passed = getFinalOutputs();
  for (auto [i, identity] : llvm::enumerate(getIdentities(*this))) {
    if (!identity)
      return emitOpError() << "site '" << getSite()
                           << "' has no nn.identity_call of member '"
                           << pathOf(i + 1) << "'";
    // These values are placeholders, which unfusing removes.
    for (Value value : passed)
      for (Operation *user : value.getUsers())
        if (user != identity.getOperation())
          return emitOpError()
                 << "site '" << getSite() << "' is read by '" << user->getName()
                 << "' before the nn.identity_call of member '" << pathOf(i + 1)
                 << "'; only results of the last call may be read";
    passed = identity.getOutputs();
    llvm::append_range(sides, identity.getIgnored());
    // The values that unfusing will pass to the member.
    llvm::append_range(available, forwards[i].getResultTypes());
    ArrayRef<Type> expected = forwards[i + 1].getArgumentTypes();
    for (auto [j, source] : llvm::enumerate(identity.getInterface())) {
      if (source >= 0 || j >= expected.size())
        continue;
      uint64_t position = -1 - source;
      if (position >= available.size())
        return identity.emitOpError()
               << "'interface' names intermediate " << position
               << ", there are " << available.size();
      if (available[position] != expected[j])
        return identity.emitOpError()
               << "intermediate " << position << " is " << available[position]
               << ", '" << pathOf(i + 1) << "' expects " << expected[j]
               << " as argument " << j;
    }
  }
  if (!llvm::equal(sides, getSides()))
    return emitOpError("'sides' must be the values that the identity calls of "
                       "its site ignore, in their order");
  return success();
}

LogicalResult IdentityCallOp::inferReturnTypes(MLIRContext *,
                                               std::optional<Location>,
                                               Adaptor op,
                                               SmallVectorImpl<Type> &types) {
  llvm::append_range(types, op.getValues().getTypes());
  return success();
}

LogicalResult IdentityCallOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<FunctionOpInterface> forward =
      resolveForward(tables, *this, getCallee());
  if (failed(forward))
    return failure();
  std::string path = getPath(getCallee());
  unsigned required = getNumRequiredArguments(*forward);
  unsigned total = forward->getNumArguments();
  if (getInterface().size() < required || getInterface().size() > total)
    return emitOpError() << "'interface' has " << getInterface().size()
                         << " entries, '" << path << "' expects " << total
                         << " values";
  int64_t numIgnored = getIgnored().size();
  SmallVector<bool> used(numIgnored);
  for (auto [i, source] : llvm::enumerate(getInterface())) {
    if (source < 0)
      continue;
    if (source >= numIgnored)
      return emitOpError() << "'interface' names ignored value " << source
                           << ", there are " << numIgnored;
    used[source] = true;
    Type type = getIgnored()[source].getType();
    if (type != forward->getArgumentTypes()[i])
      return emitOpError() << "ignores " << type << " as argument " << i
                           << ", '" << path << "' expects "
                           << forward->getArgumentTypes()[i];
  }
  if (!llvm::all_of(used, [](bool b) { return b; }))
    return emitOpError("ignores a value that 'interface' does not name");
  return success();
}

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

std::optional<KernelFamily> FusedCallOp::getFamily() {
  if (auto family = dyn_cast<KernelFamilyAttr>(getKernel()))
    return family.getValue();
  return std::nullopt;
}

StringRef FusedCallOp::getKernelName() {
  if (std::optional<KernelFamily> family = getFamily())
    return stringifyKernelFamily(*family);
  return cast<FlatSymbolRefAttr>(getKernel()).getValue();
}

LogicalResult FusionPatternOp::verify() {
  if (failed(verifySymbol(*this, getSymName())))
    return failure();
  if (getClasses().size() != getPaths().size())
    return emitOpError() << "has " << getClasses().size() << " classes and "
                         << getPaths().size() << " paths";
  if (getClasses().empty())
    return emitOpError("needs at least one (class, path) pair");
  for (auto [i, pair] : llvm::enumerate(llvm::zip(getClasses(), getPaths())))
    for (Attribute text : {std::get<0>(pair), std::get<1>(pair)})
      if (cast<StringAttr>(text).empty())
        return emitOpError() << "member " << i << " has an empty "
                             << (text == std::get<0>(pair) ? "class" : "path");
  return success();
}

LogicalResult KernelOp::verify() {
  if (failed(verifySymbol(*this, getSymName())))
    return failure();
  if (getTargets().empty())
    return emitOpError("needs at least one target, such as cpu or sm_90");
  if (!getWeightsAttr())
    return success();
  for (auto recipe : getWeightsAttr().getAsRange<RecipeAttr>())
    for (Attribute source : recipe.getSources())
      if (!isa<MemberParameterAttr>(source))
        return emitOpError()
               << "recipe '" << recipe.getName().getValue() << "' reads "
               << source << "; expected position:name, such as 1:gate.weight";
  return success();
}
