//===- ReadModule.cpp - Read modules from files ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Support/ReadModule.h"
#include "fuse/Support/TextLimits.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

llvm::Expected<OwningOpRef<ModuleOp>>
fuse::readModule(MLIRContext &context, StringRef path,
                 llvm::SourceMgr &sources) {
  auto text = readText(path);
  if (!text)
    return text.takeError();
  sources.AddNewSourceBuffer(std::move(*text), llvm::SMLoc());
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  if (!module)
    return llvm::createStringError(path + ": not a valid module");
  return std::move(module);
}
