//===- Execution.cpp - Run random modules ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Execution.h"
#include "Inputs.h"
#include "Verify.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace fuse;

/// Small integers and halves: most products and sums of them are exact.
static void makeExact(HostTensor &tensor, Random &random) {
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    tensor.set(i, (static_cast<double>(random.below(9)) - 4.0) / 2.0);
}

StringRef fuse::checkExecution(ModuleOp module, Random &random,
                               CheckCounts &counts) {
  if (failed(mlir::verify(module)))
    return "verify";
  OwningOpRef<ModuleOp> formed = module.clone();
  for (auto function : formed->getOps<func::FuncOp>())
    if (failed(formKernels(function, {})))
      return "form";
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  for (func::FuncOp function : functions) {
    auto fail = [&](llvm::Error error) {
      function.emitError(llvm::toString(std::move(error)));
      return "run";
    };
    if (function.getNumResults() == 0)
      continue;
    auto fused = findFunction(*formed, function.getSymName());
    if (!fused)
      return fail(fused.takeError());
    auto signature = getSignature(function);
    if (!signature)
      return fail(signature.takeError());
    InputOptions options;
    options.seed = random.next();
    options.dims = {std::to_string(random.oneOf({1, 2, 3, 7, 17}))};
    auto inputs = createInputs(function, *signature, options);
    if (!inputs)
      return fail(inputs.takeError());
    if (random.percent(50))
      for (HostTensor &tensor : *inputs)
        if (isFloat(tensor.getType()))
          makeExact(tensor, random);
    std::vector<std::vector<HostTensor>> results;
    auto run = [&](func::FuncOp which, bool reference) -> llvm::Error {
      auto program = Program::compile(which, reference);
      if (!program)
        return program.takeError();
      auto values = program->run(*inputs);
      if (!values)
        return values.takeError();
      results.push_back(std::move(*values));
      return llvm::Error::success();
    };
    for (bool reference : {false, true})
      for (func::FuncOp which : {function, *fused})
        if (llvm::Error error = run(which, reference))
          return fail(std::move(error));
    ++counts.executed;
    // 0 and 1 are optimized, 2 and 3 the reference; odd ones are fused.
    for (unsigned i : {0, 2})
      for (auto [index, pair] :
           llvm::enumerate(llvm::zip_equal(results[i], results[i + 1]))) {
        auto &[unfusedValue, fusedValue] = pair;
        if (unfusedValue.isBitEqual(fusedValue))
          continue;
        Difference difference =
            compare({std::get<0>(pair).clone()}, {std::get<1>(pair).clone()});
        function.emitError()
            << "result " << index << " has " << difference.numDifferent
            << " other values once fused, largest difference "
            << difference.maxAbsolute;
        return "fused-bits";
      }
    Difference difference = compare(results[0], results[2]);
    if (difference.specialsDiffer ||
        difference.energy > getEnergyBound(*inputs, results[0])) {
      function.emitError() << "optimized and reference differ in "
                           << difference.numDifferent << " of "
                           << difference.numValues << " values, energy "
                           << difference.energy
                           << (difference.specialsDiffer
                                   ? ", NaN or infinity differ"
                                   : "");
      return "reference";
    }
  }
  return {};
}
