//===- IRVersion.cpp - Versions of the IR in files ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Support/IRVersion.h"
#include "mlir/Bytecode/BytecodeImplementation.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;

/// First version with `#fuse.tp`. Before, `tensor_parallel` named a plan.
static constexpr unsigned kStructuredPlans = 3;

/// Version 2 moved models, slots and kernels to a dialect of their own.
static constexpr IRRename kRenames[] = {
    {2, "fuse.bound_kernel", "nn.bound_kernel"},
    {2, "fuse.call_module", "nn.call_module"},
    {2, "fuse.call_slot", "nn.call_slot"},
    {2, "fuse.fused_call", "nn.fused_call"},
    {2, "fuse.fusion_pattern", "nn.fusion_pattern"},
    {2, "fuse.get_parameter", "nn.get_parameter"},
    {2, "fuse.identity_call", "nn.identity_call"},
    {2, "fuse.implementation", "nn.implementation"},
    {2, "fuse.kernel", "nn.kernel"},
    {2, "fuse.model", "nn.model"},
    {2, "fuse.module", "nn.module"},
    {2, "fuse.parameter", "nn.parameter"},
    {2, "fuse.slot", "nn.slot"},
    {2, "fuse.slot_kernel", "nn.slot_kernel"},
    {2, "#fuse.cpu_code", "#nn.cpu_code"},
    {2, "#fuse.gpu_code", "#nn.gpu_code"},
    {2, "#fuse.hardware", "#nn.hardware"},
    {2, "#fuse.kernel_mode", "#nn.kernel_mode"},
    {2, "#fuse.recipe", "#nn.recipe"},
};

const IRVersions &fuse::getIRVersions() {
  static constexpr IRVersions versions = {1, 3, kRenames};
  return versions;
}

static std::string describeRange(const IRVersions &versions) {
  std::string text = "version " + std::to_string(versions.current);
  if (versions.oldest == versions.current)
    return text;
  return "versions " + std::to_string(versions.oldest) + " to " +
         std::to_string(versions.current);
}

/// The error of a version that is not between those of a build, or nothing.
static std::optional<std::string> checkVersion(uint64_t version,
                                               const IRVersions &versions) {
  if (version >= versions.oldest && version <= versions.current)
    return std::nullopt;
  return "the IR has version " + std::to_string(version) +
         ", this build reads " + describeRange(versions);
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

Attribute fuse::getVersionAttr(MLIRContext *context) {
  return IntegerAttr::get(IntegerType::get(context, 32),
                          getIRVersions().current);
}

LogicalResult fuse::verifyVersion(Operation *op, Attribute attribute) {
  if (!isa<ModuleOp>(op))
    return op->emitError("'")
           << kVersionAttrName << "' is an attribute of builtin.module, not of "
           << op->getName();
  auto version = dyn_cast<IntegerAttr>(attribute);
  if (!version || !version.getType().isInteger(32))
    return op->emitError("'")
           << kVersionAttrName << "' must be an i32, got " << attribute;
  if (auto error =
          checkVersion(version.getValue().getZExtValue(), getIRVersions()))
    return op->emitError(*error);
  if (attribute != getVersionAttr(op->getContext()))
    return op->emitError("the IR has version ")
           << version.getValue().getZExtValue() << ", the current version is "
           << getIRVersions().current << "; fuse-opt upgrades a text";
  return success();
}

static bool isWord(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.';
}

/// Calls `visit` with each word of a text, with the mark before it (`#`, `@`,
/// ...), and with what follows. Strings are words only as names of ops in the
/// generic form. Comments have no words.
static void
visitWords(StringRef text,
           llvm::function_ref<void(StringRef word, StringRef rest)> visit) {
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    size_t begin = i++;
    if (c == '"') {
      for (; i < text.size() && text[i] != '"'; ++i)
        i += text[i] == '\\';
      if (text.substr(i).starts_with("\"("))
        visit(text.slice(begin + 1, i), text.substr(i));
      ++i;
    } else if (c == '/' && text.substr(i).starts_with("/")) {
      i = text.find('\n', i);
    } else if (isWord(c) || StringRef("#@!%^").contains(c)) {
      i = std::min(text.find_if_not(isWord, i), text.size());
      visit(text.slice(begin, i), text.substr(i));
    }
  }
}

/// The number in ` = 1 : i32`, which follows the name of an attribute.
static std::optional<uint64_t> readNumber(StringRef rest) {
  uint64_t number;
  rest = rest.ltrim();
  if (!rest.consume_front("="))
    return std::nullopt;
  rest = rest.ltrim();
  if (rest.consumeInteger(10, number))
    return std::nullopt;
  return number;
}

