//===- CheckCode.cpp - Check that code in a file fits a slot --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds errors in the text of a file that the driver would report only at a
// launch.
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/ResolveKernel.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;

/// The word after each `directive` in PTX text.
static SmallVector<StringRef> getWordsBehind(StringRef text,
                                             StringRef directive) {
  SmallVector<StringRef> words;
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    line = line.split("//").first;
    size_t position = line.find(directive);
    if (position == StringRef::npos)
      continue;
    words.push_back(line.drop_front(position + directive.size())
                        .ltrim()
                        .take_until([](char c) {
                          return c == '(' || c == ',' || llvm::isSpace(c);
                        }));
  }
  return words;
}

static llvm::Error checkPTX(StringRef text, GPUCodeAttr code,
                            const SlotTarget &target) {
  SmallVector<StringRef> entries = getWordsBehind(text, ".entry ");
  if (!llvm::is_contained(entries, code.getEntry())) {
    std::string known = entries.empty() ? "none" : llvm::join(entries, ", ");
    return createStringError("file '" + code.getFile() + "' has no kernel '" +
                             code.getEntry() + "'; its kernels: " + known);
  }
  for (StringRef chip : getWordsBehind(text, ".target ")) {
    StringRef digits = chip;
    unsigned capability = 0;
    if (!digits.consume_front("sm_") ||
        digits.take_while(llvm::isDigit).getAsInteger(10, capability))
      continue;
    // A letter means that the code runs only on this architecture.
    bool isExact = !digits.drop_while(llvm::isDigit).empty();
    if (isExact ? capability != target.capability
                : capability > target.capability)
      return createStringError(
          "file '" + code.getFile() + "' is for " + chip +
          ", the target has compute_capability=" + Twine(target.capability));
  }
  return llvm::Error::success();
}

static llvm::Error checkFile(GPUCodeAttr code, const SlotTarget &target) {
  auto buffer = llvm::MemoryBuffer::getFile(code.getFile());
  if (!buffer)
    return createStringError(buffer.getError(),
                             "file '" + code.getFile() + "' cannot be read: " +
                                 buffer.getError().message());
  StringRef text = (*buffer)->getBuffer();
  if (code.getFormat() == CodeFormat::PTX)
    return checkPTX(text, code, target);
  if (!text.starts_with("\x7f"
                        "ELF"))
    return createStringError("file '" + code.getFile() + "' is not a cubin");
  if (!text.contains(code.getEntry()))
    return createStringError("file '" + code.getFile() + "' has no kernel '" +
                             code.getEntry() + "'");
  return llvm::Error::success();
}

static llvm::Error checkArguments(SlotOp slot, ArrayAttr sizes,
                                  ArrayAttr args) {
  auto type = cast<FunctionType>(slot.getSignature());
  for (Type value :
       llvm::concat<const Type>(type.getInputs(), type.getResults())) {
    std::string text;
    llvm::raw_string_ostream(text) << value;
    if (!isa<RankedTensorType>(value))
      return createStringError(
          "it has a value of type " + text +
          ", and code in files supports only ranked tensors");
  }
  for (auto pair : sizes.getAsRange<ArrayAttr>()) {
    int64_t operand = cast<IntegerAttr>(pair[0]).getInt();
    int64_t dim = cast<IntegerAttr>(pair[1]).getInt();
    if (operand >= type.getNumInputs() ||
        dim >= cast<RankedTensorType>(type.getInput(operand)).getRank())
      return createStringError("'sizes' names dimension " + Twine(dim) +
                               " of operand " + Twine(operand) +
                               ", which the slot does not have");
  }
  SmallVector<bool> written(type.getNumResults());
  for (auto name : args.getAsRange<Attribute>()) {
    auto text = dyn_cast<StringAttr>(name);
    if (!text)
      continue;
    StringRef word = text;
    if (word.consume_front("param.")) {
      if (!isa_and_nonnull<FloatAttr, IntegerAttr>(slot.getParam(word)))
        return createStringError("'args' names param '" + word +
                                 "', which is not a number of the slot");
      continue;
    }
    bool isResult = word.consume_front("result");
    word.consume_front("arg");
    unsigned index = 0;
    (void)word.getAsInteger(10, index);
    unsigned count = isResult ? type.getNumResults() : type.getNumInputs();
    if (index >= count)
      return createStringError("'args' names " + text.getValue() +
                               ", the slot has " + Twine(count) +
                               (isResult ? " results" : " operands"));
    if (isResult)
      written[index] = true;
  }
  for (auto [i, isWritten] : llvm::enumerate(written)) {
    if (!isWritten)
      return createStringError("'args' does not name result" + Twine(i) +
                               ", which would stay undefined");
    if (!cast<RankedTensorType>(type.getResult(i)).hasStaticShape() &&
        !getShapeOperand(slot, i))
      return createStringError("the sizes of result " + Twine(i) +
                               " are those of no operand");
  }
  return llvm::Error::success();
}

std::optional<unsigned> fuse::getShapeOperand(SlotOp slot, unsigned result) {
  auto type = cast<FunctionType>(slot.getSignature());
  auto shaped = cast<RankedTensorType>(type.getResult(result));
  for (auto [i, input] : llvm::enumerate(type.getInputs())) {
    auto candidate = dyn_cast<RankedTensorType>(input);
    if (!candidate || candidate.getRank() != shaped.getRank())
      continue;
    bool serves = true;
    for (int64_t dim = 0; dim < shaped.getRank(); ++dim)
      serves &= !shaped.isDynamicDim(dim) || candidate.isDynamicDim(dim);
    if (serves)
      return i;
  }
  return std::nullopt;
}

llvm::Error fuse::checkCode(Attribute code, SlotOp slot,
                            const SlotTarget &target) {
  if (auto gpu = dyn_cast<GPUCodeAttr>(code)) {
    if (llvm::Error error = checkArguments(slot, gpu.getSizes(), gpu.getArgs()))
      return error;
    return checkFile(gpu, target);
  }
  auto host = cast<CPUCodeAttr>(code);
  if (llvm::Error error = checkArguments(slot, host.getSizes(), host.getArgs()))
    return error;
  // The dynamic linker finds a library without a path.
  if (llvm::sys::path::has_parent_path(host.getLibrary()) &&
      !llvm::sys::fs::exists(host.getLibrary()))
    return createStringError("library '" + host.getLibrary() +
                             "' does not exist");
  return llvm::Error::success();
}
