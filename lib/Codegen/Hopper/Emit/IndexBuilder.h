//===- IndexBuilder.h - Short names for arith ops ------------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_HOPPER_EMIT_INDEXBUILDER_H
#define FUSE_CODEGEN_HOPPER_EMIT_INDEXBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

namespace fuse {

/// Arithmetic on i32 and f32 in short, with the operations that do nothing
/// left out so that the IR of a kernel can be read.
class IndexBuilder {
public:
  IndexBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  using Value = mlir::Value;
  Value constant(int64_t value) {
    return mlir::arith::ConstantIntOp::create(builder, loc,
                                              builder.getI32Type(), value);
  }
  Value constantF32(float value) {
    return mlir::arith::ConstantOp::create(builder, loc,
                                           builder.getF32FloatAttr(value));
  }
  Value add(Value x, Value y) {
    return mlir::arith::AddIOp::create(builder, loc, x, y);
  }
  Value add(Value x, int64_t y) { return y ? add(x, constant(y)) : x; }
  Value sub(Value x, Value y) {
    return mlir::arith::SubIOp::create(builder, loc, x, y);
  }
  Value mul(Value x, int64_t y) {
    return y == 1 ? x
                  : mlir::arith::MulIOp::create(builder, loc, x, constant(y));
  }
  Value div(Value x, int64_t y) {
    return y == 1 ? x
                  : mlir::arith::DivUIOp::create(builder, loc, x, constant(y));
  }
  Value rem(Value x, int64_t y) {
    return mlir::arith::RemUIOp::create(builder, loc, x, constant(y));
  }
  Value mul(Value x, Value y) {
    return mlir::arith::MulIOp::create(builder, loc, x, y);
  }
  Value div(Value x, Value y) {
    return mlir::arith::DivUIOp::create(builder, loc, x, y);
  }
  Value rem(Value x, Value y) {
    return mlir::arith::RemUIOp::create(builder, loc, x, y);
  }
  /// x * y as i64.
  Value scale(Value x, int64_t y) {
    Value wide =
        mlir::arith::ExtUIOp::create(builder, loc, builder.getI64Type(), x);
    Value factor = mlir::arith::ConstantOp::create(
        builder, loc, builder.getI64IntegerAttr(y));
    return mlir::arith::MulIOp::create(builder, loc, wide, factor);
  }
  Value min(Value x, Value y) {
    return mlir::arith::MinUIOp::create(builder, loc, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return mlir::arith::SelectOp::create(builder, loc, condition, x, y);
  }
  Value less(Value x, Value y) {
    return mlir::arith::CmpIOp::create(builder, loc,
                                       mlir::arith::CmpIPredicate::ult, x, y);
  }
  Value equal(Value x, int64_t y) {
    return mlir::arith::CmpIOp::create(
        builder, loc, mlir::arith::CmpIPredicate::eq, x, constant(y));
  }
  Value both(Value x, Value y) {
    return x && y ? mlir::arith::AndIOp::create(builder, loc, x, y) : x ? x : y;
  }
  Value fadd(Value x, Value y) {
    return mlir::arith::AddFOp::create(builder, loc, x, y);
  }
  Value fsub(Value x, Value y) {
    return mlir::arith::SubFOp::create(builder, loc, x, y);
  }
  Value fmul(Value x, Value y) {
    return mlir::arith::MulFOp::create(builder, loc, x, y);
  }
  Value fdiv(Value x, Value y) {
    return mlir::arith::DivFOp::create(builder, loc, x, y);
  }

  /// Builds `body` under `condition`; without a condition, in place.
  void when(Value condition, llvm::function_ref<void()> body) {
    if (!condition)
      return body();
    auto branch = mlir::scf::IfOp::create(builder, loc, condition);
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    body();
  }

  void either(Value condition, llvm::function_ref<void()> yes,
              llvm::function_ref<void()> no) {
    auto branch = mlir::scf::IfOp::create(builder, loc, condition,
                                          /*withElseRegion=*/true);
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    yes();
    builder.setInsertionPointToStart(branch.elseBlock());
    no();
  }

  /// A loop that carries values; `body` gets the induction variable and the
  /// carried values and returns the next ones.
  llvm::SmallVector<Value>
  loop(Value from, Value to, int64_t step, mlir::ValueRange carried,
       llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)>
           body) {
    auto loop = mlir::scf::ForOp::create(
        builder, loc, from, to, constant(step), carried,
        [&](mlir::OpBuilder &, mlir::Location, Value index,
            mlir::ValueRange values) {
          mlir::OpBuilder::InsertionGuard guard(builder);
          builder.setInsertionPointToEnd(index.getParentBlock());
          llvm::SmallVector<Value> next = body(index, values);
          mlir::scf::YieldOp::create(builder, loc, next);
        });
    return llvm::to_vector_of<Value>(loop.getResults());
  }

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_EMIT_INDEXBUILDER_H
