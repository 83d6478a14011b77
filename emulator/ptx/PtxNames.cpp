//===- PtxNames.cpp - The parser of words, names and numbers --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ptx/PtxParser.h"

#include <algorithm>
#include <charconv>
#include <cstring>

using namespace fuse::emulator;
using namespace fuse::emulator::ptx;

//===----------------------------------------------------------------------===//
// Characters and words
//===----------------------------------------------------------------------===//

void Parser::failAtNext(const std::string &expected) {
  if (peek() == '\0' && at >= text.size())
    fail("expected " + expected + " before the end of the text");
  size_t end = at;
  while (end < text.size() && end - at < 32 && isWord(text[end]))
    ++end;
  std::string found(text.substr(at, std::max<size_t>(end - at, 1)));
  if (static_cast<unsigned char>(found[0]) < ' ' ||
      static_cast<unsigned char>(found[0]) > '~')
    found = "character " + std::to_string(static_cast<unsigned char>(found[0]));
  else
    found = "'" + found + "'";
  fail("expected " + expected + ", got " + found);
}

void Parser::skipSpace() {
  while (at < text.size()) {
    char c = text[at];
    if (c == '\n') {
      ++line;
      ++at;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++at;
    } else if (c == '/' && text.substr(at, 2) == "//") {
      skipLine();
    } else if (c == '/' && text.substr(at, 2) == "/*") {
      size_t end = text.find("*/", at + 2);
      if (end == text.npos)
        fail("the comment does not end");
      line += std::count(text.begin() + at, text.begin() + end, '\n');
      at = end + 2;
    } else {
      return;
    }
  }
}

void Parser::skipLine() { at = std::min(text.find('\n', at), text.size()); }

/// `.section .debug_info { ... }`
void Parser::skipSection() {
  unsigned where = line;
  size_t begin = text.find('{', at);
  size_t end = begin == text.npos ? begin : text.find('}', begin);
  if (end == text.npos)
    fail("the section does not end", where);
  line += std::count(text.begin() + at, text.begin() + end, '\n');
  at = end + 1;
}

std::string_view Parser::parseWord(const char *expected) {
  if (!isWord(peek()))
    failAtNext(expected);
  size_t begin = at;
  while (at < text.size() && isWord(text[at]))
    ++at;
  return text.substr(begin, at - begin);
}

std::string_view Parser::parsePart() {
  size_t begin = at;
  do {
    if (at < text.size() && text[at] == ':')
      at += 2;
    size_t word = at;
    while (at < text.size() && isWord(text[at]))
      ++at;
    if (word == at)
      failAtNext("a word after '.'");
  } while (text.substr(at, 2) == "::");
  return text.substr(begin, at - begin);
}

uint64_t Parser::parseCount() {
  if (!isDigit(peek()))
    failAtNext("a number");
  return parseInteger();
}

//===----------------------------------------------------------------------===//
// Names and numbers
//===----------------------------------------------------------------------===//

const Symbol *Parser::find(std::string_view name) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto found = scope->symbols.find(name); found != scope->symbols.end())
      return &found->second;
  return nullptr;
}

/// A single register, or one of a range: `%r12` is the third of `%r1<5>` or the
/// thirteenth of `%r<20>`.
bool Parser::findRegister(std::string_view name, Operand &result) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
    if (auto found = scope->symbols.find(name); found != scope->symbols.end()) {
      if (found->second.kind != Symbol::Kind::Register)
        return false;
      result.index = found->second.value;
      result.value = found->second.bits;
      break;
    }
    uint64_t number = 0, digit = 1;
    bool isFound = false;
    for (size_t split = name.size();
         split > 1 && isDigit(name[split - 1]) && digit <= kMaxRegisters;
         digit *= 10) {
      number += digit * (name[--split] - '0');
      // A register number has no leading zeros.
      if (name[split] == '0' && split + 1 != name.size())
        continue;
      auto range = scope->ranges.find(name.substr(0, split));
      if (range == scope->ranges.end() || number >= range->second.count)
        continue;
      result.index = range->second.first + number;
      result.value = range->second.bits;
      isFound = true;
      break;
    }
    if (isFound)
      break;
    if (scope + 1 == scopes.rend())
      return false;
  }
  result.kind = Operand::Kind::Register;
  return true;
}

