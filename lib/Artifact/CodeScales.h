//===- CodeScales.h - Static scales that code reads -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_ARTIFACT_CODESCALES_H
#define FUSE_LIB_ARTIFACT_CODESCALES_H

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/JSON.h"

namespace fuse {

/// The fields `scales` and `scalars` of a function's code: its static scales,
/// each value once, and the numbers that follow from them. Code reads these
/// numbers as arguments.
class CodeScales {
public:
  /// The index of a number, which is an object with the product of the scales
  /// `of` or with the reciprocal of the scale `over`. Removes these fields.
  int64_t take(llvm::json::Object &number) {
    llvm::json::Object scalar;
    if (std::optional<double> scale = number.getNumber("over"))
      scalar["over"] = addScale(*scale);
    llvm::json::Array factors;
    if (const llvm::json::Array *of = number.getArray("of"))
      for (const llvm::json::Value &scale : *of)
        factors.push_back(addScale(scale.getAsNumber().value_or(0)));
    if (!factors.empty())
      scalar["of"] = std::move(factors);
    number.erase("over");
    number.erase("of");
    const llvm::json::Value value = std::move(scalar);
    auto it = llvm::find(scalars, value);
    int64_t index = it - scalars.begin();
    if (it == scalars.end())
      scalars.push_back(value);
    return index;
  }

  /// Adds the fields, unless no code reads a scale.
  void addTo(llvm::json::Object &code) && {
    if (scalars.empty())
      return;
    code["scales"] = std::move(scales);
    code["scalars"] = std::move(scalars);
  }

private:
  int64_t addScale(double scale) {
    auto [it, isNew] =
        indices.try_emplace(llvm::bit_cast<uint64_t>(scale), scales.size());
    if (isNew)
      scales.push_back(scale);
    return it->second;
  }

  llvm::json::Array scales, scalars;
  /// Indices of scales by their bits.
  llvm::DenseMap<uint64_t, int64_t> indices;
};

} // namespace fuse

#endif // FUSE_LIB_ARTIFACT_CODESCALES_H
