//===- Inputs.h - What a function is run on ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EXECUTION_INPUTS_H
#define FUSE_EXECUTION_INPUTS_H

#include "fuse/Execution/Program.h"

namespace fuse {

/// Where the arguments of a function come from.
struct InputOptions {
  /// Arrays for the arguments that are not parameters, in order.
  std::vector<std::string> files;
  /// A safetensors file for the arguments with `fuse.parameter`.
  std::string weights;
  /// `<size>`, `tokens=<size>` or `batch=<size>`.
  std::vector<std::string> dims;
  /// `<argument>:<size>x<size>...`.
  std::vector<std::string> shapes;
  uint64_t seed = 0;
};

/// One tensor per argument. What no file gives is random: activations are
/// normal with variance 1, weights of linears are scaled by their input size,
/// and norms, biases and scales are what they usually are.
///
/// Compiled functions do not check sizes, so dynamic sizes that stand at the
/// same place, counted from the last dimension, have to agree in all
/// arguments.
llvm::Expected<std::vector<HostTensor>>
createInputs(mlir::func::FuncOp function, const Signature &signature,
             const InputOptions &options);

/// What random tensors of an argument are drawn from, in the distributions of
/// `createInputs`.
struct RandomValues {
  HostTensor pool;
  /// Whether it is an activation, and not a weight, bias or scale.
  bool isActivation = true;
};

/// One pool per argument of a function.
std::vector<RandomValues> createPools(mlir::func::FuncOp function,
                                      const Signature &signature,
                                      uint64_t seed);

} // namespace fuse

#endif // FUSE_EXECUTION_INPUTS_H
