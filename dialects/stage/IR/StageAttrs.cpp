//===- StageAttrs.cpp - Attributes of the stage dialect -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "stage/IR/StageAttrs.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace stage;

#include "stage/IR/StageEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "stage/IR/StageAttrs.cpp.inc"

void StageDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "stage/IR/StageAttrs.cpp.inc"
      >();
}

LogicalResult
GraphMappingAttr::verify(function_ref<InFlightDiagnostic()> emitError, Target,
                         int64_t tokens, int64_t blocks, int64_t group) {
  if (tokens < 1)
    return emitError() << "tokens = " << tokens << " is less than 1";
  if (blocks < 1 || blocks > 65535)
    return emitError() << "blocks = " << blocks << " is not from 1 to 65535";
  if (group < 1)
    return emitError() << "group = " << group << " is less than 1";
  return success();
}

LogicalResult
ProductMappingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                           int64_t, ArrayRef<Place>, int64_t weightTile,
                           int64_t tokenTile, int64_t pipeline) {
  for (auto [name, value] :
       {std::pair("weight_tile", weightTile),
        std::pair("token_tile", tokenTile), std::pair("pipeline", pipeline)})
    if (value < 1)
      return emitError() << name << " = " << value << " is less than 1";
  return success();
}
