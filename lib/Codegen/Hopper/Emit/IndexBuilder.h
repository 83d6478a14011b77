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
      : b(builder), loc(loc) {}

  using Value = mlir::Value;
  Value c(int64_t value) {
    return mlir::arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  }
  Value f(float value) {
    return mlir::arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
  }
  Value add(Value x, Value y) {
    return mlir::arith::AddIOp::create(b, loc, x, y);
  }
  Value add(Value x, int64_t y) { return y ? add(x, c(y)) : x; }
  Value sub(Value x, Value y) {
    return mlir::arith::SubIOp::create(b, loc, x, y);
  }
  Value mul(Value x, int64_t y) {
    return y == 1 ? x : mlir::arith::MulIOp::create(b, loc, x, c(y));
  }
  Value div(Value x, int64_t y) {
    return y == 1 ? x : mlir::arith::DivUIOp::create(b, loc, x, c(y));
  }
  Value rem(Value x, int64_t y) {
    return mlir::arith::RemUIOp::create(b, loc, x, c(y));
  }
  Value mul(Value x, Value y) {
    return mlir::arith::MulIOp::create(b, loc, x, y);
  }
  Value div(Value x, Value y) {
    return mlir::arith::DivUIOp::create(b, loc, x, y);
  }
  Value rem(Value x, Value y) {
    return mlir::arith::RemUIOp::create(b, loc, x, y);
  }
  /// x * y as i64.
  Value scale(Value x, int64_t y) {
    Value wide = mlir::arith::ExtUIOp::create(b, loc, b.getI64Type(), x);
    Value factor =
        mlir::arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(y));
    return mlir::arith::MulIOp::create(b, loc, wide, factor);
  }
  Value min(Value x, Value y) {
    return mlir::arith::MinUIOp::create(b, loc, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return mlir::arith::SelectOp::create(b, loc, condition, x, y);
  }
  Value less(Value x, Value y) {
    return mlir::arith::CmpIOp::create(b, loc, mlir::arith::CmpIPredicate::ult,
                                       x, y);
  }
  Value equal(Value x, int64_t y) {
    return mlir::arith::CmpIOp::create(b, loc, mlir::arith::CmpIPredicate::eq,
                                       x, c(y));
  }
  Value both(Value x, Value y) {
    return x && y ? mlir::arith::AndIOp::create(b, loc, x, y) : x ? x : y;
  }
  Value fadd(Value x, Value y) {
    return mlir::arith::AddFOp::create(b, loc, x, y);
  }
  Value fsub(Value x, Value y) {
    return mlir::arith::SubFOp::create(b, loc, x, y);
  }
  Value fmul(Value x, Value y) {
    return mlir::arith::MulFOp::create(b, loc, x, y);
  }
  Value fdiv(Value x, Value y) {
    return mlir::arith::DivFOp::create(b, loc, x, y);
  }

  /// Builds `body` under `condition`; without a condition, in place.
  void when(Value condition, llvm::function_ref<void()> body) {
    if (!condition)
      return body();
    auto branch = mlir::scf::IfOp::create(b, loc, condition);
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    body();
  }

  void either(Value condition, llvm::function_ref<void()> yes,
              llvm::function_ref<void()> no) {
    auto branch = mlir::scf::IfOp::create(b, loc, condition,
                                          /*withElseRegion=*/true);
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    yes();
    b.setInsertionPointToStart(branch.elseBlock());
    no();
  }

  /// A loop that carries values; `body` gets the induction variable and the
  /// carried values and returns the next ones.
  llvm::SmallVector<Value>
  loop(Value from, Value to, int64_t step, mlir::ValueRange carried,
       llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)>
           body) {
    auto loop = mlir::scf::ForOp::create(
        b, loc, from, to, c(step), carried,
        [&](mlir::OpBuilder &, mlir::Location, Value index,
            mlir::ValueRange values) {
          mlir::OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToEnd(index.getParentBlock());
          llvm::SmallVector<Value> next = body(index, values);
          mlir::scf::YieldOp::create(b, loc, next);
        });
    return llvm::to_vector_of<Value>(loop.getResults());
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_EMIT_INDEXBUILDER_H
