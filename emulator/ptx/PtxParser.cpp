//===- PtxParser.cpp - The parser of declarations, instructions -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ptx/PtxParser.h"

#include <algorithm>
#include <cstring>

using namespace fuse::emulator;
using namespace fuse::emulator::ptx;

/// Bytes of a fundamental type, or zero for other names.
static unsigned getBytes(std::string_view type) {
  static const std::unordered_map<std::string_view, unsigned> bytes = {
      {"b8", 1},  {"u8", 1},     {"s8", 1},  {"b16", 2}, {"u16", 2},
      {"s16", 2}, {"f16", 2},    {"b32", 4}, {"u32", 4}, {"s32", 4},
      {"f32", 4}, {"f16x2", 4},  {"b64", 8}, {"u64", 8}, {"s64", 8},
      {"f64", 8}, {"bf16x2", 4}, {"bf16", 2}};
  auto found = bytes.find(type);
  return found == bytes.end() ? 0 : found->second;
}

static const std::unordered_map<std::string_view, Special> &getSpecials() {
  static const std::unordered_map<std::string_view, Special> specials = {
      {"%tid.x", Special::TidX},
      {"%tid.y", Special::TidY},
      {"%tid.z", Special::TidZ},
      {"%ntid.x", Special::NtidX},
      {"%ntid.y", Special::NtidY},
      {"%ntid.z", Special::NtidZ},
      {"%ctaid.x", Special::CtaidX},
      {"%ctaid.y", Special::CtaidY},
      {"%ctaid.z", Special::CtaidZ},
      {"%nctaid.x", Special::NctaidX},
      {"%nctaid.y", Special::NctaidY},
      {"%nctaid.z", Special::NctaidZ},
      {"%cluster_ctaid.x", Special::ClusterCtaidX},
      {"%cluster_ctaid.y", Special::ClusterCtaidY},
      {"%cluster_ctaid.z", Special::ClusterCtaidZ},
      {"%cluster_nctaid.x", Special::ClusterNctaidX},
      {"%cluster_nctaid.y", Special::ClusterNctaidY},
      {"%cluster_nctaid.z", Special::ClusterNctaidZ},
      {"%clusterid.x", Special::ClusterIdX},
      {"%clusterid.y", Special::ClusterIdY},
      {"%clusterid.z", Special::ClusterIdZ},
      {"%nclusterid.x", Special::NclusterIdX},
      {"%nclusterid.y", Special::NclusterIdY},
      {"%nclusterid.z", Special::NclusterIdZ},
      {"%cluster_ctarank", Special::ClusterCtarank},
      {"%cluster_nctarank", Special::ClusterNctarank},
      {"%laneid", Special::LaneId},
      {"%warpid", Special::WarpId},
      {"%nwarpid", Special::NwarpId},
      {"%smid", Special::SmId},
      {"%nsmid", Special::NsmId},
      {"%gridid", Special::GridId},
      {"%clock", Special::Clock},
      {"%clock64", Special::Clock64},
      {"%globaltimer", Special::GlobalTimer},
      {"%globaltimer_lo", Special::GlobalTimerLo},
      {"%globaltimer_hi", Special::GlobalTimerHi},
      {"%lanemask_eq", Special::LanemaskEq},
      {"%lanemask_lt", Special::LanemaskLt},
      {"%lanemask_le", Special::LanemaskLe},
      {"%lanemask_gt", Special::LanemaskGt},
      {"%lanemask_ge", Special::LanemaskGe},
      {"%dynamic_smem_size", Special::DynamicSmemSize},
      {"%total_smem_size", Special::TotalSmemSize}};
  return specials;
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

unsigned Parser::parseAlignment() {
  uint64_t alignment = parseCount();
  if (alignment == 0 || (alignment & (alignment - 1)) || alignment > 1 << 20)
    fail("an alignment of " + std::to_string(alignment) +
         " is not a power of two up to 1048576");
  return alignment;
}

/// `name`, `name[4][8]` or `name[]`.
Declaration Parser::parseDeclaration(unsigned elementBytes,
                                     unsigned alignment) {
  Declaration result;
  result.name = parseWord("a name");
  result.elementBytes = elementBytes;
  result.alignment = alignment ? alignment : elementBytes;
  result.bytes = elementBytes;
  while (accept('[')) {
    if (accept(']')) {
      result.isUnbounded = true;
      continue;
    }
    uint64_t count = parseCount();
    if (count > kMaxGlobalBytes || result.bytes * count > kMaxGlobalBytes)
      fail("'" + std::string(result.name) + "' is too large");
    result.bytes *= count;
    expect(']');
  }
  return result;
}

/// Missing elements are zero. Inner braces are flattened, which is correct only
/// if all inner initializers are complete. LLVM writes only such.
void Parser::parseInitializer(std::vector<uint8_t> &bytes,
                              const Declaration &variable, size_t &position,
                              size_t depth) {
  if (accept('{')) {
    if (depth > kMaxDepth)
      fail("the initializer is nested too deep");
    if (accept('}'))
      return;
    do
      parseInitializer(bytes, variable, position, depth + 1);
    while (accept(','));
    expect('}');
    return;
  }
  Constant value = parseExpression();
  if (value.kind == Constant::Kind::Double && isSingle) {
    double wide;
    std::memcpy(&wide, &value.bits, sizeof(wide));
    auto narrow = static_cast<float>(wide);
    value.bits = 0;
    std::memcpy(&value.bits, &narrow, sizeof(narrow));
  }
  if (position + variable.elementBytes > bytes.size())
    fail("'" + std::string(variable.name) + "' has " +
         std::to_string(bytes.size()) + " bytes, the initializer has more");
  std::memcpy(bytes.data() + position, &value.bits, variable.elementBytes);
  position += variable.elementBytes;
}

/// `.align 4 .b8 name[512], other;` after the space.
void Parser::parseVariables(StateSpace space, bool isExtern) {
  unsigned alignment = 0, elementBytes = 0, elements = 1;
  while (accept('.')) {
    std::string_view part = parsePart();
    if (part == "align")
      alignment = parseAlignment();
    else if (part == "v2" || part == "v4")
      elements = part[1] - '0';
    else if (!(elementBytes = getBytes(part)))
      fail("the emulator does not know variables of ." + std::string(part));
    isSingle = part == "f32";
  }
  if (!elementBytes)
    failAtNext("a type");
  do {
    Declaration variable = parseDeclaration(elementBytes, alignment);
    variable.bytes *= elements;
    if (!alignment)
      variable.alignment *= elements;
    Symbol symbol;
    symbol.bytes = variable.bytes;
    symbol.alignment = variable.alignment;
    std::vector<uint8_t> bytes;
    bool isInitialized = accept('=');
    if (isInitialized && (space != StateSpace::Global || isExtern))
      fail("'" + std::string(variable.name) + "' cannot have an initializer");
    if (variable.isUnbounded && !(isExtern && space == StateSpace::SharedCta))
      fail("'" + std::string(variable.name) + "' has no size");
    switch (space) {
    case StateSpace::SharedCta:
      symbol.kind = isExtern ? Symbol::Kind::Dynamic : Symbol::Kind::Shared;
      if (kernel && !isExtern) {
        symbol.kind = Symbol::Kind::Address;
        symbol.value = reserve(sharedEnd, symbol.bytes, symbol.alignment,
                               kMaxSharedBytes, variable.name);
      }
      break;
    case StateSpace::Local:
      if (!kernel)
        fail("local variables belong to kernels");
      symbol.kind = Symbol::Kind::Address;
      symbol.value = reserve(localEnd, symbol.bytes, symbol.alignment,
                             kMaxLocalBytes, variable.name);
      break;
    case StateSpace::Global:
      if (isExtern)
        fail("'" + std::string(variable.name) + "' belongs to another module");
      bytes.resize(variable.bytes);
      if (isInitialized) {
        size_t position = 0;
        parseInitializer(bytes, variable, position, 0);
      }
      symbol.kind = Symbol::Kind::Address;
      symbol.value = allocate(bytes, variable.alignment);
      module.variables.push_back(
          {std::string(variable.name), symbol.value, variable.bytes});
      break;
    default: // No caller passes another space.
      break;
    }
    declare(variable.name, std::move(symbol));
  } while (accept(','));
  expect(';');
}

/// `.pred %p<2>, q;`
void Parser::parseRegisters() {
  expect('.');
  std::string_view type = parsePart();
  unsigned bits = type == "pred" ? 1 : 8 * getBytes(type);
  if (!bits)
    fail("the emulator does not know registers of ." + std::string(type));
  do {
    std::string_view name = parseWord("the name of a register");
    uint32_t first = kernel->numRegisters;
    uint64_t count = 1;
    bool isRange = accept('<');
    if (isRange) {
      count = parseCount();
      expect('>');
    }
    if (count > kMaxRegisters || first + count > kMaxRegisters)
      fail("more than " + std::to_string(kMaxRegisters) + " registers");
    kernel->numRegisters += count;
    if (!isRange) {
      Symbol symbol;
      symbol.kind = Symbol::Kind::Register;
      symbol.value = first;
      symbol.bits = bits;
      declare(name, std::move(symbol));
    } else if (!scopes.back()
                    .ranges
                    .try_emplace(
                        name, Range{first, static_cast<uint32_t>(count), bits})
                    .second) {
      fail("'" + std::string(name) + "' is declared twice");
    }
  } while (accept(','));
  expect(';');
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// `.param .u64 .ptr .global .align 16 name, .param .align 64 .b8 name[128]`.
void Parser::parseParameters() {
  if (!accept('(') || accept(')'))
    return;
  uint64_t end = 0;
  do {
    expect('.');
    if (parsePart() != "param")
      fail("expected .param");
    unsigned alignment = 0, elementBytes = 0;
    bool isPointer = false;
    while (accept('.')) {
      std::string_view part = parsePart();
      if (part == "ptr") {
        isPointer = true;
      } else if (part == "align") {
        // After .ptr this is the alignment of the referenced memory.
        unsigned count = parseAlignment();
        if (!isPointer)
          alignment = count;
      } else if (unsigned bytes = getBytes(part)) {
        elementBytes = bytes;
      } else if (!isPointer || (part != "global" && part != "shared" &&
                                part != "local" && part != "const")) {
        fail("the emulator does not know parameters with ." +
             std::string(part));
      }
    }
    if (!elementBytes)
      failAtNext("a type");
    Declaration parameter = parseDeclaration(elementBytes, alignment);
    if (parameter.isUnbounded)
      fail("'" + std::string(parameter.name) + "' has no size");
    uint32_t offset = reserve(end, parameter.bytes, parameter.alignment,
                              kMaxParameterBytes, parameter.name);
    kernel->parameters.push_back({std::string(parameter.name), offset,
                                  static_cast<uint32_t>(parameter.bytes)});
    Symbol symbol;
    symbol.kind = Symbol::Kind::Address;
    symbol.value = offset;
    declare(parameter.name, std::move(symbol));
  } while (accept(','));
  expect(')');
  kernel->parameterBytes = end;
}

/// Directives between the parameters and the body.
void Parser::parseKernelDirectives() {
  auto parseCounts = [&] {
    std::array<unsigned, 3> counts{1, 1, 1};
    size_t i = 0;
    do {
      uint64_t count = parseCount();
      if (i == 3 || count == 0 || count > UINT16_MAX)
        fail("expected up to three numbers from 1 to 65535");
      counts[i++] = count;
    } while (accept(','));
    return counts;
  };
  while (accept('.')) {
    std::string_view part = parsePart();
    if (part == "maxntid") {
      auto counts = parseCounts();
      uint64_t product = uint64_t(counts[0]) * counts[1] * counts[2];
      kernel->maxThreads = std::min<uint64_t>(product, UINT32_MAX);
    } else if (part == "reqntid") {
      kernel->requiredThreads = parseCounts();
    } else if (part == "reqnctapercluster") {
      kernel->requiredCluster = parseCounts();
    } else if (part == "minnctapersm") {
      kernel->minBlocks = parseCounts()[0];
    } else if (part == "maxnreg") {
      kernel->maxRegisters = parseCounts()[0];
    } else if (part == "maxclusterrank") {
      parseCounts();
    } else if (part == "pragma") {
      at = std::min(text.find(';', at), text.size());
      expect(';');
    } else if (part != "explicitcluster" && part != "noreturn") {
      fail("the emulator does not know the directive ." + std::string(part));
    }
  }
}

void Parser::parseKernel() {
  std::string_view name = parseWord("the name of a kernel");
  ParsedKernel result;
  result.name = name;
  kernel = &result;
  sharedEnd = kSharedBase;
  localEnd = 0;
  dynamicAlignment = 0;
  sharedOffsets.clear();
  scopes.emplace_back();
  parseParameters();
  parseKernelDirectives();
  // A declaration has no information that the definition lacks.
  if (!accept(';')) {
    expect('{');
    parseBody();
    if (dynamicAlignment) {
      result.dynamicShared = reserve(sharedEnd, 0, dynamicAlignment,
                                     2 * kMaxSharedBytes, "dynamic memory");
      for (ParsedInstruction &instruction : result.instructions)
        for (Operand &operand : instruction.operands)
          moveDynamic(operand);
    } else {
      result.dynamicShared = sharedEnd;
    }
    result.localBytes = localEnd;
    if (!module.kernels.emplace(name, std::move(result)).second)
      fail("the kernel '" + std::string(name) + "' is defined twice");
  }
  scopes.pop_back();
  kernel = nullptr;
}

/// From after the opening brace to the closing brace.
void Parser::parseBody() {
  size_t outer = scopes.size();
  scopes.emplace_back();
  while (scopes.size() > outer) {
    char c = peek();
    unsigned where = line;
    Operand guard;
    switch (c) {
    case ';':
      ++at;
      continue;
    case '{':
      ++at;
      if (scopes.size() > kMaxDepth)
        fail("blocks are nested too deep");
      scopes.emplace_back();
      continue;
    case '}':
      ++at;
      endScope();
      continue;
    case '.':
      ++at;
      parseDirective(parsePart());
      continue;
    case '@': {
      ++at;
      bool isNegated = accept('!');
      std::string_view name = parseWord("a predicate");
      if (!findRegister(name, guard) || guard.value != 1)
        fail("'" + std::string(name) + "' is not a predicate");
      guard.isNegated = isNegated;
      break;
    }
    default:
      break;
    }
    std::string_view word = parseWord("an instruction");
    if (c != '@' && accept(':')) {
      std::string_view part = accept('.') ? parsePart() : std::string_view();
      if (part == "branchtargets") {
        parseTargets(word);
        continue;
      }
      Symbol label;
      label.kind = Symbol::Kind::Label;
      label.value = kernel->instructions.size();
      declare(word, std::move(label));
      if (!part.empty())
        parseDirective(part);
      continue;
    }
    parseInstruction(word, where, guard);
  }
  ParsedInstruction end;
  end.line = line;
  end.opcode = {"ret"};
  kernel->instructions.push_back(std::move(end));
}

/// A directive in a body, whose name is `part`.
void Parser::parseDirective(std::string_view part) {
  if (part == "reg") {
    parseRegisters();
  } else if (part == "shared") {
    parseVariables(StateSpace::SharedCta, false);
  } else if (part == "local") {
    parseVariables(StateSpace::Local, false);
  } else if (part == "global" || part == "const") {
    parseVariables(StateSpace::Global, false);
  } else if (part == "extern" && accept('.')) {
    if (parsePart() != "shared")
      fail("only shared variables can be .extern in a kernel");
    parseVariables(StateSpace::SharedCta, true);
  } else if (part == "loc" || part == "file") {
    skipLine();
  } else if (part == "section") {
    skipSection();
  } else if (part == "pragma") {
    at = std::min(text.find(';', at), text.size());
    expect(';');
  } else {
    fail("the emulator does not know the directive ." + std::string(part));
  }
}

void Parser::parseTargets(std::string_view label) {
  Symbol symbol;
  symbol.kind = Symbol::Kind::Targets;
  do
    symbol.targets.push_back(parseWord("a label"));
  while (accept(','));
  expect(';');
  declare(label, std::move(symbol));
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void Parser::parseInstruction(std::string_view first, unsigned where,
                              const Operand &guard) {
  if (isDigit(first[0]) || first[0] == '%')
    fail("expected an instruction, got '" + std::string(first) + "'", where);
  if (first == "call")
    fail("functions are not called in the emulator", where);
  ParsedInstruction result;
  result.line = where;
  result.guard = guard;
  result.opcode.emplace_back(first);
  while (accept('.'))
    result.opcode.emplace_back(parsePart());
  isSingle = result.opcode.back() == "f32";
  if (!accept(';')) {
    do {
      std::string_view label;
      result.operands.push_back(parseOperand(label));
      if (!label.empty())
        scopes.back().pending.push_back({kernel->instructions.size(),
                                         result.operands.size() - 1, label,
                                         where});
    } while (accept(',') || (result.operands.size() == 1 && accept('|')));
    expect(';');
  }
  kernel->instructions.push_back(std::move(result));
}

Operand Parser::makeConstant(const Constant &constant) const {
  Operand result;
  result.kind = Operand::Kind::Immediate;
  result.value = constant.bits;
  if (constant.kind == Constant::Kind::Double && isSingle) {
    double wide;
    std::memcpy(&wide, &constant.bits, sizeof(wide));
    auto narrow = static_cast<float>(wide);
    uint32_t bits;
    std::memcpy(&bits, &narrow, sizeof(bits));
    result.value = bits;
  }
  // Used by moveDynamic.
  result.index = constant.isDynamic;
  return result;
}

/// Sets `label` if the operand is a name that is not declared yet.
Operand Parser::parseOperand(std::string_view &label) {
  char c = peek();
  Operand result;
  if (c == '[')
    return parseAddress();
  if (accept('{')) {
    result.kind = Operand::Kind::Vector;
    do
      result.parts.push_back(parseInner("a vector"));
    while (accept(','));
    expect('}');
    return result;
  }
  if (accept('!')) {
    std::string_view name = parseWord("a predicate");
    if (!findRegister(name, result) || result.value != 1)
      fail("'" + std::string(name) + "' is not a predicate");
    result.isNegated = true;
    return result;
  }
  if (!isWord(c) || isDigit(c))
    return makeConstant(parseExpression());
  size_t begin = at;
  std::string_view name = parseWord("an operand");
  if (name == "_")
    return result;
  if (findRegister(name, result))
    return result;
  if (name[0] == '%') {
    if (at < text.size() && text[at] == '.') {
      ++at;
      parsePart();
      name = text.substr(begin, at - begin);
    }
    auto special = getSpecials().find(name);
    if (special == getSpecials().end())
      fail("there is no register '" + std::string(name) + "'");
    result.kind = Operand::Kind::Special;
    result.index = static_cast<uint32_t>(special->second);
    return result;
  }
  const Symbol *symbol = find(name);
  if (name == "WARP_SZ" || (symbol && symbol->kind != Symbol::Kind::Label &&
                            symbol->kind != Symbol::Kind::Targets)) {
    at = begin;
    return makeConstant(parseExpression());
  }
  label = name;
  return result;
}

/// An operand that may be nested in another one.
Operand Parser::parseInner(const char *where) {
  std::string_view label;
  if (peek() == '{' || peek() == '[')
    fail(std::string("expected a register or a number in ") + where);
  Operand result = parseOperand(label);
  if (!label.empty())
    fail("there is no '" + std::string(label) + "'");
  return result;
}

/// `[base]`, `[base+4]`, `[base+-4]`, `[base, {x, y}]`.
Operand Parser::parseAddress() {
  expect('[');
  Operand result;
  result.kind = Operand::Kind::Address;
  Operand base = parseInner("an address");
  if (base.kind == Operand::Kind::Immediate) {
    result.value = base.value;
    result.index = base.index;
    base.value = 0;
    base.index = 0;
  } else if (base.kind != Operand::Kind::Register || base.value == 1) {
    fail("expected a register or a variable in an address");
  }
  result.parts.push_back(std::move(base));
  char c = peek();
  if (c == '+' || c == '-') {
    // A minus is part of the number, so that `-4+8` is 4.
    if (c == '+')
      ++at;
    Constant offset = parseExpression();
    if (offset.kind != Constant::Kind::Integer ||
        (offset.isDynamic && result.index))
      fail("expected an integer in an address");
    result.value += offset.bits;
    result.index |= offset.isDynamic;
  }
  if (accept(',')) {
    expect('{');
    do
      result.parts.push_back(parseInner("coordinates"));
    while (accept(','));
    expect('}');
  }
  expect(']');
  return result;
}

//===----------------------------------------------------------------------===//
// The end of a scope
//===----------------------------------------------------------------------===//

/// Labels are visible in their block and in nested blocks.
void Parser::endScope() {
  Scope scope = std::move(scopes.back());
  scopes.pop_back();
  for (Pending &pending : scope.pending) {
    auto found = scope.symbols.find(pending.name);
    if (found != scope.symbols.end())
      resolve(pending, found->second, scope);
    // The scope around the body of a kernel is that of its parameters.
    else if (scopes.size() <= 2)
      fail("there is no '" + std::string(pending.name) + "'", pending.line);
    else
      scopes.back().pending.push_back(pending);
  }
}

void Parser::resolve(const Pending &pending, const Symbol &symbol,
                     const Scope &scope) {
  Operand &operand =
      kernel->instructions[pending.instruction].operands[pending.operand];
  if (symbol.kind == Symbol::Kind::Label) {
    operand.kind = Operand::Kind::Label;
    operand.index = symbol.value;
    return;
  }
  if (symbol.kind != Symbol::Kind::Targets)
    fail("'" + std::string(pending.name) + "' is declared after its use",
         pending.line);
  operand.kind = Operand::Kind::Vector;
  for (std::string_view name : symbol.targets) {
    auto found = scope.symbols.find(name);
    if (found == scope.symbols.end() ||
        found->second.kind != Symbol::Kind::Label)
      fail("there is no '" + std::string(name) + "'", pending.line);
    Operand target;
    target.kind = Operand::Kind::Label;
    target.index = found->second.value;
    operand.parts.push_back(std::move(target));
  }
}

/// Adds the start of dynamic shared memory to an address in it.
void Parser::moveDynamic(Operand &operand) const {
  if ((operand.kind == Operand::Kind::Immediate ||
       operand.kind == Operand::Kind::Address) &&
      operand.index) {
    operand.value += kernel->dynamicShared;
    operand.index = 0;
  }
  for (Operand &part : operand.parts)
    moveDynamic(part);
}

/// Major and minor version, whose dot is not a decimal point.
void Parser::parseVersion() {
  std::string_view word = parseWord("a version");
  expect('.');
  std::string_view minor = parsePart();
  if (word.size() > 3 || minor.size() != 1 || !isDigit(minor[0]) ||
      !std::all_of(word.begin(), word.end(), isDigit))
    fail("expected a version as 8.6");
  for (char digit : word)
    module.version = 10 * module.version + (digit - '0');
  module.version = 10 * module.version + (minor[0] - '0');
}

ParsedModule Parser::parse() {
  scopes.emplace_back();
  bool isExtern = false;
  for (;;) {
    if (peek() == '\0' && at >= text.size())
      break;
    expect('.');
    std::string_view part = parsePart();
    if (part == "version") {
      parseVersion();
    } else if (part == "target") {
      peek();
      size_t begin = at;
      skipLine();
      module.target = text.substr(begin, at - begin);
    } else if (part == "address_size") {
      if (uint64_t bits = parseCount(); bits != 64)
        fail("addresses of " + std::to_string(bits) + " bits, expected 64");
    } else if (part == "visible" || part == "weak" || part == "common") {
      continue;
    } else if (part == "extern") {
      isExtern = true;
      continue;
    } else if (part == "entry") {
      parseKernel();
    } else if (part == "shared") {
      parseVariables(StateSpace::SharedCta, isExtern);
    } else if (part == "global" || part == "const") {
      parseVariables(StateSpace::Global, isExtern);
    } else if (part == "file") {
      skipLine();
    } else if (part == "section") {
      skipSection();
    } else {
      fail("the emulator does not know the directive ." + std::string(part));
    }
    isExtern = false;
  }
  return std::move(module);
}

ParsedModule fuse::emulator::parsePtx(std::string_view text,
                                      const Allocate &allocate) {
  return Parser(text, allocate).parse();
}
