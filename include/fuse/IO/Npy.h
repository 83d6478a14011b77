//===- Npy.h - NumPy's array files ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IO_NPY_H
#define FUSE_IO_NPY_H

#include "fuse/IO/HostTensor.h"

namespace fuse {

/// Reads an array of format version 1, 2 or 3 as a tensor of type `type`.
///
/// NumPy has no type for most small floats. Arrays of a wider float or of
/// integers are therefore converted if every value is exact in `type`. Arrays
/// of raw bytes of the same width (`V2`, `u2`, `V1`, `u1`) are read as the
/// bits. Every field is checked against the size of the file before it is used.
llvm::Expected<HostTensor> readNpy(llvm::StringRef path, ElementType type);

/// Writes an array. Elements of bf16 and 8-bit floats are widened to f32, which
/// is exact.
llvm::Error writeNpy(llvm::StringRef path, const HostTensor &tensor);

} // namespace fuse

#endif // FUSE_IO_NPY_H
