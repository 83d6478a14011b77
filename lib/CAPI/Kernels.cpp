//===- Kernels.cpp - C interface to slots and kernels ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse-c/Kernels.h"
#include "Context.h"
#include "fuse/Slots/SlotBinding.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace mlir;
using namespace fuse;

static fuse_status give(const std::string &text, char **result) {
  auto *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (!copy)
    throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  *result = copy;
  return FUSE_OK;
}

fuse_status fuse_context_register_kernels(fuse_context *context,
                                          const char *text, size_t length,
                                          const char *directory,
                                          int32_t force) {
  if (!context || !text)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'context' or 'text' is null");
  return guard([&] {
    ContextState &state = *context->state;
    OwningOpRef<ModuleOp> module;
    if (fuse_status status =
            parseText(state, {text, length}, "not a text of kernels", module))
      return status;
    if (module->getOps<SlotKernelOp>().empty())
      return fail(FUSE_ERROR_INVALID_ARGUMENT,
                  "the text has no nn.slot_kernel to register");
    // Use a copy, so that text with an error registers nothing.
    KernelRegistry copy = getKernelRegistry(&state.context);
    if (failed(copy.load(*module, directory ? directory : "", "a program",
                         force != 0)))
      return fail(FUSE_ERROR_INVALID_ARGUMENT,
                  state.takeErrors("the kernels cannot be registered"));
    getKernelRegistry(&state.context) = std::move(copy);
    return FUSE_OK;
  });
}

fuse_status fuse_context_list_kernels(fuse_context *context, int32_t json,
                                      char **text) {
  if (!context || !text)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'context' or 'text' is null");
  return guard([&] {
    std::string list;
    llvm::raw_string_ostream os(list);
    KernelRegistry &registry = getKernelRegistry(&context->state->context);
    if (json)
      registry.printJSON(os);
    else
      registry.print(os);
    return give(list, text);
  });
}

fuse_status fuse_module_bind_slots(fuse_module *module, const char *config,
                                   char **report) {
  if (!module || !config)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'module' or 'config' is null");
  return guard([&] {
    ContextState &state = *module->state;
    state.errors.clear();
    llvm::Expected<SlotConfig> parsed =
        SlotConfig::parse(config, "configuration");
    if (!parsed)
      return fail(FUSE_ERROR_INVALID_ARGUMENT,
                  llvm::toString(parsed.takeError()));
    FailureOr<SlotReport> bound =
        bindSlots(*module->module, getKernelRegistry(&state.context), *parsed);
    if (failed(bound))
      return fail(FUSE_ERROR_PASS, state.takeErrors("slots cannot be bound"));
    if (!report)
      return FUSE_OK;
    std::string text;
    llvm::raw_string_ostream os(text);
    bound->printJSON(os);
    return give(text, report);
  });
}

fuse_status fuse_module_unbind_slots(fuse_module *module, const char *model) {
  if (!module)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'module' is null");
  return guard([&] {
    ContextState &state = *module->state;
    state.errors.clear();
    std::vector<std::string> only;
    if (model)
      only.push_back(model);
    if (failed(unbindSlots(*module->module, only)))
      return fail(FUSE_ERROR_INVALID_ARGUMENT,
                  state.takeErrors("slots cannot be unbound"));
    return FUSE_OK;
  });
}
