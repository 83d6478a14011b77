//===- Verify.h - Checks of one function ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EXECUTION_VERIFY_H
#define FUSE_EXECUTION_VERIFY_H

#include "fuse/Execution/GpuProgram.h"

namespace fuse {

/// Distance between two results.
struct Difference {
  int64_t numValues = 0, numDifferent = 0;
  /// Largest difference, absolute and relative to the largest value.
  double maxAbsolute = 0.0, maxRelative = 0.0;
  /// |x - y|^2 / (|x|^2 + |y|^2).
  double energy = 0.0;
  /// Whether NaN or infinity is in a place where the other result has another
  /// value.
  bool specialsDiffer = false;

  /// Adds the counts and keeps the larger value of each measure.
  void merge(const Difference &other);
};

Difference compare(llvm::ArrayRef<HostTensor> first,
                   llvm::ArrayRef<HostTensor> second);

/// Upper bound of `Difference::energy` between two orders of summation. Another
/// order changes some results by one rounding step, and a later quantization
/// changes some by one bin.
double getEnergyBound(llvm::ArrayRef<HostTensor> inputs,
                      llvm::ArrayRef<HostTensor> results);

/// Prints a table of checks over sets of inputs, and returns whether all hold:
///
/// - V0: forming kernels and unfusing them gives the same IR. If raising
/// changes
///   the function, it computes the same, up to the last bits of f32;
/// - V1: fused and unfused give the same bits;
/// - the optimized and the reference lowering differ only by rounding;
/// - V2, if the options name a GPU: the code for it gives values that the
///   contract of the function allows, and the same bits each time. Values
///   without a contract are counted, with the reason.
llvm::Expected<bool> verify(mlir::func::FuncOp function,
                            llvm::ArrayRef<std::vector<HostTensor>> inputSets,
                            const GpuOptions &gpu, llvm::raw_ostream &os);

} // namespace fuse

#endif // FUSE_EXECUTION_VERIFY_H
