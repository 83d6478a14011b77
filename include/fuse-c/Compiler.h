/*===- fuse-c/Compiler.h - C interface to the compiler ------------*- C -*-===*
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * Parses fuse IR, runs passes on it, prints it and compiles it to an artifact,
 * which fuse-c/Runtime.h runs. Handles are opaque. Every
 * function that can fail returns a status; `fuse_last_error` has a sentence
 * about the last failure of the calling thread. No exception leaves a function,
 * and null handles are an error, not a crash.
 *
 * A context may be used by one thread at a time; different contexts are
 * independent of each other.
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

/* Makes a context with all dialects and passes of fuse. It starts no threads.
 */
FUSE_C_EXPORT fuse_status fuse_context_create(fuse_context **context);

/* Modules of a destroyed context stay valid. Null is allowed. */
FUSE_C_EXPORT void fuse_context_destroy(fuse_context *context);

typedef enum fuse_severity {
  FUSE_NOTE = 0,
  FUSE_WARNING = 1,
  FUSE_ERROR = 2,
  FUSE_REMARK = 3
} fuse_severity;

/* Called for every diagnostic: its severity, "file:line:column" or the location
 * as printed, "" where there is none, and the message. Strings are valid during
 * the call. */
typedef void (*fuse_diagnostic_handler)(fuse_severity severity,
                                        const char *location,
                                        const char *message, void *user_data);

/* Without a handler diagnostics only appear in fuse_last_error. A null handler
 * removes the one that is set. */
FUSE_C_EXPORT fuse_status fuse_context_set_diagnostic_handler(
    fuse_context *context, fuse_diagnostic_handler handler, void *user_data);

/* One site that was fused or refused, as the passes report it.
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

/* Delivers the remarks of all categories. A null handler removes the one that
 * is set. */
FUSE_C_EXPORT fuse_status fuse_context_set_remark_handler(
    fuse_context *context, fuse_remark_handler handler, void *user_data);

/* Writes every pass and every phase of the compiler that runs in this context
 * to a file, in the trace event format that chrome://tracing and Perfetto show.
 * The file is complete when a null path is given or the context and its modules
 * are destroyed. A path, null or not, ends the trace before; when the file of
 * that one could not be written, the call fails and starts no other. */
FUSE_C_EXPORT fuse_status fuse_context_set_trace(fuse_context *context,
                                                 const char *path);

/* Parses and verifies text; `text` need not end with a zero byte. Texts over
 * 64 MiB, nested over 256 brackets deep, or in bytecode are refused. */
FUSE_C_EXPORT fuse_status fuse_module_parse(fuse_context *context,
                                            const char *text, size_t length,
                                            fuse_module **module);

FUSE_C_EXPORT fuse_status fuse_module_clone(const fuse_module *module,
                                            fuse_module **clone);

/* Null is allowed. */
FUSE_C_EXPORT void fuse_module_destroy(fuse_module *module);

/* Runs passes as `fuse-opt --pass-pipeline` names them, such as
 * "builtin.module(func.func(fuse-form-kernels{rounding=relaxed}))". When one
 * fails the module is what it was before the call. */
FUSE_C_EXPORT fuse_status fuse_module_run(fuse_module *module,
                                          const char *pipeline);

/* Prints the module. `*text` ends with a zero byte, which `*length` does not
 * count (it may be null), and is given back with fuse_string_free. */
FUSE_C_EXPORT fuse_status fuse_module_print(const fuse_module *module,
                                            char **text, size_t *length);

/* What to compile for. `fuse_compile_options_init` fills in what is not said.
 */
