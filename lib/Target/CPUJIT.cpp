//===- CPUJIT.cpp - Compile for the CPU of this process -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Target/CPUJIT.h"
#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/ExecutionEngine/Orc/Mangling.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace fuse;

void fuse::registerCPUTranslations(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

CPUJIT::CPUJIT(std::unique_ptr<ExecutionEngine> engine)
    : engine(std::move(engine)) {}

CPUJIT::~CPUJIT() = default;

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
getTargetMachine(llvm::CodeGenOptLevel level) {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  auto builder = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!builder)
    return builder.takeError();
  builder->setCodeGenOptLevel(level);
  // Results must not depend on the multiplications that LLVM contracts.
  builder->getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return builder->createTargetMachine();
}

/// The address of a function in its library. A search of all libraries could
/// find a function of the same name in another one.
static llvm::Expected<void *> findFunction(const LibraryFunction &function) {
  using llvm::sys::DynamicLibrary;
  std::string message;
  DynamicLibrary library = DynamicLibrary::getPermanentLibrary(
      function.library.str().c_str(), &message);
  if (!library.isValid())
    return llvm::createStringError("library '" + function.library +
                                   "' cannot be loaded: " + message);
  if (void *address = library.getAddressOfSymbol(function.name.str().c_str()))
    return address;
  return llvm::createStringError("library '" + function.library +
                                 "' has no function '" + function.name + "'");
}

llvm::Expected<std::unique_ptr<CPUJIT>>
CPUJIT::create(ModuleOp module, unsigned optLevel,
               llvm::ArrayRef<LibraryFunction> functions) {
  llvm::StringMap<void *> addresses;
  for (const LibraryFunction &function : functions) {
    llvm::Expected<void *> address = findFunction(function);
    if (!address)
      return address.takeError();
    addresses[function.name] = *address;
  }
  llvm::CodeGenOptLevel level = optLevel == 0
                                    ? llvm::CodeGenOptLevel::None
                                    : llvm::CodeGenOptLevel::Aggressive;
  auto machine = getTargetMachine(level);
  if (!machine)
    return machine.takeError();
  // The engine owns a separate machine; this one is for the optimizer.
  auto optimize =
      makeOptimizingTransformer(optLevel, /*sizeLevel=*/0, machine->get());
  auto codeMachine = getTargetMachine(level);
  if (!codeMachine)
    return codeMachine.takeError();
  ExecutionEngineOptions options;
  options.transformer = optimize;
  options.jitCodeGenOptLevel = level;
  options.enableGDBNotificationListener = false;
  options.enablePerfNotificationListener = false;
  auto engine =
      ExecutionEngine::create(module, options, std::move(*codeMachine));
  if (!engine)
    return engine.takeError();
  (*engine)->registerSymbols([&](llvm::orc::MangleAndInterner mangle) {
    llvm::orc::SymbolMap symbols;
    for (const auto &entry : addresses)
      symbols[mangle(entry.getKey())] = {
          llvm::orc::ExecutorAddr::fromPtr(entry.getValue()),
          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    return symbols;
  });
  return std::unique_ptr<CPUJIT>(new CPUJIT(std::move(*engine)));
}

llvm::Expected<void (*)(void **)> CPUJIT::lookup(llvm::StringRef name) const {
  return engine->lookupPacked(("_mlir_ciface_" + name).str());
}

llvm::Error fuse::printLLVMIR(ModuleOp module, llvm::raw_ostream &os) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated =
      translateModuleToLLVMIR(module, context);
  if (!translated)
    return llvm::createStringError("module is not in the LLVM dialect");
  auto machine = getTargetMachine(llvm::CodeGenOptLevel::Aggressive);
  if (!machine)
    return machine.takeError();
  ExecutionEngine::setupTargetTripleAndDataLayout(translated.get(),
                                                  machine->get());
  translated->print(os, nullptr);
  return llvm::Error::success();
}
