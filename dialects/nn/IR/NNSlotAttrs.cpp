//===- NNSlotAttrs.cpp - Attributes of slots and kernels ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "nn/IR/NNAttrs.h"
#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// HardwareAttr
//===----------------------------------------------------------------------===//

LogicalResult
HardwareAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                     DeviceType device, unsigned from, unsigned to) {
  if ((from || to) && device != DeviceType::GPU)
    return emitError() << "device type " << stringifyDeviceType(device)
                       << " has no capabilities; only gpu has";
  if (to && from > to)
    return emitError() << "range of capabilities from " << from << " to " << to
                       << " is empty";
  return success();
}

bool HardwareAttr::isMetBy(DeviceType device, unsigned capability) const {
  if (getDevice() == DeviceType::Any)
    return true;
  return device == getDevice() && capability >= getFrom() &&
         (!getTo() || capability <= getTo());
}

uint64_t HardwareAttr::getSize() const {
  if (getDevice() == DeviceType::Any)
    return std::numeric_limits<uint64_t>::max();
  uint64_t to = getTo() ? getTo() : std::numeric_limits<unsigned>::max();
  return to - getFrom() + 1;
}

std::string HardwareAttr::toText() const {
  std::string text = ("device_type=" + stringifyDeviceType(getDevice())).str();
  if (getFrom())
    text += ", compute_capability>=" + std::to_string(getFrom());
  if (getTo())
    text += ", compute_capability<=" + std::to_string(getTo());
  return text;
}

//===----------------------------------------------------------------------===//
// GPUCodeAttr, CPUCodeAttr
//===----------------------------------------------------------------------===//

/// Verifies the arguments of both kinds of code. References to operands of a
/// slot are verified when the code is bound to one.
static LogicalResult
verifyArguments(llvm::function_ref<InFlightDiagnostic()> emitError,
                ArrayAttr sizes, ArrayAttr args) {
  if (!sizes || !args)
    return emitError() << "expected arrays 'sizes' and 'args'";
  for (Attribute attr : sizes) {
    auto pair = dyn_cast<ArrayAttr>(attr);
    if (!pair || pair.size() != 2 || !llvm::all_of(pair, [](Attribute number) {
          auto value = dyn_cast<IntegerAttr>(number);
          return value && value.getType().isInteger(64) && value.getInt() >= 0;
        }))
      return emitError() << "expected [operand, dimension] in 'sizes', got "
                         << attr;
  }
  for (Attribute attr : args) {
    if (auto map = dyn_cast<AffineMapAttr>(attr)) {
      if (map.getValue().getNumResults() == 1 &&
          map.getValue().getNumDims() == 0 &&
          map.getValue().getNumSymbols() <= sizes.size())
        continue;
      return emitError() << "expected a map with one result and at most "
                         << sizes.size() << " symbols in 'args', got " << attr;
    }
    if (isa<FloatAttr, IntegerAttr>(attr))
      continue;
    auto name = dyn_cast<StringAttr>(attr);
    StringRef text = name ? name.getValue() : "";
    unsigned number;
    if (text.consume_front("param.")
            ? !text.empty()
            : (text.consume_front("arg") || text.consume_front("result")) &&
                  !text.getAsInteger(10, number))
      continue;
    return emitError() << "expected \"arg<n>\", \"result<n>\", "
                          "\"param.<name>\", a map or a number in 'args', got "
                       << attr;
  }
  return success();
}

LogicalResult
GPUCodeAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                    CodeFormat, StringRef file, StringRef entry,
                    AffineMapAttr grid, ArrayAttr block, unsigned shared,
                    ArrayAttr sizes, ArrayAttr args) {
  if (file.empty() || entry.empty())
    return emitError() << "expected the names of a file and of a kernel in it";
  if (failed(verifyArguments(emitError, sizes, args)))
    return failure();
  if (!grid || grid.getValue().getNumResults() != 3 ||
      grid.getValue().getNumDims() != 0 ||
      grid.getValue().getNumSymbols() > sizes.size())
    return emitError() << "expected 'grid' to map at most " << sizes.size()
                       << " symbols to 3 numbers of blocks";
  int64_t threads = 1;
  bool positive = block && block.size() == 3;
  if (positive)
    for (Attribute attr : block) {
      auto number = dyn_cast<IntegerAttr>(attr);
      positive &= number && number.getType().isInteger(64) &&
                  number.getInt() > 0 && number.getInt() <= 1024;
      threads *= positive ? number.getInt() : 1;
    }
  if (!positive || threads > 1024)
    return emitError() << "expected 'block' to be 3 numbers of threads, at "
                          "most 1024 together";
  return success();
}

LogicalResult
CPUCodeAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                    StringRef library, StringRef symbol, ArrayAttr sizes,
                    ArrayAttr args) {
  if (library.empty() || symbol.empty())
    return emitError()
           << "expected the names of a library and of a function in it";
  return verifyArguments(emitError, sizes, args);
}
