//===- Compile.cpp - C interface from IR to artefacts ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileWith.h"
#include "Context.h"
#include "fuse/Compiler/Compiler.h"
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
  return static_cast<LinkedObject *>(handle)->lookup(symbol);
}

static void unlinkObject(void *handle) {
  delete static_cast<LinkedObject *>(handle);
}

namespace {

/// Tells the runtime of LLVM's linker for as long as this library is loaded.
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

/// Checks options, which may be null or of an earlier version.
static fuse_status readCompileOptions(const fuse_compile_options *options,
                                      CompileOptions &chosen) {
  // Callers that were built with an earlier header have fewer fields.
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
  chosen.mixed = complete.mixed != 0;
  chosen.tokens = complete.tokens;
  chosen.multiprocessors = complete.multiprocessors;
  chosen.schedules = complete.schedules ? complete.schedules : "";
  chosen.assemble = static_cast<Assemble>(complete.assemble);
  return FUSE_OK;
}

fuse_status fuse::compileWith(
    const fuse_module &module, const fuse_compile_options *options,
    llvm::function_ref<llvm::Expected<std::string>(const CompileOptions &)>
        compile,
    fuse_artifact **artifact) {
  CompileOptions chosen;
  if (fuse_status status = readCompileOptions(options, chosen))
    return status;
  ContextState &state = *module.state;
  state.errors.clear();
  llvm::Expected<std::string> bytes = compile(chosen);
  if (!bytes) {
    std::string reason = llvm::toString(bytes.takeError());
    std::string errors = state.takeErrors("");
    return fail(FUSE_ERROR_PASS,
                errors.empty() ? reason : reason + ": " + errors);
  }
  return fuse_artifact_from_bytes(bytes->data(), bytes->size(), artifact);
}

fuse_status fuse_module_compile(const fuse_module *module,
                                const fuse_compile_options *options,
                                fuse_artifact **artifact) {
  if (!module || !artifact)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'module' or 'artifact' is null");
  return guard([&] {
    return compileWith(
        *module, options,
        [&](const CompileOptions &chosen) {
          return compileToArtifact(*module->module, chosen);
        },
        artifact);
  });
}
