//===- Compile.cpp - C interface from IR to artefacts ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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
}

fuse_status fuse_module_compile(const fuse_module *module,
                                const fuse_compile_options *options,
                                fuse_artifact **artifact) {
  if (!module || !artifact)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'module' or 'artifact' is null");
  if (options && options->size < sizeof(*options))
    return fail(FUSE_ERROR_INVALID_ARGUMENT,
                "'size' is " + Twine(options->size) + ", expected " +
                    Twine(sizeof(*options)));
  return guard([&] {
    CompileOptions chosen;
    if (options) {
      chosen.cpu = options->cpu ? options->cpu : "native";
      chosen.link = options->link != 0;
    }
    ContextState &state = *module->state;
    state.errors.clear();
    llvm::Expected<std::string> bytes =
        compileToArtifact(*module->module, chosen);
    if (!bytes) {
      std::string reason = llvm::toString(bytes.takeError());
      std::string errors = state.takeErrors("");
      return fail(FUSE_ERROR_PASS,
                  errors.empty() ? reason : reason + ": " + errors);
    }
    return fuse_artifact_from_bytes(bytes->data(), bytes->size(), artifact);
  });
}
