//===- PtxParser.h - The parser of PTX text ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A recursive-descent parser in one pass without a lexer: the next character
// determines the rule. Two things are only known at the end of a kernel, where
// they are filled in: labels, and the address of dynamic shared memory, which
// follows all static variables.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_PTX_PTXPARSER_H
#define FUSE_EMULATOR_PTX_PTXPARSER_H

#include "ptx/Ptx.h"

#include <stdexcept>
#include <unordered_map>

namespace fuse::emulator::ptx {

/// Limits that protect the host from damaged text.
constexpr uint64_t kMaxRegisters = 1 << 20;
constexpr uint64_t kMaxLocalBytes = 512 << 10;
constexpr uint64_t kMaxSharedBytes = 1 << 20;
constexpr uint64_t kMaxGlobalBytes = 1 << 30;
constexpr uint64_t kMaxParameterBytes = 32764;
constexpr size_t kMaxDepth = 64;

/// A declared name. Ranges such as `%r<690>` are not symbols.
struct Symbol {
  enum class Kind : uint8_t {
    Register, ///< Number `value` of `bits` bits.
    Address,  ///< The address is `value`.
    Shared,   ///< Of the module: each kernel that uses it has a copy.
    Dynamic,  ///< `.extern .shared`
    Label,    ///< Instruction `value`.
    Targets,  ///< `.branchtargets`
  };
  Kind kind;
  uint64_t value = 0;
  unsigned bits = 0;
  uint64_t bytes = 0;
  unsigned alignment = 1;
  std::vector<std::string_view> targets;
};

/// `%r<690>`
struct Range {
  uint32_t first, count;
  unsigned bits;
};

/// An operand with a name that is not declared yet: a label, or an error.
struct Pending {
  size_t instruction, operand;
  std::string_view name;
  unsigned line;
};

struct Scope {
  std::unordered_map<std::string_view, Symbol> symbols;
  std::unordered_map<std::string_view, Range> ranges;
  std::vector<Pending> pending;
};

/// The value of a constant expression.
struct Constant {
  enum class Kind : uint8_t { Integer, Single, Double } kind = Kind::Integer;
  uint64_t bits = 0;
  /// Whether the value is relative to dynamic shared memory.
  bool isDynamic = false;
};

/// A declaration of a variable.
struct Declaration {
  std::string_view name;
  unsigned elementBytes = 0, alignment = 0;
  uint64_t bytes = 0;
  bool isUnbounded = false;
};

inline bool isWord(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

inline bool isDigit(char c) { return c >= '0' && c <= '9'; }

class Parser {
public:
  Parser(std::string_view text, const Allocate &allocate)
      : text(text), allocate(allocate) {}

  ParsedModule parse();

private:
  //===--------------------------------------------------------------------===//
  // Characters and words
  //===--------------------------------------------------------------------===//

  [[noreturn]] void fail(const std::string &what, unsigned where = 0) const {
    throw std::runtime_error("line " + std::to_string(where ? where : line) +
                             ": " + what);
  }
  [[noreturn]] void failAtNext(const std::string &expected);
  void skipSpace();
  void skipLine();
  void skipSection();
  char peek() {
    skipSpace();
    return at < text.size() ? text[at] : '\0';
  }
  bool accept(char c) {
    if (peek() != c)
      return false;
    ++at;
    return true;
  }
  void expect(char c) {
    if (!accept(c))
      failAtNext(std::string("'") + c + "'");
  }
  std::string_view parseWord(const char *expected);
  /// A word after a dot, including `::` and what follows it.
  std::string_view parsePart();
  uint64_t parseCount();

  //===--------------------------------------------------------------------===//
  // Names and numbers
  //===--------------------------------------------------------------------===//

  const Symbol *find(std::string_view name) const;
  bool findRegister(std::string_view name, Operand &result) const;
  void declare(std::string_view name, Symbol symbol);
  uint32_t reserve(uint64_t &end, uint64_t bytes, unsigned alignment,
                   uint64_t limit, std::string_view name);
  Constant getAddress(std::string_view name, const Symbol &symbol);
  Constant parseNumber();
  Constant parsePrimary(size_t depth);
  Constant parseExpression(int precedence = 0, size_t depth = 0);
  uint64_t parseInteger();

  //===--------------------------------------------------------------------===//
  // Statements
  //===--------------------------------------------------------------------===//

  unsigned parseAlignment();
  Declaration parseDeclaration(unsigned elementBytes, unsigned alignment);
  void parseInitializer(std::vector<uint8_t> &bytes,
                        const Declaration &variable, size_t &position,
                        size_t depth);
  void parseVariables(StateSpace space, bool isExtern);
  void parseRegisters();
  void parseParameters();
  void parseKernelDirectives();
  void parseVersion();
  void parseKernel();
  void parseBody();
  void parseDirective(std::string_view part);
  void parseTargets(std::string_view label);
  void parseInstruction(std::string_view first, unsigned where,
                        const Operand &guard);
  Operand parseOperand(std::string_view &label);
  Operand parseInner(const char *where);
  Operand parseAddress();
  Operand makeConstant(const Constant &constant) const;
  void endScope();
  void resolve(const Pending &pending, const Symbol &symbol,
               const Scope &scope);
  void moveDynamic(Operand &operand) const;

  std::string_view text;
  const Allocate &allocate;
  size_t at = 0;
  unsigned line = 1;
  ParsedModule module;
  /// Scopes of the module, of the parameters of a kernel, and of nested blocks.
  std::vector<Scope> scopes;

  // State of the current kernel.
  ParsedKernel *kernel = nullptr;
  uint64_t sharedEnd = 0, localEnd = 0;
  unsigned dynamicAlignment = 0;
  std::unordered_map<std::string_view, uint32_t> sharedOffsets;
  /// Whether a number with a decimal point becomes a single in this
  /// instruction.
  bool isSingle = false;
};

} // namespace fuse::emulator::ptx

#endif // FUSE_EMULATOR_PTX_PTXPARSER_H
