//===- Expression.h - Sizes that depend on sizes ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CORE_EXPRESSION_H
#define FUSE_RUNTIME_CORE_EXPRESSION_H

#include "nlohmann/json_fwd.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace fuse::runtime {

/// An integer expression over symbols, such as `["mul", "s0", 4]` in JSON.
/// Evaluating it allocates nothing.
class Expression {
public:
  /// Throws `Failure` unless `json` is an expression over symbols below
  /// `numSymbols`.
  static Expression parse(const nlohmann::json &json, size_t numSymbols);
  static Expression constant(int64_t value);

  /// Throws `Failure` if a value overflows or a divisor is not positive.
  int64_t evaluate(const int64_t *symbols) const;
  /// Whether the value does not depend on the symbols.
  bool isConstant() const;
  /// The symbol if the expression is a single symbol.
  std::optional<size_t> getSymbol() const;

private:
  enum class Opcode : uint8_t { Constant, Symbol, Add, Mul, Mod, Floor, Ceil };
  struct Step {
    Opcode opcode;
    int64_t operand;
  };

  void append(const nlohmann::json &json, size_t numSymbols, unsigned depth);

  /// In postfix order.
  std::vector<Step> steps;
};

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_EXPRESSION_H
