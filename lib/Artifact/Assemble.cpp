//===- Assemble.cpp - From PTX to code for one chip -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Memo.h"
#include "fuse/Artifact/DeviceCode.h"
#include "fuse/Runtime/Core/Sha256.h"
#include "fuse/Support/OutputFile.h"
#include "fuse/Support/TemporaryDirectory.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

using namespace fuse;
using llvm::createStringError;
using llvm::StringRef;
namespace json = llvm::json;

namespace {

/// Resources of a kernel that ptxas reports.
struct Resources {
  int64_t registers = 0;
  int64_t spilledBytes = 0;
};

/// What ptxas made of a text.
struct Assembled {
  std::string cubin;
  llvm::StringMap<Resources> resources;
};

} // namespace

/// Parses the output of `ptxas -v`, which has for each kernel the name, the
/// spills and the registers, in this order.
static llvm::StringMap<Resources> parseLog(StringRef log) {
  llvm::StringMap<Resources> all;
  StringRef kernel;
  while (!log.empty()) {
    StringRef line;
    std::tie(line, log) = log.split('\n');
    StringRef rest = line.split("Compiling entry function '").second;
    if (!rest.empty()) {
      kernel = rest.split('\'').first;
      continue;
    }
    if (kernel.empty())
      continue;
    int64_t number;
    StringRef words = line.ltrim();
    if (words.contains(" bytes spill stores")) {
      StringRef before = words.split(" bytes spill stores").first;
      if (!before.rsplit(' ').second.getAsInteger(10, number))
        all[kernel].spilledBytes = number;
    }
    StringRef used = words.split("Used ").second;
    if (!used.empty() && !used.split(' ').first.getAsInteger(10, number))
      all[kernel].registers = number;
  }
  return all;
}

llvm::Expected<std::string> fuse::findPtxas(const CompileOptions &options) {
  if (!options.ptxas.empty()) {
    if (llvm::sys::fs::can_execute(options.ptxas))
      return options.ptxas;
    return createStringError("'" + options.ptxas + "' is not a program");
  }
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  return createStringError("there is no ptxas in PATH");
}

static llvm::Expected<Assembled> runPtxas(StringRef ptx, StringRef chip,
                                          StringRef ptxas) {
  llvm::Expected<TemporaryDirectory> directory =
      TemporaryDirectory::create("fuse-ptxas");
  if (!directory)
    return directory.takeError();
  std::string input = directory->getFile("code.ptx");
  std::string output = directory->getFile("code.cubin");
  std::string logPath = directory->getFile("log");
  if (llvm::Error error = writeFile(input, [&](llvm::raw_ostream &os) {
        os << ptx;
        return llvm::Error::success();
      }))
    return error;
  std::string arch = ("-arch=" + chip).str();
  StringRef arguments[] = {ptxas, arch, "-v", input, "-o", output};
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(logPath),
                                          StringRef(logPath)};
  std::string error;
  int result = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt,
                                         redirects, /*SecondsToWait=*/120,
                                         /*MemoryLimit=*/0, &error);
  auto log = llvm::MemoryBuffer::getFile(logPath);
  StringRef text = log ? (*log)->getBuffer() : "";
  if (result != 0)
    return createStringError(
        "ptxas failed: " +
        (error.empty() ? text.take_front(2000).trim().str() : error));
  auto cubin = llvm::MemoryBuffer::getFile(output, /*IsText=*/false,
                                           /*RequiresNullTerminator=*/false);
  if (!cubin)
    return createStringError(cubin.getError(),
                             output + ": " + cubin.getError().message());
  return Assembled{(*cubin)->getBuffer().str(), parseLog(text)};
}

llvm::Error fuse::assemble(DeviceModule &module, StringRef chip,
                           StringRef ptxas,
                           llvm::ArrayRef<json::Object *> launches) {
  static Memo<Assembled> &memo = *new Memo<Assembled>();
  std::string key = (chip + ";" + ptxas + ";").str() +
                    runtime::toHex(runtime::getDigest(module.ptx));
  std::optional<Assembled> made = memo.find(key);
  if (!made) {
    llvm::Expected<Assembled> now = runPtxas(module.ptx, chip, ptxas);
    if (!now)
      return now.takeError();
    memo.add(key, *now);
    made = std::move(*now);
  }
  module.cubin = std::move(made->cubin);
  for (json::Object *launch : launches) {
    auto it = made->resources.find(*launch->getString("kernel"));
    if (it == made->resources.end())
      continue;
    (*launch)["registers"] = it->second.registers;
    (*launch)["spilled_bytes"] = it->second.spilledBytes;
  }
  return llvm::Error::success();
}
