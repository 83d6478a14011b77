//===- CPUObject.cpp - Object files for a CPU -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Target/CPUObject.h"
#include "fuse/Support/LLVMPasses.h"
#include "fuse/Support/OutputFile.h"
#include "fuse/Support/TemporaryDirectory.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/Archive.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

#include <cmath>
#include <mutex>

#include <dlfcn.h>
#include <gnu/libc-version.h>

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Objects
//===----------------------------------------------------------------------===//

/// LLVM vectorizes elementwise loops; sums and products are already vectorized.
/// Loops of unknown length are not unrolled. The important ones have several
/// accumulators, and unrolling all of them takes a fifth of LLVM's time.
static constexpr StringLiteral kPasses =
    "function<eager-inv>(sroa,early-cse<memssa>,simplifycfg,"
    "loop-mssa(loop-rotate,licm),loop(indvars),"
    "instcombine<no-verify-fixpoint;max-iterations=1>,gvn,loop-vectorize,"
    "loop-unroll<O3;no-runtime>,instsimplify,simplifycfg)";

/// The vectors and loops of kernels are already in their final form.
static constexpr StringLiteral kKernelPasses =
    "function<eager-inv>(early-cse<memssa>,simplifycfg,"
    "loop-mssa(loop-rotate,licm),"
    "instcombine<no-verify-fixpoint;max-iterations=1>,early-cse,simplifycfg)";

/// Minimum number of ops per part of a kernel module, on average. Each part is
/// compiled by one thread and needs a target machine and passes.
static constexpr size_t kPartSize = 250;

static Expected<std::unique_ptr<llvm::TargetMachine>>
createMachine(StringRef cpu) {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  llvm::Triple triple(llvm::sys::getProcessTriple());
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return createStringError(error);
  std::string name = cpu.str(), features;
  if (cpu == "native") {
    name = llvm::sys::getHostCPUName().str();
    for (auto &feature : llvm::sys::getHostCPUFeatures())
      features += (features.empty() ? "" : ",") +
                  std::string(feature.second ? "+" : "-") +
                  feature.first().str();
  }
  llvm::TargetOptions options;
  // Results must not depend on the multiplications that LLVM contracts.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, name, features, options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
  if (!machine || !machine->getMCSubtargetInfo()->isCPUStringValid(name))
    return createStringError("unknown processor '" + cpu + "' of " +
                             triple.getArchName());
  return machine;
}

Expected<CPUFeatures> fuse::getCPUFeatures(StringRef cpu) {
  auto machine = createMachine(cpu);
  if (!machine)
    return machine.takeError();
  CPUFeatures features;
  const llvm::MCSubtargetInfo &info = *(*machine)->getMCSubtargetInfo();
  if ((*machine)->getTargetTriple().isAArch64()) {
    features.registers = 32;
    features.fma = true;
  } else if ((*machine)->getTargetTriple().isX86()) {
    features.fma = info.checkFeatures("+fma");
    if (info.checkFeatures("+avx512f,+avx512vl,+avx512bw")) {
      features.lanes = 16;
      features.registers = 32;
      features.dot = info.checkFeatures("+avx512bf16");
      features.tiles = features.dot && info.checkFeatures("+amx-bf16");
    } else if (info.checkFeatures("+avx2")) {
      features.lanes = 8;
    }
  }
  return features;
}

namespace {

/// The work of one thread.
struct CPUPart {
  OwningOpRef<ModuleOp> owned;
  ModuleOp module;
  bool isKernels = false;
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> translated;
  std::string object;
};

} // namespace

/// Splits a module of kernels into parts of similar size. The split is the same
/// on every machine. A part declares the functions of other parts that it
/// calls.
static std::vector<CPUPart> cutKernels(ModuleOp kernels) {
  struct Piece {
    LLVM::LLVMFuncOp function;
    size_t index, size = 0;
  };
  SmallVector<Piece> pieces;
  size_t total = 0;
  bool isCut = true;
  for (Operation &op : *kernels.getBody()) {
    Piece piece = {dyn_cast<LLVM::LLVMFuncOp>(op), pieces.size()};
    isCut &= piece.function && !piece.function.isExternal();
    op.walk([&](Operation *) { ++piece.size; });
    total += piece.size;
    pieces.push_back(piece);
  }
  size_t count = std::clamp<size_t>(total / kPartSize, 1,
                                    std::max<size_t>(pieces.size(), 1));
  std::vector<CPUPart> parts(isCut ? count : 1);
  if (parts.size() == 1) {
    parts.front().module = kernels;
  } else {
    llvm::sort(pieces, [](const Piece &first, const Piece &second) {
      return std::tie(second.size, first.index) <
             std::tie(first.size, second.index);
    });
    std::vector<size_t> sizes(count);
    for (CPUPart &part : parts)
      part.module = *(part.owned = ModuleOp::create(kernels.getLoc()));
    for (Piece &piece : pieces) {
      size_t least = llvm::min_element(sizes) - sizes.begin();
      sizes[least] += piece.size;
      piece.function->moveBefore(parts[least].module.getBody(),
                                 parts[least].module.getBody()->end());
    }
    llvm::StringMap<LLVM::LLVMFuncOp> functions;
    for (Piece &piece : pieces)
      functions[piece.function.getSymName()] = piece.function;
    for (CPUPart &part : parts) {
      SymbolTable symbols(part.module);
      part.module.walk([&](LLVM::CallOp call) {
        std::optional<StringRef> name = call.getCallee();
        if (!name || symbols.lookup(*name))
          return;
        LLVM::LLVMFuncOp callee = functions.lookup(*name);
        if (!callee)
          return;
        callee.setVisibility_(LLVM::Visibility::Hidden);
        symbols.insert(callee.cloneWithoutRegions().getOperation());
      });
    }
  }
  for (CPUPart &part : parts)
    part.isKernels = true;
  return parts;
}

