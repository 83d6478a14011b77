//===- Enum.h - Enumerations from C -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CAPI_ENUM_H
#define FUSE_CAPI_ENUM_H

#include <cstring>
#include <type_traits>

namespace fuse {

/// The number of an enumerator that a C program has passed. It may have any
/// value, and reading it as an enumerator that does not exist is undefined.
template <typename Enum>
long long getNumber(const Enum &value) {
  std::underlying_type_t<Enum> number;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

} // namespace fuse

#endif // FUSE_CAPI_ENUM_H