/// Whether the word before `rest` is a name in a dictionary of attributes. It
/// may be the name of an op as well, such as `fuse.parameter`.
static bool isAttributeName(StringRef rest) {
  rest = rest.ltrim();
  return rest.starts_with("=") || rest.starts_with(",") ||
         rest.starts_with("}");
}

llvm::Expected<std::optional<std::string>>
fuse::upgradeText(StringRef text, const IRVersions &versions) {
  if (!text.contains(kVersionAttrName))
    return std::nullopt;
  uint64_t oldest = versions.current;
  std::optional<std::string> error;
  visitWords(text, [&](StringRef word, StringRef rest) {
    if (word != kVersionAttrName)
      return;
    // The verifier reports what is not a number.
    if (std::optional<uint64_t> version = readNumber(rest)) {
      oldest = std::min(oldest, *version);
      if (!error)
        error = checkVersion(*version, versions);
    }
  });
  if (error)
    return createStringError(*error);
  if (oldest == versions.current)
    return std::nullopt;

  std::string upgraded;
  const char *done = text.begin();
  auto replace = [&](StringRef old, const Twine &by) {
    upgraded.append(done, old.begin());
    upgraded += by.str();
    done = old.end();
  };
  visitWords(text, [&](StringRef word, StringRef rest) {
    if (word == kVersionAttrName) {
      if (std::optional<uint64_t> version = readNumber(rest)) {
        StringRef number = rest.drop_until(llvm::isDigit);
        replace(number.take_while(llvm::isDigit), Twine(versions.current));
      }
      return;
    }
    if (word == "tensor_parallel" && oldest < kStructuredPlans &&
        rest.starts_with("(\"")) {
      // The number of ranks is not known, so the plan stays one that is not
      // fused.
      StringRef plan = rest.drop_front().take_front(
          rest.find('"', 2) == StringRef::npos ? 0 : rest.find('"', 2));
      replace(plan, "<kind = unknown, axis = " + plan + ", size = 1>");
      return;
    }
    if (!word.starts_with("#") && isAttributeName(rest))
      return;
    StringRef name = word;
    for (const IRRename &rename : versions.renames)
      if (rename.version > oldest && name == rename.from)
        name = rename.to;
    if (name != word)
      replace(word, name);
  });
  upgraded.append(done, text.end());
  return upgraded;
}

llvm::Error fuse::upgradeBuffer(std::unique_ptr<llvm::MemoryBuffer> &buffer) {
  auto upgraded = upgradeText(buffer->getBuffer());
  if (!upgraded)
    return upgraded.takeError();
  if (*upgraded)
    buffer = llvm::MemoryBuffer::getMemBufferCopy(
        **upgraded, buffer->getBufferIdentifier());
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Bytecode
//===----------------------------------------------------------------------===//

namespace {
struct FuseVersion : DialectVersion {
  explicit FuseVersion(uint64_t number) : number(number) {}
  uint64_t number;
};

/// Attributes and types are encoded as text.
struct VersionInterface : BytecodeDialectInterface {
  // The inherited constructor is protected.
  explicit VersionInterface(Dialect *dialect)
      : BytecodeDialectInterface(dialect) {}

  void writeVersion(DialectBytecodeWriter &writer) const final {
    auto chosen = writer.getDialectVersion(getDialect()->getNamespace());
    writer.writeVarInt(succeeded(chosen)
                           ? static_cast<const FuseVersion *>(*chosen)->number
                           : getIRVersions().current);
  }

  std::unique_ptr<DialectVersion>
  readVersion(DialectBytecodeReader &reader) const final {
    uint64_t number;
    if (failed(reader.readVarInt(number)))
      return nullptr;
    // The reader needs the ops that a file names, so it cannot rename any.
    const IRVersions &versions = getIRVersions();
    if (auto error =
            checkVersion(number, {versions.current, versions.current, {}})) {
      reader.emitError("dialect '")
          << getDialect()->getNamespace() << "': " << *error
          << (number < versions.current ? " of bytecode" : "");
      return nullptr;
    }
    return makeDialectVersion(number);
  }
};
} // namespace

void fuse::addVersionInterface(Dialect *dialect) {
  dialect->addInterface(std::make_unique<VersionInterface>(dialect));
}

std::unique_ptr<DialectVersion> fuse::makeDialectVersion(unsigned version) {
  return std::make_unique<FuseVersion>(version);
}