/// Adds the function of an entry, which calls the entry's function with
/// pointers from an array. For a kernel, it passes the data pointers of the
/// descriptors.
static llvm::Error addEntry(llvm::Module &module, const CPUEntry &entry,
                            bool isKernel) {
  std::string name =
      isKernel ? entry.function : "_mlir_ciface_" + entry.function;
  llvm::Function *callee = module.getFunction(name);
  if (!callee || callee->isDeclaration())
    return createStringError("'" + entry.function + "' has no C interface");
  llvm::LLVMContext &context = module.getContext();
  llvm::IRBuilder<> builder(context);
  llvm::Type *pointer = builder.getPtrTy();
  auto *wrapper = llvm::Function::Create(
      llvm::FunctionType::get(builder.getVoidTy(), {pointer}, false),
      llvm::GlobalValue::ExternalLinkage, entry.symbol, module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "", wrapper));
  SmallVector<llvm::Value *> arguments;
  auto load = [&](llvm::Value *from, unsigned index) -> llvm::Value * {
    return builder.CreateLoad(
        pointer, builder.CreateConstInBoundsGEP1_64(pointer, from, index));
  };
  for (llvm::Argument &argument : callee->args()) {
    llvm::Value *value = load(wrapper->getArg(0), argument.getArgNo());
    // A number that follows from static scales.
    if (argument.getType()->isFloatTy()) {
      arguments.push_back(builder.CreateLoad(argument.getType(), value));
      continue;
    }
    if (!argument.getType()->isPointerTy())
      return createStringError(
          "'" + entry.function +
          "' has an argument that is neither a tensor nor a number of type "
          "f32");
    // The second pointer of a descriptor is that of the first element.
    arguments.push_back(isKernel ? load(value, 1) : value);
  }
  if (!callee->getReturnType()->isVoidTy())
    return createStringError("'" + entry.function +
                             "' returns a value that is not a tensor");
  builder.CreateCall(callee, arguments);
  builder.CreateRetVoid();
  return llvm::Error::success();
}

/// Translates a part to LLVM IR in which only the entries are visible.
static llvm::Error translatePart(CPUPart &part, ArrayRef<CPUEntry> entries) {
  part.context = std::make_unique<llvm::LLVMContext>();
  part.translated = translateModuleToLLVMIR(part.module, *part.context);
  if (!part.translated)
    return createStringError("module is not in the LLVM dialect");
  for (llvm::GlobalObject &object : part.translated->global_objects())
    if (!object.isDeclaration() && !object.hasHiddenVisibility())
      object.setLinkage(llvm::GlobalValue::InternalLinkage);
  for (const CPUEntry &entry : entries)
    if (entry.isKernel == part.isKernels &&
        (!part.isKernels || part.module.lookupSymbol(entry.function)))
      if (llvm::Error error = addEntry(*part.translated, entry, part.isKernels))
        return error;
  return llvm::Error::success();
}

/// Compiles a part. It shares no state with other parts.
static llvm::Error compilePart(CPUPart &part, StringRef cpu) {
  auto machine = createMachine(cpu);
  if (!machine)
    return machine.takeError();
  llvm::Module &module = *part.translated;
  module.setDataLayout((*machine)->createDataLayout());
  module.setTargetTriple((*machine)->getTargetTriple());
  if (llvm::Error error = runLLVMPasses(
          module, **machine, part.isKernels ? kKernelPasses : kPasses))
    return error;
  SmallString<0> object;
  llvm::raw_svector_ostream os(object);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, os, nullptr,
                                      llvm::CodeGenFileType::ObjectFile))
    return createStringError("LLVM cannot write objects for this machine");
  passes.run(module);
  part.object = std::string(object);
  return llvm::Error::success();
}

