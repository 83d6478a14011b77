//===- Expression.cpp - Sizes that depend on sizes ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Expression.h"
#include "fuse/Runtime/Core/Failure.h"
#include "nlohmann/json.hpp"

#include <string>

using namespace fuse::runtime;
using nlohmann::json;

/// Maximum nesting depth. At most one more operand waits for its operator.
static constexpr unsigned kMaxDepth = 64;

static Failure malformed(const std::string &why) {
  return Failure(FUSE_ERROR_FORMAT, "the manifest is malformed: " + why);
}

Expression Expression::constant(int64_t value) {
  Expression expression;
  expression.steps.push_back({Opcode::Constant, value});
  return expression;
}

Expression Expression::parse(const json &value, size_t numSymbols) {
  Expression expression;
  expression.append(value, numSymbols, 0);
  return expression;
}

void Expression::append(const json &value, size_t numSymbols, unsigned depth) {
  if (depth > kMaxDepth)
    throw malformed("an expression is nested more than " +
                    std::to_string(kMaxDepth) + " deep");
  if (value.is_number_integer()) {
    steps.push_back({Opcode::Constant, value.get<int64_t>()});
    return;
  }
  if (value.is_string()) {
    const auto &text = value.get_ref<const std::string &>();
    bool isNumber = text.size() > 1 && text.size() < 8 && text[0] == 's' &&
                    text.find_first_not_of("0123456789", 1) == text.npos;
    if (!isNumber || std::stoul(text.substr(1)) >= numSymbols)
      throw malformed("'" + text + "' is none of " +
                      std::to_string(numSymbols) + " symbols");
    steps.push_back(
        {Opcode::Symbol, static_cast<int64_t>(std::stoul(text.substr(1)))});
    return;
  }
  static constexpr std::pair<const char *, Opcode> opcodes[] = {
      {"add", Opcode::Add},
      {"mul", Opcode::Mul},
      {"mod", Opcode::Mod},
      {"floordiv", Opcode::Floor},
      {"ceildiv", Opcode::Ceil}};
  if (value.is_array() && value.size() == 3 && value[0].is_string())
    for (auto [name, opcode] : opcodes)
      if (value[0] == name) {
        append(value[1], numSymbols, depth + 1);
        append(value[2], numSymbols, depth + 1);
        steps.push_back({opcode, 0});
        return;
      }
  throw malformed("an expression is none of a number, a symbol and "
                  "[operator, left, right] with add, mul, mod, floordiv or "
                  "ceildiv");
}

bool Expression::isConstant() const {
  for (Step step : steps)
    if (step.opcode == Opcode::Symbol)
      return false;
  return true;
}

std::optional<size_t> Expression::getSymbol() const {
  if (steps.size() == 1 && steps[0].opcode == Opcode::Symbol)
    return static_cast<size_t>(steps[0].operand);
  return std::nullopt;
}

int64_t Expression::evaluate(const int64_t *symbols) const {
  int64_t stack[kMaxDepth + 2];
  unsigned size = 0;
  for (Step step : steps) {
    if (step.opcode == Opcode::Constant) {
      stack[size++] = step.operand;
      continue;
    }
    if (step.opcode == Opcode::Symbol) {
      stack[size++] = symbols[step.operand];
      continue;
    }
    int64_t right = stack[--size];
    int64_t left = stack[size - 1];
    int64_t result = 0;
    bool overflow = false;
    if (step.opcode == Opcode::Add) {
      overflow = __builtin_add_overflow(left, right, &result);
    } else if (step.opcode == Opcode::Mul) {
      overflow = __builtin_mul_overflow(left, right, &result);
    } else {
      if (right <= 0)
        throw Failure(FUSE_ERROR_TENSOR,
                      "a size is divided by " + std::to_string(right));
      int64_t quotient = left / right, rest = left % right;
      if (rest < 0) {
        rest += right;
        --quotient;
      }
      result = step.opcode == Opcode::Mod     ? rest
               : step.opcode == Opcode::Floor ? quotient
                                              : quotient + (rest != 0);
    }
    if (overflow)
      throw Failure(FUSE_ERROR_TENSOR, "a size does not fit into 64 bits");
    stack[size - 1] = result;
  }
  return stack[0];
}