void Parser::declare(std::string_view name, Symbol symbol) {
  if (!scopes.back().symbols.emplace(name, std::move(symbol)).second)
    fail("'" + std::string(name) + "' is declared twice");
}

/// Reserves memory after `end` and advances `end`.
uint32_t Parser::reserve(uint64_t &end, uint64_t bytes, unsigned alignment,
                         uint64_t limit, std::string_view name) {
  uint64_t begin = (end + alignment - 1) / alignment * alignment;
  if (bytes > limit || begin + bytes > limit)
    fail("no memory for the " + std::to_string(bytes) + " bytes of '" +
         std::string(name) + "', there are " + std::to_string(limit));
  end = begin + bytes;
  return begin;
}

Constant Parser::getAddress(std::string_view name, const Symbol &symbol) {
  Constant result;
  switch (symbol.kind) {
  case Symbol::Kind::Address:
    result.bits = symbol.value;
    return result;
  case Symbol::Kind::Shared: {
    if (!kernel)
      break;
    auto [found, isNew] = sharedOffsets.try_emplace(name, 0);
    if (isNew)
      found->second = reserve(sharedEnd, symbol.bytes, symbol.alignment,
                              kMaxSharedBytes, name);
    result.bits = found->second;
    return result;
  }
  case Symbol::Kind::Dynamic:
    if (!kernel)
      break;
    dynamicAlignment = std::max(dynamicAlignment, symbol.alignment);
    result.isDynamic = true;
    return result;
  case Symbol::Kind::Register:
  case Symbol::Kind::Label:
  case Symbol::Kind::Targets:
    break;
  }
  fail("'" + std::string(name) + "' has no address here");
}

Constant Parser::parseNumber() {
  size_t begin = at;
  Constant result;
  auto parseBits = [&](size_t skip, int base, size_t digits) {
    const char *end = text.data() + text.size();
    auto [last, error] = std::from_chars(
        text.data() + begin + skip,
        digits ? std::min(end, text.data() + begin + skip + digits) : end,
        result.bits, base);
    at = last - text.data();
    if (error != std::errc() || (digits && at - begin - skip != digits))
      fail("'" + std::string(text.substr(begin, 24)) + "' is not a number");
    if (at < text.size() && text[at] == 'U' && !digits)
      ++at;
    if (at < text.size() && isWord(text[at]))
      fail("'" + std::string(text.substr(begin, at + 1 - begin)) +
           "' is not a number");
  };
  char kind = text[at] == '0' && at + 1 < text.size() ? text[at + 1] : '\0';
  switch (kind) {
  case 'f':
  case 'F':
    parseBits(2, 16, 8);
    result.kind = Constant::Kind::Single;
    return result;
  case 'd':
  case 'D':
    parseBits(2, 16, 16);
    result.kind = Constant::Kind::Double;
    return result;
  case 'x':
  case 'X':
    parseBits(2, 16, 0);
    return result;
  case 'b':
  case 'B':
    parseBits(2, 2, 0);
    return result;
  default:
    break;
  }
  size_t end = at;
  while (end < text.size() && isDigit(text[end]))
    ++end;
  if (end < text.size() &&
      (text[end] == '.' || text[end] == 'e' || text[end] == 'E')) {
    double value;
    auto [last, error] =
        std::from_chars(text.data() + begin, text.data() + text.size(), value);
    at = last - text.data();
    if (error != std::errc() || (at < text.size() && isWord(text[at])))
      fail("'" + std::string(text.substr(begin, at + 1 - begin)) +
           "' is not a number");
    std::memcpy(&result.bits, &value, sizeof(value));
    result.kind = Constant::Kind::Double;
    return result;
  }
  // A leading zero makes a number octal.
  parseBits(0, end - begin > 1 && text[begin] == '0' ? 8 : 10, 0);
  return result;
}

