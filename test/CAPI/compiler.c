// RUN: fuse-c-compiler-test 2>&1 | FileCheck %s
// A C program that uses the compiler. Everything is checked through statuses
// and callbacks, and every misuse gives an error message.

#include "fuse-c/Compiler.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const source =
    "func.func @f(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>)\n"
    "    -> tensor<?x8xf32> {\n"
    "  %0 = fuse.linear %x, %w\n"
    "    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>\n"
    "  %1 = fuse.activation silu %0 : tensor<?x8xf32> -> tensor<?x8xf32>\n"
    "  %2 = fuse.linear %1, %w\n"
    "    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>\n"
    "  return %2 : tensor<?x8xf32>\n"
    "}\n";

static void report(const char *what, fuse_status status) {
  printf("%s: %s: %s\n", what, fuse_status_name(status),
         status == FUSE_OK ? "" : fuse_last_error());
}

static void onDiagnostic(fuse_severity severity, const char *location,
                         const char *message, void *data) {
  ++*(int *)data;
  printf("diagnostic %d at %s: %s\n", (int)severity, location, message);
}

static void onRemark(const fuse_remark *remark, void *data) {
  ++*(int *)data;
  printf("remark %s %s [%s] at %s: %s\n", remark->kind, remark->name,
         remark->category, remark->location, remark->text);
}

static void print(const fuse_module *module) {
  char *text = NULL;
  size_t length = 0;
  if (fuse_module_print(module, &text, &length) != FUSE_OK)
    abort();
  printf("%s(%d)\n", text, length == strlen(text));
  fuse_string_free(text);
}

static void explain(const fuse_module *module,
                    const fuse_explain_options *options,
                    fuse_explain_format format) {
  char *text = NULL;
  size_t length = 0;
  fuse_status status =
      fuse_module_explain(module, options, format, &text, &length);
  report("explain", status);
  if (status != FUSE_OK)
    return;
  printf("%s(%d)\n", text, length == strlen(text));
  fuse_string_free(text);
}

