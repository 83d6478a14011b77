//===- ScaleTable.cpp - Static scales from a file -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/ScaleTable.h"
#include "fuse/IR/FuseAttrs.h"
#include "fuse/Support/TextLimits.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace fuse;
using llvm::createStringError;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// Reads one scale and checks that kernels can use it.
static Expected<double> readScale(const llvm::json::Object &entry,
                                  StringRef linear, StringRef name) {
  const llvm::json::Value *value = entry.get(name);
  if (!value)
    return createStringError("'%s' has no '%s'", linear.str().c_str(),
                             name.str().c_str());
  std::optional<double> scale = value->getAsNumber();
  if (!scale)
    return createStringError("'%s' of '%s' is not a number", name.str().c_str(),
                             linear.str().c_str());
  if (std::optional<llvm::StringLiteral> problem = getScaleProblem(*scale))
    return createStringError("'%s' of '%s' %s, got %g", name.str().c_str(),
                             linear.str().c_str(), problem->data(), *scale);
  return *scale;
}

/// Reads the scales of one linear.
static Expected<LinearScales>
readLinear(StringRef linear, const llvm::json::Value &value, bool needsInput) {
  const llvm::json::Object *entry = value.getAsObject();
  if (!entry)
    return createStringError("'%s' is not an object", linear.str().c_str());
  for (const auto &[key, ignored] : *entry)
    if (StringRef(key) != "input_scale" && StringRef(key) != "weight_scale" &&
        StringRef(key) != "storage")
      return createStringError("unknown entry '%s' of '%s'; expected one of "
                               "input_scale, weight_scale, storage",
                               key.str().c_str(), linear.str().c_str());
  LinearScales scales;
  if (const llvm::json::Value *storage = entry->get("storage")) {
    std::optional<StringRef> name = storage->getAsString();
    if (!name)
      return createStringError("'storage' of '%s' is not a string",
                               linear.str().c_str());
    scales.storage = name->str();
  }
  if (needsInput || entry->get("input_scale")) {
    Expected<double> input = readScale(*entry, linear, "input_scale");
    if (!input)
      return input.takeError();
    scales.input = *input;
  }
  if (entry->getString("weight_scale") == StringRef("per_channel"))
    return scales;
  Expected<double> weight = readScale(*entry, linear, "weight_scale");
  if (!weight)
    return weight.takeError();
  scales.weight = *weight;
  return scales;
}

Expected<ScaleTable> fuse::readScaleTable(StringRef path, bool needsInput) {
  std::string name = path.str();
  auto fail = [&](const llvm::Twine &what) {
    return createStringError("scale table '%s': %s", name.c_str(),
                             what.str().c_str());
  };
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!file)
    return fail(file.getError().message());
  StringRef text = (*file)->getBuffer();
  if (Error error = checkTextLimits(text))
    return fail(llvm::toString(std::move(error)));
  Expected<llvm::json::Value> json = llvm::json::parse(text);
  if (!json)
    return fail(llvm::toString(json.takeError()));
  const llvm::json::Object *object = json->getAsObject();
  if (!object)
    return fail("expected an object with one entry per linear");
  ScaleTable table;
  for (const auto &[linear, value] : *object) {
    Expected<LinearScales> scales = readLinear(linear, value, needsInput);
    if (!scales)
      return fail(llvm::toString(scales.takeError()));
    table[linear.str()] = *scales;
  }
  return table;
}