Constant Parser::parsePrimary(size_t depth) {
  if (depth > kMaxDepth)
    fail("the expression is nested too deep");
  char c = peek();
  if (isDigit(c))
    return parseNumber();
  if (accept('(')) {
    Constant result = parseExpression(0, depth + 1);
    expect(')');
    return result;
  }
  if (c == '-' || c == '+' || c == '~') {
    ++at;
    Constant result = parsePrimary(depth + 1);
    if (result.isDynamic)
      fail("an address cannot be negated");
    if (c == '-' && result.kind == Constant::Kind::Integer)
      result.bits = -result.bits;
    else if (c == '-')
      result.bits ^= result.kind == Constant::Kind::Single ? uint64_t(1) << 31
                                                           : uint64_t(1) << 63;
    else if (c == '~')
      result.bits = ~result.bits;
    return result;
  }
  if (!isWord(c))
    failAtNext("an operand");
  std::string_view name = parseWord("a name");
  if (name == "WARP_SZ") {
    Constant result;
    result.bits = 32;
    return result;
  }
  // The generic address of a global variable is its address.
  if (name == "generic" && accept('(')) {
    Constant result = parsePrimary(depth + 1);
    expect(')');
    return result;
  }
  if (const Symbol *symbol = find(name))
    return getAddress(name, *symbol);
  fail("there is no '" + std::string(name) + "'");
}

/// The precedence of the operator at the beginning of `text`, or zero.
static int getPrecedence(std::string_view text) {
  switch (text.empty() ? '\0' : text[0]) {
  case '*':
  case '/':
  case '%':
    return 6;
  case '+':
  case '-':
    return 5;
  case '<':
    return text.substr(0, 2) == "<<" ? 4 : 0;
  case '>':
    return text.substr(0, 2) == ">>" ? 4 : 0;
  case '&':
    return 3;
  case '^':
    return 2;
  case '|':
    return 1;
  default:
    return 0;
  }
}

Constant Parser::parseExpression(int precedence, size_t depth) {
  Constant left = parsePrimary(depth);
  for (;;) {
    peek();
    int strength = getPrecedence(text.substr(std::min(at, text.size())));
    if (strength <= precedence)
      return left;
    char op = text[at];
    at += strength == 4 ? 2 : 1;
    Constant right = parseExpression(strength, depth + 1);
    if (left.kind != Constant::Kind::Integer ||
        right.kind != Constant::Kind::Integer)
      fail("only integers are computed with");
    if (right.isDynamic ? op != '+' || left.isDynamic
                        : left.isDynamic && op != '+' && op != '-')
      fail("addresses have only offsets");
    left.isDynamic |= right.isDynamic;
    uint64_t a = left.bits, b = right.bits;
    if ((op == '/' || op == '%') && b == 0)
      fail("division by zero");
    switch (op) {
    case '*':
      left.bits = a * b;
      break;
    case '/':
      left.bits = a / b;
      break;
    case '%':
      left.bits = a % b;
      break;
    case '+':
      left.bits = a + b;
      break;
    case '-':
      left.bits = a - b;
      break;
    case '<':
      left.bits = b < 64 ? a << b : 0;
      break;
    case '>':
      left.bits = b < 64 ? a >> b : 0;
      break;
    case '&':
      left.bits = a & b;
      break;
    case '^':
      left.bits = a ^ b;
      break;
    default:
      left.bits = a | b;
      break;
    }
  }
}

uint64_t Parser::parseInteger() {
  Constant result = parseExpression();
  if (result.kind != Constant::Kind::Integer || result.isDynamic)
    fail("expected an integer");
  return result.bits;
}