typedef struct fuse_compile_options {
  /* sizeof(fuse_compile_options). */
  size_t size;
  /* Code for the CPU: "native" (default), "x86-64-v3" or another level of the
   * psABI to run on every machine that has it, or "" for none. */
  const char *cpu;
  /* Nonzero to link that code by ld.lld, so that processes without the compiler
   * can load the artifact. Without, the compiler loads it in this process. */
  int32_t link;
  /* Code for a GPU, such as "sm_90a"; null or "" for none (default). */
  const char *chip;
  /* Nonzero to take the portable path alone (default 0). */
  int32_t portable;
  /* Most tokens that scheduled kernels of functions with a dynamic number of
   * tokens serve, 1 to 16384 (default 16384). There are kernels for several
   * ranges; a launch takes those for its number. */
  int32_t tokens;
  /* Multiprocessors that scheduled kernels are made for (default 132). */
  int32_t multiprocessors;
  /* 0: leave PTX to the driver (default), 1: assemble it if there is a ptxas in
   * PATH, 2: fail if there is none. */
  int32_t assemble;
  /* A file of fuse-tune; null or empty for none. Schedules that it has go
   * before those of the cost model. */
  const char *schedules;
  /* Nonzero to put scheduled kernels into one plan with portable ones, where
   * the scheduled path takes a part of a function (default 0: then all of it
   * takes the portable path). */
  int32_t mixed;
} fuse_compile_options;

FUSE_C_EXPORT void fuse_compile_options_init(fuse_compile_options *options);

/* Compiles the public functions of a module, which stays as it is, and of each
 * model its forward, as a function of its name. Options may be null. Scheduled
 * kernels are planned now and, unless PTX is assembled, compiled when an
 * instance is prepared for numbers of tokens that they serve
 * (fuse_instance_limit_tokens), or when the artifact is saved. That needs
 * neither the module nor its context. */
FUSE_C_EXPORT fuse_status fuse_module_compile(
    const fuse_module *module, const fuse_compile_options *options,
    fuse_artifact **artifact);

/* A directory of artifacts, for any number of processes at the same time. */
typedef struct fuse_cache fuse_cache;

/* Opens a cache, and makes its directory if it is not there. Null stands for
 * $FUSE_CACHE_DIR, $XDG_CACHE_HOME/fuse or ~/.cache/fuse. A directory that is a
 * link, belongs to someone else, or that others can write to is refused. */
FUSE_C_EXPORT fuse_status fuse_cache_open(const char *directory,
                                          fuse_cache **cache);

/* Null is allowed. */
FUSE_C_EXPORT void fuse_cache_destroy(fuse_cache *cache);

typedef enum fuse_cache_result {
  FUSE_CACHE_COMPILED = 0, /* it was not there */
  FUSE_CACHE_FOUND = 1,    /* it was on disk */
  FUSE_CACHE_SHARED = 2    /* another thread was compiling it */
} fuse_cache_result;

/* As fuse_module_compile, unless the cache has what that would make. The key is
 * a digest of the module, the options, the builds of compiler and LLVM, the
 * processor where it matters, and the assembler. What is damaged is compiled
 * again; what cannot be stored is not a failure. `result` may be null. */
FUSE_C_EXPORT fuse_status fuse_module_compile_cached(
    const fuse_module *module, const fuse_compile_options *options,
    fuse_cache *cache, fuse_artifact **artifact, fuse_cache_result *result);

typedef enum fuse_explain_format {
  /* A table. */
  FUSE_EXPLAIN_TEXT = 0,
  FUSE_EXPLAIN_JSON = 1,
  /* One page without links to anything outside. */
  FUSE_EXPLAIN_HTML = 2
} fuse_explain_format;

/* What to fuse. `fuse_explain_options_init` fills in what is not said. */
typedef struct fuse_explain_options {
  /* sizeof(fuse_explain_options). */
  size_t size;
  /* Patterns of modules, as `fuse-match-modules` takes them; without any, only
   * ops are fused. */
  const char *const *patterns;
  size_t num_patterns;
  /* Files with patterns and kernels from outside of the model. */
  const char *const *libraries;
  size_t num_libraries;
  /* What declared kernels must run on: cpu or a chip; any when "" (default). */
  const char *target;
  /* What dynamic dimensions count as, 1 (default) to 1048576. */
  int64_t tokens;
} fuse_explain_options;

FUSE_C_EXPORT void fuse_explain_options_init(fuse_explain_options *options);

/* Says of every site of a module whether it is fused or why not, and what it
 * gains. The module stays as it is. Options may be null; the text is as in
 * `fuse_module_print`. */
FUSE_C_EXPORT fuse_status fuse_module_explain(
    const fuse_module *module, const fuse_explain_options *options,
    fuse_explain_format format, char **text, size_t *length);

#ifdef __cplusplus
}
#endif

#endif /* FUSE_C_COMPILER_H */