int main(void) {
  fuse_context *context = NULL;
  fuse_module *module = NULL, *copy = NULL;
  int diagnostics = 0, remarks = 0;

  // CHECK: version 0.5
  printf("version %u.%u\n", fuse_c_version() >> 16, fuse_c_version() & 0xffff);

  // CHECK: null: FUSE_ERROR_INVALID_ARGUMENT: 'context' is null
  report("null", fuse_context_create(NULL));
  // CHECK: create: FUSE_OK
  report("create", fuse_context_create(&context));
  fuse_context_set_diagnostic_handler(context, onDiagnostic, &diagnostics);

  // CHECK: null text: FUSE_ERROR_INVALID_ARGUMENT: 'context', 'text' or
  report("null text", fuse_module_parse(context, NULL, 0, &module));
  // CHECK: diagnostic 2 at {{.*}}:1:1: custom op 'func.fun' is unknown
  // CHECK: bad text: FUSE_ERROR_PARSE: {{.*}}:1:1: custom op 'func.fun'
  report("bad text", fuse_module_parse(context, "func.fun", 8, &module));
  // CHECK: bytecode: FUSE_ERROR_PARSE: bytecode is only read from trusted
  report("bytecode", fuse_module_parse(context,
                                       "ML\xef"
                                       "R\x0",
                                       5, &module));

  // Text that would overflow the stack of the parser.
  char *bomb = malloc(100000);
  memset(bomb, '[', 100000);
  // CHECK: bomb: FUSE_ERROR_PARSE: brackets are nested more than 256 deep
  report("bomb", fuse_module_parse(context, bomb, 100000, &module));
  free(bomb);

  // CHECK: parse: FUSE_OK
  report("parse", fuse_module_parse(context, source, strlen(source), &module));

  // CHECK: no pass: FUSE_ERROR_INVALID_ARGUMENT: pipeline
  // CHECK-SAME: builtin.module(fuse-magic)
  // CHECK-SAME: 'fuse-magic' does not refer to a registered pass
  report("no pass", fuse_module_run(module, "builtin.module(fuse-magic)"));
  // CHECK: anchor: FUSE_ERROR_INVALID_ARGUMENT: pipeline
  // CHECK-SAME: runs on 'func.func', not on builtin.module
  report("anchor", fuse_module_run(module, "func.func(fuse-form-kernels)"));

  fuse_context_set_remark_handler(context, onRemark, &remarks);
  fuse_module_clone(module, &copy);
  // The copy is fused, and a remark reports it.
  // CHECK: remark Passed f#0 [fuse:fuse-form-kernels] at -:3:8:
  // CHECK-SAME: Family=mlp; Members=up, act, down
  // CHECK: run: FUSE_OK
  report("run",
         fuse_module_run(copy, "builtin.module(func.func(fuse-form-kernels))"));
  // CHECK: fuse.mlp
  // CHECK: (1)
  print(copy);
  // Explaining fuses a copy of the module and emits no remark.
  // CHECK-NOT: remark
  // CHECK: explain: FUSE_OK
  // CHECK: f#0{{ +}}ops{{ +}}fused{{ +}}mlp
  // CHECK: (1)
  explain(module, NULL, FUSE_EXPLAIN_TEXT);
  fuse_context_set_remark_handler(context, NULL, NULL);

  // If a pass fails after another one changed the module, nothing changes.
  // CHECK: failed pass: FUSE_ERROR_PASS: {{.*}}no fused op has site 'f#7'
  // CHECK-NOT: remark
  // CHECK: fuse.linear
  // CHECK: (1)
  report("failed pass",
         fuse_module_run(module, "builtin.module(func.func(fuse-form-kernels),"
                                 "fuse-unfuse{sites=f#7})"));
  print(module);

  // The sites of a module, as a table, JSON or a page. The module is unchanged.
  // CHECK: explain: FUSE_OK
  // CHECK: site{{ +}}level{{ +}}state
  // CHECK-NEXT: f#0{{ +}}ops{{ +}}fused{{ +}}mlp
  // CHECK: (1)
  explain(module, NULL, FUSE_EXPLAIN_TEXT);
  // CHECK: explain: FUSE_OK
  // CHECK: "flops": 8192,
  // CHECK: (1)
  fuse_explain_options options;
  fuse_explain_options_init(&options);
  options.tokens = 32;
  explain(module, &options, FUSE_EXPLAIN_JSON);
  // CHECK: explain: FUSE_OK
  // CHECK: <!DOCTYPE html>
  // CHECK: (1)
  explain(module, NULL, FUSE_EXPLAIN_HTML);
  // What fusing saves is counted in the plans of a target.
  // CHECK: explain: FUSE_OK
  // CHECK: f#0{{ +}}ops{{ +}}fused{{ +}}mlp
  // CHECK: @f on sm_80: launches unfused [[ALL:[0-9]+]], fused [[ALL]];
  // CHECK: nothing is saved on sm_80
  options.chip = "sm_80";
  explain(module, &options, FUSE_EXPLAIN_TEXT);
  // CHECK: explain: FUSE_ERROR_INVALID_ARGUMENT: unknown chip 'sm_1'
  options.chip = "sm_1";
  explain(module, &options, FUSE_EXPLAIN_TEXT);
  // CHECK: explain: FUSE_ERROR_INVALID_ARGUMENT: unknown processor 'x'
  options.chip = "";
  options.cpu = "x";
  explain(module, &options, FUSE_EXPLAIN_TEXT);
  // A caller with an earlier header has no targets.
  // CHECK: explain: FUSE_OK
  // CHECK-NOT: saved
  options.size = offsetof(fuse_explain_options, chip);
  explain(module, &options, FUSE_EXPLAIN_TEXT);
  options.size = sizeof(options);
  options.cpu = NULL;
  // CHECK: explain: FUSE_ERROR_PASS: library 'none.mlir'
  const char *libraries[] = {"none.mlir"};
  options.libraries = libraries;
  options.num_libraries = 1;
  explain(module, &options, FUSE_EXPLAIN_TEXT);
  // CHECK: explain: FUSE_ERROR_INVALID_ARGUMENT: 'libraries' has null at 0
  libraries[0] = NULL;
  explain(module, &options, FUSE_EXPLAIN_TEXT);
  // CHECK: explain: FUSE_ERROR_INVALID_ARGUMENT: 'libraries' is null
  options.libraries = NULL;
  explain(module, &options, FUSE_EXPLAIN_TEXT);
  // CHECK: explain: FUSE_ERROR_INVALID_ARGUMENT: 'tokens' is 0, expected 1 to
  options.num_libraries = 0;
  options.tokens = 0;
  explain(module, &options, FUSE_EXPLAIN_TEXT);
  // CHECK: explain: FUSE_ERROR_INVALID_ARGUMENT: 'tokens' is 1048577, expected
  options.tokens = 1048577;
  explain(module, &options, FUSE_EXPLAIN_TEXT);
  // CHECK: explain: FUSE_ERROR_INVALID_ARGUMENT: 'size' is 0, expected
  options.size = 0;
  explain(module, &options, FUSE_EXPLAIN_TEXT);
  // CHECK: explain: FUSE_ERROR_INVALID_ARGUMENT: unknown format 7; there are 0
  explain(module, NULL, (fuse_explain_format)7);
  // CHECK: unknown status, FUSE_ERROR_INTERNAL
  printf("%s, %s\n", fuse_status_name((fuse_status)99),
         fuse_status_name(fuse_set_last_error((fuse_status)99, NULL)));
  // CHECK: explain: FUSE_ERROR_INVALID_ARGUMENT: 'module' or 'text' is null
  explain(NULL, NULL, FUSE_EXPLAIN_TEXT);
  fuse_explain_options_init(NULL);

  // Modules outlive their context.
  // CHECK: unfuse: FUSE_OK
  // CHECK: fuse.activation silu
  fuse_context_destroy(context);
  report("unfuse", fuse_module_run(copy, "builtin.module(fuse-unfuse)"));
  print(copy);
  fuse_module_destroy(module);
  fuse_module_destroy(copy);
  fuse_module_destroy(NULL);
  fuse_context_destroy(NULL);
  fuse_string_free(NULL);

  // CHECK: {{[0-9]+}} diagnostics, 1 remarks
  printf("%d diagnostics, %d remarks\n", diagnostics, remarks);
  return 0;
}
