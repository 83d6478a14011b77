//===- LLVMPasses.cpp - LLVM's optimizations for generated code -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Support/LLVMPasses.h"
#include "llvm/Passes/PassBuilder.h"

llvm::Error fuse::runLLVMPasses(llvm::Module &module,
                                llvm::TargetMachine &machine,
                                llvm::StringRef pipeline) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  if (llvm::Error error = builder.parsePassPipeline(passes, pipeline))
    return error;
  passes.run(module, modules);
  return llvm::Error::success();
}
