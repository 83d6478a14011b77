/*===- fuse-c/Compiler.h - C interface to the compiler ------------*- C -*-===*
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * Parses fuse IR, runs passes on it, prints it and compiles it to an artifact,
 * which fuse-c/Runtime.h runs. Handles are opaque. Every function that can fail
 * returns a status; `fuse_last_error` returns a message about the last failure
 * of the calling thread. No function throws an exception. Null handles are an
 * error, not a crash.
 *
 * One thread at a time may use a context. Different contexts are independent of
 * each other.
 *
 *===----------------------------------------------------------------------===*/

#ifndef FUSE_C_COMPILER_H
#define FUSE_C_COMPILER_H

#include "fuse-c/Runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fuse_context fuse_context;
typedef struct fuse_module fuse_module;

/* Creates a context with all dialects and passes of fuse. It starts no threads.
 */
FUSE_C_EXPORT fuse_status fuse_context_create(fuse_context **context);

/* Destroys a context. Its modules stay valid. Null is allowed. */
FUSE_C_EXPORT void fuse_context_destroy(fuse_context *context);

typedef enum fuse_severity {
  FUSE_NOTE = 0,
  FUSE_WARNING = 1,
  FUSE_ERROR = 2,
  FUSE_REMARK = 3
} fuse_severity;

/* Called for every diagnostic with its severity, its location and its message.
 * The location is "file:line:column", another printed form, or "" if there is
 * none. Strings are valid during the call. */
typedef void (*fuse_diagnostic_handler)(fuse_severity severity,
                                        const char *location,
                                        const char *message, void *user_data);

/* Sets the handler for diagnostics. Null removes it. Without a handler,
 * diagnostics only appear in fuse_last_error. */
FUSE_C_EXPORT fuse_status fuse_context_set_diagnostic_handler(
    fuse_context *context, fuse_diagnostic_handler handler, void *user_data);

/* A remark of a pass about one site that was fused or refused.
 *   kind:     "Passed", "Missed", "Failure" or "Analysis"
 *   category: "fuse", "raise", "quant", ... and the pass, joined by a colon
 *   name:     id of the site, or name of the remark
 *   location: "file:line:column" of the first member, or as printed, or ""
 *   text:     "Key=value; Key=value", such as the reason of a refusal */
typedef struct fuse_remark {
  const char *kind;
  const char *category;
  const char *name;
  const char *location;
  const char *text;
} fuse_remark;

typedef void (*fuse_remark_handler)(const fuse_remark *remark, void *user_data);

/* Sets the handler for remarks of all categories. Null removes it. */
FUSE_C_EXPORT fuse_status fuse_context_set_remark_handler(
    fuse_context *context, fuse_remark_handler handler, void *user_data);

/* Traces every pass and every compiler phase in this context to a file, in the
 * trace event format of chrome://tracing and Perfetto. The file is complete
 * when the trace ends: by a call with a null path, or when the context and its
 * modules are destroyed. Every call first ends the current trace. If its file
 * could not be written, the call fails and starts no new trace. */
FUSE_C_EXPORT fuse_status fuse_context_set_trace(fuse_context *context,
                                                 const char *path);

/* Parses and verifies text, which need not end with a zero byte. Text over 64
 * MiB, with brackets nested more than 256 deep, or in bytecode is refused. */
FUSE_C_EXPORT fuse_status fuse_module_parse(fuse_context *context,
                                            const char *text, size_t length,
                                            fuse_module **module);

FUSE_C_EXPORT fuse_status fuse_module_clone(const fuse_module *module,
                                            fuse_module **clone);

/* Destroys a module. Null is allowed. */
FUSE_C_EXPORT void fuse_module_destroy(fuse_module *module);

/* Runs a pass pipeline in the syntax of `fuse-opt --pass-pipeline`, such as
 * "builtin.module(func.func(fuse-form-kernels{rounding=relaxed}))". If a pass
 * fails, the module is unchanged. */
FUSE_C_EXPORT fuse_status fuse_module_run(fuse_module *module,
                                          const char *pipeline);

/* Prints the module. `*text` ends with a zero byte, which `*length` does not
 * count. `length` may be null. Free the text with fuse_string_free. */
FUSE_C_EXPORT fuse_status fuse_module_print(const fuse_module *module,
                                            char **text, size_t *length);

/* Targets and options of a compilation. `fuse_compile_options_init` sets the
 * defaults.
 */
