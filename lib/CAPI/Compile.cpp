//===- Compile.cpp - C interface from IR to artifacts ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileWith.h"
#include "Context.h"
#include "fuse/Artifact/ArtifactDraft.h"
#include "fuse/Target/ObjectLinker.h"

#include <cstring>

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Objects that are not linked yet
//===----------------------------------------------------------------------===//

static fuse_status linkObject(const void *object, size_t size, void **handle) {
  return guard([&] {
    auto linked =
        LinkedObject::create({static_cast<const char *>(object), size});
    if (!linked)
      return fail(FUSE_ERROR_INTERNAL, llvm::toString(linked.takeError()));
    *handle = linked->release();
    return FUSE_OK;
  });
}

static void *lookupSymbol(void *handle, const char *symbol) {
  auto address = static_cast<LinkedObject *>(handle)->lookup(symbol);
  if (address)
    return *address;
  fail(FUSE_ERROR_TARGET, llvm::toString(address.takeError()));
  return nullptr;
}

static void unlinkObject(void *handle) {
  delete static_cast<LinkedObject *>(handle);
}

namespace {

/// Registers LLVM's linker with the runtime when this library is loaded.
struct LinkerRegistration {
  LinkerRegistration() { fuse_set_object_linker(&linker); }
  ~LinkerRegistration() { fuse_set_object_linker(nullptr); }
  fuse_object_linker linker = {linkObject, lookupSymbol, unlinkObject};
};

LinkerRegistration registration;

} // namespace

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

void fuse_compile_options_init(fuse_compile_options *options) {
  if (!options)
    return;
  std::memset(options, 0, sizeof(*options));
  options->size = sizeof(*options);
  options->cpu = "native";
  options->tokens = CompileOptions().tokens;
  options->multiprocessors = CompileOptions().multiprocessors;
}

/// Checks options, which may be null or from an earlier version.
static fuse_status readCompileOptions(const fuse_compile_options *options,
                                      CompileOptions &chosen) {
  // Callers built with an earlier header have fewer fields.
  fuse_compile_options complete;
  fuse_compile_options_init(&complete);
  if (options) {
    if (options->size < offsetof(fuse_compile_options, chip) ||
        options->size > sizeof(complete))
      return fail(FUSE_ERROR_INVALID_ARGUMENT,
                  "'size' is " + Twine(options->size) + ", expected at most " +
                      Twine(sizeof(complete)));
    std::memcpy(&complete, options, options->size);
  }
  if (complete.assemble < 0 || complete.assemble > 2)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'assemble' is " +
                                                 Twine(complete.assemble) +
                                                 ", expected 0, 1 or 2");
  chosen.cpu = complete.cpu ? complete.cpu : "native";
  chosen.link = complete.link != 0;
  chosen.chip = complete.chip ? complete.chip : "";
  chosen.scheduled = complete.portable == 0;
  chosen.tokens = complete.tokens;
  chosen.multiprocessors = complete.multiprocessors;
  chosen.schedules = complete.schedules ? complete.schedules : "";
  chosen.assemble = static_cast<Assemble>(complete.assemble);
  chosen.ptxas = complete.ptxas ? complete.ptxas : "";
  return FUSE_OK;
}

/// Runs `compile`, which sets the artifact. Diagnostics become part of the
/// error.
static fuse_status
runCompiler(const fuse_module &module, const fuse_compile_options *options,
            llvm::function_ref<llvm::Error(const CompileOptions &)> compile) {
  CompileOptions chosen;
  if (fuse_status status = readCompileOptions(options, chosen))
    return status;
  ContextState &state = *module.state;
  state.errors.clear();
  chosen.observe = state.getObserver();
  if (llvm::Error error = compile(chosen)) {
    std::string reason = llvm::toString(std::move(error));
    std::string errors = state.takeErrors("");
    return fail(FUSE_ERROR_PASS,
                errors.empty() ? reason : reason + ": " + errors);
  }
  return FUSE_OK;
}

fuse_status fuse::compileWith(
    const fuse_module &module, const fuse_compile_options *options,
    llvm::function_ref<llvm::Expected<std::string>(const CompileOptions &)>
        compile,
    fuse_artifact **artifact) {
  std::string bytes;
  auto run = [&](const CompileOptions &chosen) {
    return compile(chosen).moveInto(bytes);
  };
  if (fuse_status status = runCompiler(module, options, run))
    return status;
  return fuse_artifact_from_bytes(bytes.data(), bytes.size(), artifact);
}

//===----------------------------------------------------------------------===//
// Compiling when it is needed
//===----------------------------------------------------------------------===//

static fuse_status compileModule(void *data, size_t number, const char **text,
                                 size_t *length) {
  return guard([&] {
    auto ptx = static_cast<DeferredArtifact *>(data)->getModule(number);
    if (!ptx)
      return fail(FUSE_ERROR_PASS, llvm::toString(ptx.takeError()));
    *text = ptx->data();
    *length = ptx->size();
    return FUSE_OK;
  });
}

static fuse_status completeFile(void *data, const void **bytes, size_t *size) {
  return guard([&] {
    auto file = static_cast<DeferredArtifact *>(data)->getFile();
    if (!file)
      return fail(FUSE_ERROR_PASS, llvm::toString(file.takeError()));
    *bytes = file->data();
    *size = file->size();
    return FUSE_OK;
  });
}

/// Makes an artifact whose scheduled kernels are compiled later.
static fuse_status defer(ArtifactDraft draft, const fuse_module &module,
                         const CompileOptions &options,
                         fuse_artifact **artifact) {
  llvm::Expected<std::string> bytes = writeArtifact(draft);
  if (!bytes)
    return fail(FUSE_ERROR_INTERNAL, llvm::toString(bytes.takeError()));
  auto isMissing = [](const DeviceModule &code) {
    return code.ptx.empty() && !code.kernel.empty();
  };
  if (llvm::none_of(draft.device.modules, isMissing))
    return fuse_artifact_from_bytes(bytes->data(), bytes->size(), artifact);
  DialectRegistry dialects;
  module.state->context.getDialectRegistry().appendTo(dialects);
  auto deferred = std::make_unique<DeferredArtifact>(
      std::move(draft), std::move(dialects), options);
  fuse_code_source source = {
      compileModule, completeFile,
      [](void *data) { delete static_cast<DeferredArtifact *>(data); },
      deferred.get()};
  fuse_status status = fuse_artifact_from_source(bytes->data(), bytes->size(),
                                                 &source, artifact);
  if (status == FUSE_OK)
    (void)deferred.release();
  return status;
}

fuse_status fuse_module_compile(const fuse_module *module,
                                const fuse_compile_options *options,
                                fuse_artifact **artifact) {
  if (!module || !artifact)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'module' or 'artifact' is null");
  return guard([&] {
    ArtifactDraft draft;
    CompileOptions used;
    std::string bytes;
    auto run = [&](const CompileOptions &chosen) -> llvm::Error {
      used = chosen;
      // The manifest contains the resource usage that ptxas reports.
      if (chosen.assemble != Assemble::Never)
        return compileToArtifact(*module->module, chosen).moveInto(bytes);
      return draftArtifact(*module->module, chosen).moveInto(draft);
    };
    if (fuse_status status = runCompiler(*module, options, run))
      return status;
    if (bytes.empty())
      return defer(std::move(draft), *module, used, artifact);
    return fuse_artifact_from_bytes(bytes.data(), bytes.size(), artifact);
  });
}
