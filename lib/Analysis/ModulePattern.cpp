//===- ModulePattern.cpp - Parse patterns of modules ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A pattern is written in full, or refers to a declared pattern by its classes
// or its name. All three forms are resolved to classes and path globs. The
// model and the libraries for its class declare patterns.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/ModulePattern.h"
#include "fuse/Support/ReadModule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace fuse;

/// The syntax of patterns, for messages.
static constexpr llvm::StringLiteral kForms =
    "expected ((Class,path),(Class,path))->kernel, (Class,Class)->kernel or "
    "@pattern->kernel";

/// Splits at the commas outside of brackets.
static SmallVector<StringRef> splitList(StringRef text) {
  SmallVector<StringRef> items;
  unsigned depth = 0;
  size_t begin = 0;
  for (auto [i, c] : llvm::enumerate(text)) {
    if (StringRef("([{").contains(c))
      ++depth;
    else if (StringRef(")]}").contains(c))
      depth -= depth > 0;
    else if (c == ',' && !depth) {
      items.push_back(text.slice(begin, i).trim());
      begin = i + 1;
    }
  }
  if (begin || !text.trim().empty())
    items.push_back(text.substr(begin).trim());
  return items;
}

/// The text between parentheses, or nothing without parentheses.
static std::optional<StringRef> unwrap(StringRef text) {
  if (text.consume_front("(") && text.consume_back(")"))
    return text;
  return std::nullopt;
}

namespace {

class PatternReader {
public:
  PatternReader(const Declarations &declarations, StringRef text)
      : declarations(declarations), model(declarations.getModel()), text(text) {
  }

  FailureOr<std::vector<ModulePattern>> read();

private:
  LogicalResult error(const Twine &what) {
    return model.emitError() << "pattern '" << text << "': " << what;
  }
  LogicalResult readInline(ArrayRef<StringRef> items);
  LogicalResult readNames(ArrayRef<StringRef> classes);
  LogicalResult add(ArrayRef<StringRef> classes, ArrayRef<StringRef> paths);
  LogicalResult addDeclared(FusionPatternOp op);
  void listDeclared(InFlightDiagnostic &diag);

  const Declarations &declarations;
  ModelOp model;
  StringRef text, kernel;
  std::vector<ModulePattern> patterns;
};

} // namespace

FailureOr<std::vector<ModulePattern>> PatternReader::read() {
  size_t arrow = text.rfind("->");
  if (arrow == StringRef::npos)
    return error(Twine("has no kernel; ") + kForms);
  kernel = text.substr(arrow + 2).trim();
  StringRef chain = text.take_front(arrow).trim();
  if (kernel.empty())
    return error("has no kernel name after '->'");

  LogicalResult result = success();
  if (chain.consume_front("@")) {
    FusionPatternOp found;
    for (FusionPatternOp op : declarations.getPatterns())
      if (op.getSymName() == chain)
        found = op;
    if (!found) {
      InFlightDiagnostic diag = model.emitError();
      diag << "pattern '" << text << "': the model declares no pattern '"
           << chain << "'; ";
      listDeclared(diag);
      return failure();
    }
    result = addDeclared(found);
  } else if (std::optional<StringRef> inner = unwrap(chain)) {
    SmallVector<StringRef> items = splitList(*inner);
    if (items.empty())
      return error("has no members");
    bool isInline =
        llvm::any_of(items, [](StringRef item) { return unwrap(item); });
    result = isInline ? readInline(items) : readNames(items);
  } else {
    return error(kForms);
  }
  if (failed(result))
    return failure();
  return std::move(patterns);
}

LogicalResult PatternReader::readInline(ArrayRef<StringRef> items) {
  SmallVector<StringRef> classes, paths;
  for (auto [i, item] : llvm::enumerate(items)) {
    std::optional<StringRef> inner = unwrap(item);
    SmallVector<StringRef> pair =
        inner ? splitList(*inner) : SmallVector<StringRef>();
    if (pair.size() != 2 || pair[0].empty() || pair[1].empty())
      return error("member " + Twine(i) + " is '" + item +
                   "'; with paths, every member is (Class,path)");
    classes.push_back(pair[0]);
    paths.push_back(pair[1]);
  }
  return add(classes, paths);
}

/// Resolves a tuple of classes to every declared pattern with these classes.
LogicalResult PatternReader::readNames(ArrayRef<StringRef> classes) {
  for (FusionPatternOp op : declarations.getPatterns())
    if (llvm::equal(op.getClasses().getAsValueRange<StringAttr>(), classes))
      if (failed(addDeclared(op)))
        return failure();
  if (!patterns.empty())
    return success();
  InFlightDiagnostic diag = model.emitError();
  diag << "pattern '" << text << "': the model declares no pattern of "
       << llvm::join(classes, ", ") << "; ";
  listDeclared(diag);
  diag << ", or give the paths: ((Class,path),(Class,path))->kernel";
  return diag;
}

