//===- Inputs.h - Inputs for running a function -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EXECUTION_INPUTS_H
#define FUSE_EXECUTION_INPUTS_H

#include "fuse/Execution/Program.h"

namespace fuse {

/// Sources of the arguments of a function.
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

/// One tensor per argument. Arguments without a file are random. Activations
/// are normal with variance 1, and weights of linears are scaled by their input
/// size. Norms, biases and scales have typical values.
///
/// Compiled functions do not check sizes. Dynamic sizes at the same distance
/// from the last dimension therefore have to agree in all arguments.
llvm::Expected<std::vector<HostTensor>>
createInputs(mlir::func::FuncOp function, const Signature &signature,
             const InputOptions &options);

/// The pool from which random tensors of an argument are drawn. Distributions
/// are those of `createInputs`.
struct RandomValues {
  HostTensor pool;
  /// Whether the argument is an activation, as opposed to a weight, bias or
  /// scale.
  bool isActivation = true;
};

/// One pool per argument of a function.
std::vector<RandomValues> createPools(mlir::func::FuncOp function,
                                      const Signature &signature,
                                      uint64_t seed);

} // namespace fuse

#endif // FUSE_EXECUTION_INPUTS_H
