//===- LLVMPasses.cpp - LLVM's optimizations for generated code -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Support/LLVMPasses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Passes/PassBuilder.h"

/// Whether `inst` converts scalars or vectors from one type to another.
template <typename Cast>
static bool isCast(const llvm::Instruction &inst,
                   bool (llvm::Type::*from)() const,
                   bool (llvm::Type::*to)() const) {
  return llvm::isa<Cast>(inst) &&
         (inst.getOperand(0)->getType()->getScalarType()->*from)() &&
         (inst.getType()->getScalarType()->*to)();
}

/// LLVM 22 narrows `half(float(a) * float(b))` of two bfloats to half, because
/// bfloat has fewer mantissa bits. Its exponents do not fit, though. In
/// functions with both types, bfloats are therefore extended as integers.
static void protectBFloats(llvm::Function &function) {
  using llvm::Type;
  bool hasHalf = llvm::any_of(llvm::instructions(function),
                              [](const llvm::Instruction &inst) {
                                return isCast<llvm::FPTruncInst>(
                                    inst, &Type::isFloatTy, &Type::isHalfTy);
                              });
  if (!hasHalf)
    return;
  for (llvm::Instruction &inst :
       llvm::make_early_inc_range(llvm::instructions(function))) {
    if (!isCast<llvm::FPExtInst>(inst, &Type::isBFloatTy, &Type::isFloatTy))
      continue;
    llvm::IRBuilder<> builder(&inst);
    Type *type = inst.getType();
    auto getIntegers = [&](unsigned bits) {
      return type->getWithNewType(builder.getIntNTy(bits));
    };
    llvm::Value *bits = builder.CreateZExt(
        builder.CreateBitCast(inst.getOperand(0), getIntegers(16)),
        getIntegers(32));
    llvm::Value *extended =
        builder.CreateBitCast(builder.CreateShl(bits, 16), type);
    inst.replaceAllUsesWith(extended);
    inst.eraseFromParent();
  }
}

llvm::Error fuse::runLLVMPasses(llvm::Module &module,
                                llvm::TargetMachine &machine,
                                llvm::StringRef pipeline) {
  for (llvm::Function &function : module)
    protectBFloats(function);
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