LogicalResult PatternReader::addDeclared(FusionPatternOp op) {
  return add(llvm::to_vector(op.getClasses().getAsValueRange<StringAttr>()),
             llvm::to_vector(op.getPaths().getAsValueRange<StringAttr>()));
}

LogicalResult PatternReader::add(ArrayRef<StringRef> classes,
                                 ArrayRef<StringRef> paths) {
  ModulePattern pattern;
  pattern.text = text.str();
  pattern.kernel = kernel.str();
  for (auto [className, path] : llvm::zip_equal(classes, paths)) {
    llvm::Expected<PathGlob> classGlob = PathGlob::create(className);
    if (!classGlob)
      return error(llvm::toString(classGlob.takeError()));
    llvm::Expected<PathGlob> pathGlob = PathGlob::create(path);
    if (!pathGlob)
      return error(llvm::toString(pathGlob.takeError()));
    if (pathGlob->endsInAnyDepth())
      return error("path glob '" + path +
                   "' ends in '**', which does not name a member");
    pattern.members.push_back({std::move(*classGlob), std::move(*pathGlob)});
  }
  patterns.push_back(std::move(pattern));
  return success();
}

void PatternReader::listDeclared(InFlightDiagnostic &diag) {
  bool any = false;
  for (FusionPatternOp op : declarations.getPatterns()) {
    diag << (any ? ", " : "declared are ") << "@" << op.getSymName() << " ("
         << llvm::join(op.getClasses().getAsValueRange<StringAttr>(), ",")
         << ")";
    any = true;
  }
  if (!any)
    diag << "declare one with nn.fusion_pattern";
  declarations.noteOthers(diag);
}

FailureOr<std::vector<ModulePattern>>
fuse::parseModulePatterns(const Declarations &declarations, StringRef text) {
  return PatternReader(declarations, text.trim()).read();
}

//===----------------------------------------------------------------------===//
// Libraries
//===----------------------------------------------------------------------===//

FailureOr<Declarations> Declarations::create(ModelOp model,
                                             ArrayRef<ModelOp> libraries) {
  Declarations declarations;
  declarations.model = model;
  SmallVector<ModelOp> sources = {model};
  for (ModelOp library : libraries) {
    llvm::Expected<PathGlob> glob = PathGlob::create(library.getClassName());
    if (!glob)
      return library.emitError()
             << "class of a library: " << llvm::toString(glob.takeError());
    bool isForModel = glob->matchChild(model.getClassName());
    (isForModel ? sources : declarations.others).push_back(library);
  }
  llvm::StringMap<Operation *> seen;
  for (ModelOp source : sources)
    for (Operation &op : source.getBody().getOps()) {
      if (!isa<FusionPatternOp, KernelOp>(op))
        continue;
      StringRef name = SymbolTable::getSymbolName(&op).getValue();
      auto [it, isNew] = seen.try_emplace(name, &op);
      if (!isNew) {
        InFlightDiagnostic diag = op.emitError();
        diag << "'" << name << "' is declared twice for model '"
             << model.getSymName() << "'";
        diag.attachNote(it->second->getLoc()) << "declared here";
        return diag;
      }
      // A pattern that names this kernel would use the generated family.
      if (isa<KernelOp>(op) && isGeneratedKernel(name))
        return op.emitError()
               << "kernel '" << name << "' has the name of a generated family";
      if (auto pattern = dyn_cast<FusionPatternOp>(op))
        declarations.patterns.push_back(pattern);
      if (auto kernel = dyn_cast<KernelOp>(op))
        declarations.kernels.push_back(kernel);
    }
  return declarations;
}

void Declarations::noteOthers(InFlightDiagnostic &diag) const {
  for (ModelOp library : others)
    diag.attachNote(library->getLoc())
        << "this library is for models of class '"
        << ModelOp(library).getClassName() << "', the model has class '"
        << ModelOp(model).getClassName() << "'";
}

FailureOr<std::vector<OwningOpRef<ModuleOp>>>
fuse::loadLibraries(MLIRContext *context, ArrayRef<std::string> files) {
  std::vector<OwningOpRef<ModuleOp>> modules;
  for (const std::string &file : files) {
    llvm::SourceMgr sources;
    auto module = readModule(*context, file, sources);
    if (!module)
      return emitError(UnknownLoc::get(context))
             << "library '" << file
             << "' cannot be read: " << llvm::toString(module.takeError());
    bool any = false;
    for (Operation &op : (*module)->getOps()) {
      auto model = dyn_cast<ModelOp>(op);
      if (!model)
        return op.emitError()
               << "in library '" << file << "'; expected nn.model";
      any = true;
      for (Operation &inner : model.getBody().getOps())
        if (!isa<FusionPatternOp, KernelOp>(inner))
          return inner.emitError()
                 << "in library '" << file
                 << "'; expected nn.fusion_pattern or nn.kernel";
    }
    if (!any) {
      emitError(UnknownLoc::get(context))
          << "library '" << file << "' has no nn.model";
      return failure();
    }
    modules.push_back(std::move(*module));
  }
  return std::move(modules);
}
