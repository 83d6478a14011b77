//===- CompileCache.cpp - Compile each module once ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Artifact/CompileCache.h"
#include "fuse/Artifact/DeviceCode.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Runtime/CPU/CpuCode.h"
#include "fuse/Runtime/Core/Container.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Instance.h"
#include "nn/IR/NNOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/TargetParser/Host.h"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include <link.h>

using namespace mlir;
using namespace fuse;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

runtime::Digest CacheIngredients::getKey() const {
  runtime::Sha256 sha;
  // Hash each text with its length, so that different splits differ.
  for (const std::string &text :
       {ir, options, build, version, std::to_string(format), host, assembler}) {
    sha.update(std::to_string(text.size()) + ":");
    sha.update(text);
  }
  return sha.finish();
}

/// The GNU build id of a loaded object, or nothing.
static StringRef getBuildId(const dl_phdr_info &object) {
  for (unsigned i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE)
      continue;
    const char *note =
        reinterpret_cast<const char *>(object.dlpi_addr + segment.p_vaddr);
    const char *end = note + segment.p_memsz;
    while (end - note >= static_cast<ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
      const auto *header = reinterpret_cast<const ElfW(Nhdr) *>(note);
      size_t nameBytes = llvm::alignTo(header->n_namesz, 4);
      const char *content = note + sizeof(*header) + nameBytes;
      if (header->n_type == NT_GNU_BUILD_ID)
        return StringRef(content, header->n_descsz);
      note = content + llvm::alignTo(header->n_descsz, 4);
    }
  }
  return "";
}

/// Build ids of the objects that contain the compiler: this one, LLVM's and
/// MLIR's.
static const std::string &getBuild() {
  static const std::string build = [] {
    std::string ids;
    ::dl_iterate_phdr(
        [](dl_phdr_info *object, size_t, void *data) {
          auto here = reinterpret_cast<uintptr_t>(&getBuildId);
          bool isThis = false;
          for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
            const ElfW(Phdr) &segment = object->dlpi_phdr[i];
            uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
            isThis |= segment.p_type == PT_LOAD && here >= begin &&
                      here - begin < segment.p_memsz;
          }
          StringRef name = object->dlpi_name;
          if (isThis || name.contains("libMLIR") || name.contains("libLLVM"))
            *static_cast<std::string *>(data) +=
                llvm::formatv("{0};", llvm::toHex(getBuildId(*object))).str();
          return 0;
        },
        &ids);
    return ids;
  }();
  return build;
}

CacheIngredients fuse::getIngredients(ModuleOp module,
                                      const CompileOptions &options) {
  CacheIngredients ingredients;
  llvm::raw_string_ostream ir(ingredients.ir);
  module.print(ir, OpPrintingFlags().enableDebugInfo(true, false));
  ingredients.options =
      llvm::formatv("{0};{1};{2};{3};{4};{5};{6}", options.cpu, options.link,
                    options.chip, options.scheduled, options.tokens,
                    options.multiprocessors, int(options.assemble))
          .str();
  if (!options.schedules.empty()) {
    // The file's content counts, not its name.
    auto table = llvm::MemoryBuffer::getFile(options.schedules);
    ingredients.options +=
        ";" + (table ? runtime::toHex(runtime::getDigest((*table)->getBuffer()))
                     : options.schedules);
  }
  // The artifact contains the kernels of files, the module only their names.
  module.walk([&](BoundKernelOp kernel) {
    auto code = dyn_cast_or_null<GPUCodeAttr>(kernel.getCodeAttr());
    if (!code)
      return;
    auto file = llvm::MemoryBuffer::getFile(code.getFile());
    ingredients.options +=
        ";" + (file ? runtime::toHex(runtime::getDigest((*file)->getBuffer()))
                    : code.getFile().str());
  });
  ingredients.build = getBuild();
  ingredients.version = "fuse " FUSE_VERSION " LLVM " LLVM_VERSION_STRING;
  ingredients.format = runtime::kFormatVersion;
  if (options.cpu == "native") {
    ingredients.host = llvm::sys::getHostCPUName().str();
    SmallVector<std::string> features;
    for (auto &feature : llvm::sys::getHostCPUFeatures())
      if (feature.second)
        features.push_back(feature.first().str());
    llvm::sort(features);
    for (const std::string &feature : features)
      ingredients.host += "," + feature;
    if (runtime::hasTiles())
      ingredients.host += ",tiles";
  }
  if (options.assemble != Assemble::Never && !options.chip.empty()) {
    llvm::Expected<std::string> ptxas = findPtxas(options);
    if (!ptxas)
      llvm::consumeError(ptxas.takeError());
    llvm::sys::fs::file_status status;
    if (ptxas && !llvm::sys::fs::status(*ptxas, status))
      ingredients.assembler =
          llvm::formatv(
              "{0};{1};{2}", *ptxas, status.getSize(),
              status.getLastModificationTime().time_since_epoch().count())
              .str();
  }
  return ingredients;
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

namespace {

/// A compilation in flight, and then its result.
struct InFlight {
  std::mutex mutex;
  std::condition_variable done;
  bool isDone = false;
  std::optional<std::string> content;
  std::string error;
};

/// Compilations of this process by directory and key.
class InFlightTable {
public:
  /// The entry of a key, and whether the caller has to compile it.
  std::pair<std::shared_ptr<InFlight>, bool> enter(const std::string &name) {
    std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<InFlight> &entry = entries[name];
    bool isFirst = !entry;
    if (isFirst)
      entry = std::make_shared<InFlight>();
    return {entry, isFirst};
  }
  void leave(const std::string &name) {
    std::lock_guard<std::mutex> lock(mutex);
    entries.erase(name);
  }

private:
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<InFlight>> entries;
};

} // namespace

/// The cache entry, unless it is not an artifact.
static std::optional<std::string> findArtifact(const runtime::Cache &cache,
                                               const runtime::Digest &key) {
  std::optional<std::string> content = cache.find(key);
  if (!content)
    return std::nullopt;
  try {
    runtime::Artifact artifact(*content);
    return content;
  } catch (const runtime::Failure &) {
    return std::nullopt;
  }
}

Expected<std::string> fuse::compileCached(const runtime::Cache &cache,
                                          ModuleOp module,
                                          const CompileOptions &options,
                                          CacheResult &result) {
  static InFlightTable table;
  runtime::Digest key = getIngredients(module, options).getKey();
  std::string name = cache.getPath() + "\n" + runtime::toHex(key);
  auto [entry, isFirst] = table.enter(name);
  if (!isFirst) {
    std::unique_lock<std::mutex> lock(entry->mutex);
    entry->done.wait(lock, [&entry = entry] { return entry->isDone; });
    result = CacheResult::Shared;
    if (entry->content)
      return *entry->content;
    return llvm::createStringError(entry->error);
  }

  std::optional<std::string> content = findArtifact(cache, key);
  result = content ? CacheResult::Found : CacheResult::Compiled;
  std::string error;
  if (!content) {
    Expected<std::string> made = compileToArtifact(module, options);
    if (made) {
      content = std::move(*made);
      // Later callers find it there, unless the disk is full.
      (void)cache.store(key, *content);
    } else {
      error = llvm::toString(made.takeError());
    }
  }
  {
    std::lock_guard<std::mutex> lock(entry->mutex);
    entry->isDone = true;
    entry->content = content;
    entry->error = error;
  }
  entry->done.notify_all();
  table.leave(name);
  if (!content)
    return llvm::createStringError(error);
  return *content;
}
