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

/* Registers the `nn.slot_kernel` ops of a text for all later bindings in this
 * context. Relative paths of code start at `directory`, which may be null. A
 * second kernel with the same key is FUSE_ERROR_INVALID_ARGUMENT unless `force`
 * is nonzero. On failure nothing is registered. */
FUSE_C_EXPORT fuse_status fuse_context_register_kernels(fuse_context *context,
                                                        const char *text,
                                                        size_t length,
                                                        const char *directory,
                                                        int32_t force);

/* Lists ops, variants and kernels, as JSON if `json` is nonzero. Free the text
 * with fuse_string_free. */
FUSE_C_EXPORT fuse_status fuse_context_list_kernels(fuse_context *context,
                                                    int32_t json, char **text);

/* Binds slots according to a configuration in YAML or JSON
 * (docs/how-to/bind-slots.md). On failure the module is unchanged. `report` may
 * be null. It receives a JSON object with all bindings; free it with
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
