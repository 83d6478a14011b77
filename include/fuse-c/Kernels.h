/*===- fuse-c/Kernels.h - C interface to slots and kernels --------*- C -*-===*
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * Registers kernels in a context and binds the slots of a module to them. Two
 * modules, and two models of one module, can be bound differently.
 *
 *===----------------------------------------------------------------------===*/

#ifndef FUSE_C_KERNELS_H
#define FUSE_C_KERNELS_H

#include "fuse-c/Compiler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Registers the `fuse.slot_kernel` ops of a text for everything that is bound
 * in this context from now on. Relative paths of code start at `directory`,
 * which may be null. A second kernel of one key is FUSE_ERROR_INVALID_ARGUMENT
 * unless `force` is nonzero. On failure nothing is registered. */
FUSE_C_EXPORT fuse_status fuse_context_register_kernels(fuse_context *context,
                                                        const char *text,
                                                        size_t length,
                                                        const char *directory,
                                                        int32_t force);

/* Lists ops, variants and kernels, as JSON if `json` is nonzero. The text is
 * given back with fuse_string_free. */
FUSE_C_EXPORT fuse_status fuse_context_list_kernels(fuse_context *context,
                                                    int32_t json, char **text);

/* Binds slots as a configuration in YAML or JSON says
 * (docs/how-to/bind-slots.md). On failure the module is as it was. `report` may
 * be null; it gets a JSON object with all bindings, given back with
 * fuse_string_free. */
FUSE_C_EXPORT fuse_status fuse_module_bind_slots(fuse_module *module,
                                                 const char *config,
                                                 char **report);

/* Undoes all bindings of a model, or of all slots if `model` is null. */
FUSE_C_EXPORT fuse_status fuse_module_unbind_slots(fuse_module *module,
                                                   const char *model);

#ifdef __cplusplus
}
#endif

#endif /* FUSE_C_KERNELS_H */