/// Returns a single object, or an archive of several.
static Expected<std::string> joinObjects(ArrayRef<CPUPart> parts) {
  if (parts.size() == 1)
    return parts.front().object;
  std::vector<llvm::NewArchiveMember> members;
  for (const CPUPart &part : parts)
    members.emplace_back(llvm::MemoryBufferRef(part.object, "code.o"));
  auto archive = llvm::writeArchiveToBuffer(
      members, llvm::SymtabWritingMode::NoSymtab, llvm::object::Archive::K_GNU,
      /*Deterministic=*/true, /*Thin=*/false);
  if (!archive)
    return archive.takeError();
  return (*archive)->getBuffer().str();
}

Expected<std::string> fuse::emitCPUObject(ModuleOp portable, ModuleOp kernels,
                                          StringRef cpu,
                                          ArrayRef<CPUEntry> entries,
                                          TaskRunner runTasks) {
  std::vector<CPUPart> parts;
  if (kernels)
    parts = cutKernels(kernels);
  if (portable)
    parts.emplace_back().module = portable;
  for (CPUPart &part : parts)
    if (llvm::Error error = translatePart(part, entries))
      return std::move(error);
  if (llvm::Error error = runTasks(parts.size(), [&](size_t index) {
        return compilePart(parts[index], cpu);
      }))
    return std::move(error);
  return joinObjects(parts);
}

//===----------------------------------------------------------------------===//
// Linking
//===----------------------------------------------------------------------===//

static Expected<std::string> findLinker(ArrayRef<std::string> directories) {
  SmallVector<StringRef> paths(directories.begin(), directories.end());
  for (StringRef name : {"ld.lld-22", "ld.lld"}) {
    if (!paths.empty())
      if (auto found = llvm::sys::findProgramByName(name, paths))
        return *found;
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
  }
  return createStringError("there is no linker: neither ld.lld-22 nor ld.lld "
                           "is in PATH");
}

/// The file of the shared library that contains `address`, or "".
static std::string getLibrary(void *address) {
  Dl_info info;
  if (!::dladdr(address, &info) || !info.dli_fname)
    return "";
  StringRef path = info.dli_fname;
  bool isLibrary = llvm::sys::path::filename(path).contains(".so");
  return isLibrary && llvm::sys::fs::exists(path) ? path.str() : "";
}

Expected<std::string> fuse::linkCPUObject(StringRef object,
                                          ArrayRef<std::string> directories) {
  Expected<std::string> linker = findLinker(directories);
  if (!linker)
    return linker.takeError();
  Expected<TemporaryDirectory> directory =
      TemporaryDirectory::create("fuse-link");
  if (!directory)
    return directory.takeError();
  std::string input = directory->getFile("code.o");
  std::string output = directory->getFile("code.so");
  std::string log = directory->getFile("log");
  if (llvm::Error error = writeFile(input, [&](llvm::raw_ostream &os) {
        os << object;
        return llvm::Error::success();
      }))
    return std::move(error);
  // Link to the libraries of this process instead of those of the process that
  // will load the code. Their names and symbol versions become its
  // requirements.
  std::string math = getLibrary(reinterpret_cast<void *>(
      static_cast<double (*)(double, double)>(&::pow)));
  std::string c = getLibrary(reinterpret_cast<void *>(&::gnu_get_libc_version));
  if (math.empty() || c.empty())
    return createStringError("the files of libm and libc are not known");
  SmallVector<StringRef> arguments = {*linker,
                                      "-shared",
                                      "-z",
                                      "now",
                                      "-z",
                                      "relro",
                                      "-z",
                                      "defs",
                                      "--build-id=none",
                                      "-soname",
                                      "fuse-code.so",
                                      "-o",
                                      output,
                                      "--whole-archive",
                                      input,
                                      "--no-whole-archive",
                                      "--as-needed",
                                      math,
                                      c};
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log),
                                          StringRef(log)};
  std::string error;
  int result = llvm::sys::ExecuteAndWait(*linker, arguments, std::nullopt,
                                         redirects, /*SecondsToWait=*/60,
                                         /*MemoryLimit=*/0, &error);
  if (result != 0) {
    if (auto text = llvm::MemoryBuffer::getFile(log); text && error.empty())
      error = (*text)->getBuffer().take_front(2000).trim().str();
    return createStringError(*linker + " failed: " + error);
  }
  auto linked = llvm::MemoryBuffer::getFile(output, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!linked)
    return createStringError(linked.getError(),
                             output + ": " + linked.getError().message());
  return (*linked)->getBuffer().str();
}
