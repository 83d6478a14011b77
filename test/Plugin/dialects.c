// RUN: fuse-dialects-test 2>&1 | FileCheck %s
// The dialects and passes of fuse in a C program that uses MLIR's C API.

#include "fuse-c/Dialects.h"

#include "mlir-c/Pass.h"

#include <stdio.h>

static const char *const source =
    "%x = builtin.unrealized_conversion_cast to tensor<?x8xf32>\n"
    "%y = fuse.activation silu %x : tensor<?x8xf32> -> tensor<?x8xf32>\n";

static void print(MlirStringRef text, void *data) {
  (void)data;
  printf("%.*s", (int)text.length, text.data);
}

static void printName(MlirDialectHandle dialect) {
  printf("dialect ");
  print(mlirDialectHandleGetNamespace(dialect), NULL);
  printf("\n");
}

static MlirModule parse(MlirContext context) {
  return mlirModuleCreateParse(context, mlirStringRefCreateFromCString(source));
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  MlirDialectHandle fuse = mlirGetDialectHandle__fuse__();
  MlirDialectHandle tile = mlirGetDialectHandle__tile__();
  printName(fuse);
  printName(mlirGetDialectHandle__nn__());
  printName(mlirGetDialectHandle__stage__());
  printName(tile);
  printf("version %u\n", fuseGetIRVersion());
  // CHECK: dialect fuse
  // CHECK: dialect nn
  // CHECK: dialect stage
  // CHECK: dialect tile
  // CHECK: version [[VERSION:[1-9]]]

  // A handle adds one dialect to a context.
  MlirContext context = mlirContextCreate();
  mlirDialectHandleRegisterDialect(tile, context);
  printf("without fuse: %d\n", mlirModuleIsNull(parse(context)));
  // CHECK: error: Dialect `fuse' not found
  // CHECK: without fuse: 1
  mlirDialectHandleRegisterDialect(fuse, context);
  MlirModule module = parse(context);
  printf("with fuse: %d\n", !mlirModuleIsNull(module));
  // CHECK: with fuse: 1
  mlirModuleDestroy(module);
  mlirContextDestroy(context);

  // The registry adds all, and passes are registered once for the process.
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  fuseRegisterAllDialects(registry);
  context = mlirContextCreateWithRegistry(registry, false);
  mlirDialectRegistryDestroy(registry);
  fuseRegisterAllPasses();
  fuseRegisterAllPasses();
  MlirPassManager manager = mlirPassManagerCreate(context);
  MlirLogicalResult parsed = mlirParsePassPipeline(
      mlirPassManagerGetAsOpPassManager(manager),
      mlirStringRefCreateFromCString("builtin.module(fuse-stamp-version)"),
      print, NULL);
  module = parse(context);
  MlirLogicalResult ran =
      mlirPassManagerRunOnOp(manager, mlirModuleGetOperation(module));
  printf("parsed: %d, ran: %d\n", mlirLogicalResultIsSuccess(parsed),
         mlirLogicalResultIsSuccess(ran));
  // CHECK: parsed: 1, ran: 1
  mlirOperationPrint(mlirModuleGetOperation(module), print, NULL);
  // CHECK: module attributes {fuse.version = [[VERSION]] : i32}
  // CHECK: fuse.activation silu
  mlirModuleDestroy(module);
  mlirPassManagerDestroy(manager);
  mlirContextDestroy(context);
  return 0;
}
