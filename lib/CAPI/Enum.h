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

/// The number that a C program has passed as an enumeration. It may be any, and
/// C++ must not read it as one of a type that lacks it.
template <typename Enum>
long long getNumber(const Enum &value) {
  std::underlying_type_t<Enum> number;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

} // namespace fuse

#endif // FUSE_CAPI_ENUM_H