typedef struct fuse_compile_options {
  /* sizeof(fuse_compile_options). */
  size_t size;
  /* Code for the CPU: "native" (default), or "" for none. A level of the psABI
   * such as "x86-64-v3" runs on every machine that supports it. */
  const char *cpu;
  /* Nonzero to link the code for the CPU with ld.lld, so that processes without
   * the compiler can load the artifact. Otherwise the compiler in this process
   * loads it. */
  int32_t link;
  /* Code for a GPU, such as "sm_90a". Null or "" for none (default). */
  const char *chip;
  /* Nonzero to use only the portable path. With 0 (default), a function has
   * scheduled kernels where possible, and portable kernels for other ops. */
  int32_t portable;
  /* Largest number of tokens that scheduled kernels support in functions with a
   * dynamic number of tokens, from 1 to 16384 (default 16384). There are
   * kernels for several ranges; a launch uses those for its number of tokens.
   */
  int32_t tokens;
  /* Number of multiprocessors (SMs) for which scheduled kernels are made
   * (default 132). */
  int32_t multiprocessors;
  /* 0: leave PTX to the driver (default). 1: assemble it if ptxas is found.
   * 2: fail if there is no ptxas. */
  int32_t assemble;
  /* File from fuse-tune; null or empty for none. Its schedules take precedence
   * over those of the cost model. */
  const char *schedules;
  /* Path of ptxas. Null or "" to search PATH (default). */
  const char *ptxas;
} fuse_compile_options;

FUSE_C_EXPORT void fuse_compile_options_init(fuse_compile_options *options);

/* Compiles the public functions of a module and the forward function of each
 * model, under the model's name. The module is not changed. Options may be
 * null.
 *
 * Scheduled kernels are planned now. If PTX is assembled, they are also
 * compiled now. Otherwise they are compiled when the artifact is saved, or when
 * an instance is prepared for their numbers of tokens
 * (fuse_instance_limit_tokens). That requires neither the module nor its
 * context. */
FUSE_C_EXPORT fuse_status fuse_module_compile(
    const fuse_module *module, const fuse_compile_options *options,
    fuse_artifact **artifact);

/* A directory of artifacts. Any number of processes may use it at the same
 * time. */
typedef struct fuse_cache fuse_cache;

/* Opens a cache and creates its directory if it does not exist. Null stands for
 * $FUSE_CACHE_DIR, $XDG_CACHE_HOME/fuse or ~/.cache/fuse. The directory is
 * refused if it is a link, belongs to another user, or is writable by others.
 */
FUSE_C_EXPORT fuse_status fuse_cache_open(const char *directory,
                                          fuse_cache **cache);

/* Destroys the handle of a cache. Null is allowed. */
FUSE_C_EXPORT void fuse_cache_destroy(fuse_cache *cache);

typedef enum fuse_cache_result {
  FUSE_CACHE_COMPILED = 0, /* compiled now */
  FUSE_CACHE_FOUND = 1,    /* found on disk */
  FUSE_CACHE_SHARED = 2    /* compiled by another thread */
} fuse_cache_result;

/* Does the same as fuse_module_compile, but first looks for the artifact in the
 * cache. The key is a digest of the module, the options, the assembler, and the
 * builds of the compiler and LLVM. It includes the processor if the options say
 * "native". Damaged entries are compiled again. Failure to store an entry is
 * not an error. `result` may be null. */
FUSE_C_EXPORT fuse_status fuse_module_compile_cached(
    const fuse_module *module, const fuse_compile_options *options,
    fuse_cache *cache, fuse_artifact **artifact, fuse_cache_result *result);

typedef enum fuse_explain_format {
  /* A table. */
  FUSE_EXPLAIN_TEXT = 0,
  FUSE_EXPLAIN_JSON = 1,
  /* A single page without external links. */
  FUSE_EXPLAIN_HTML = 2
} fuse_explain_format;

/* Options of fuse_module_explain. `fuse_explain_options_init` sets the
 * defaults. */
typedef struct fuse_explain_options {
  /* sizeof(fuse_explain_options). */
  size_t size;
  /* Module patterns in the syntax of `fuse-match-modules`. Without any, only
   * ops are fused. */
  const char *const *patterns;
  size_t num_patterns;
  /* Files with patterns and kernels from outside of the model. */
  const char *const *libraries;
  size_t num_libraries;
  /* Required target of declared kernels: cpu or a chip; "" for any (default).
   */
  const char *target;
  /* Size that dynamic dimensions are assumed to have, from 1 (default) to
   * 1048576. */
  int64_t tokens;
  /* GPU or CPU for whose plans savings are counted, in the form of
   * fuse_compile_options; "" for none (default), and at most one. */
  const char *chip;
  const char *cpu;
} fuse_explain_options;

FUSE_C_EXPORT void fuse_explain_options_init(fuse_explain_options *options);

/* Raises a copy of a module as fuse-kernel-formation-pipeline does, and reports
 * for every site whether it is fused, what it saves on a target, or why it is
 * refused. The module is not changed. Options may be null. For the text
 * see `fuse_module_print`. */
FUSE_C_EXPORT fuse_status fuse_module_explain(
    const fuse_module *module, const fuse_explain_options *options,
    fuse_explain_format format, char **text, size_t *length);

#ifdef __cplusplus
}
#endif

#endif /* FUSE_C_COMPILER_H */
