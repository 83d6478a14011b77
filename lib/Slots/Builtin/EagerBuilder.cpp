//===- EagerBuilder.cpp - Build eager bodies of slots ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EagerBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;
using namespace fuse;
using mlir::utils::IteratorType;

Type fuse::elementOf(Value tensor) {
  return getElementTypeOrSelf(tensor.getType());
}

Type fuse::promote(Type lhs, Type rhs) {
  return lhs == rhs ? lhs : Float32Type::get(lhs.getContext());
}

OpFoldResult EagerBuilder::size(Value tensor, unsigned dim) {
  return tensor::getMixedSize(*this, getLoc(), tensor, dim);
}

SmallVector<OpFoldResult> EagerBuilder::sizes(Value tensor) {
  return tensor::getMixedSizes(*this, getLoc(), tensor);
}

static Value widen(ImplicitLocOpBuilder &b, Value value) {
  if (!isa<Float16Type, BFloat16Type>(value.getType()))
    return value;
  return arith::ExtFOp::create(b, b.getF32Type(), value);
}

Value EagerBuilder::constant(ImplicitLocOpBuilder &b, double value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

//===----------------------------------------------------------------------===//
// Structured ops
//===----------------------------------------------------------------------===//

Value EagerBuilder::nest(ArrayRef<OpFoldResult> sizes,
                         ArrayRef<EagerInput> inputs, Type element,
                         ArrayRef<unsigned> loops, TypedAttr init,
                         ScalarFn body) {
  SmallVector<Value> values;
  SmallVector<AffineMap> maps;
  for (const EagerInput &input : inputs) {
    auto type = cast<RankedTensorType>(input.tensor.getType());
    SmallVector<AffineExpr> exprs;
    for (auto [dim, loop] : llvm::enumerate(input.loops)) {
      bool isShared =
          type.getDimSize(dim) == 1 && getConstantIntValue(sizes[loop]) != 1;
      exprs.push_back(isShared ? getAffineConstantExpr(0)
                               : getAffineDimExpr(loop));
    }
    values.push_back(input.tensor);
    maps.push_back(AffineMap::get(sizes.size(), 0, exprs, getContext()));
  }
  SmallVector<IteratorType> iterators(sizes.size(), IteratorType::reduction);
  SmallVector<OpFoldResult> shape;
  SmallVector<AffineExpr> exprs;
  for (unsigned loop : loops) {
    iterators[loop] = IteratorType::parallel;
    shape.push_back(sizes[loop]);
    exprs.push_back(getAffineDimExpr(loop));
  }
  maps.push_back(AffineMap::get(sizes.size(), 0, exprs, getContext()));
  Value result = tensor::EmptyOp::create(*this, shape, element);
  if (init)
    result =
        linalg::FillOp::create(
            *this, arith::ConstantOp::create(*this, init).getResult(), result)
            .getResult(0);
  auto op = linalg::GenericOp::create(
      *this, result.getType(), values, result, maps, iterators,
      [&](OpBuilder &nested, Location loc, ValueRange args) {
        ImplicitLocOpBuilder b(loc, nested);
        SmallVector<Value> wide;
        for (Value arg : args)
          wide.push_back(widen(b, arg));
        Value value = body(b, wide);
        if (value.getType() != element)
          value = arith::TruncFOp::create(b, element, value);
        linalg::YieldOp::create(b, value);
      });
  return op.getResult(0);
}

Value EagerBuilder::pointwise(Type element, ArrayRef<Value> tensors,
                              ScalarFn body) {
  unsigned rank = cast<RankedTensorType>(tensors[0].getType()).getRank();
  SmallVector<OpFoldResult> shape = sizes(tensors[0]);
  SmallVector<EagerInput> inputs;
  for (Value tensor : tensors) {
    auto type = cast<RankedTensorType>(tensor.getType());
    unsigned first = rank - type.getRank();
    inputs.push_back(
        {tensor, llvm::to_vector(llvm::seq<unsigned>(first, rank))});
    for (unsigned dim = first; dim < rank; ++dim)
      if (getConstantIntValue(shape[dim]) == 1)
        shape[dim] = size(tensor, dim - first);
  }
  return nest(shape, inputs, element,
              llvm::to_vector(llvm::seq<unsigned>(0, rank)), {}, body);
}

/// Builds a reduction along the last dimension, which keeps size 1.
static Value reduceLast(EagerBuilder &b, Value tensor, double init,
                        EagerBuilder::ScalarFn body) {
  unsigned rank = cast<RankedTensorType>(tensor.getType()).getRank();
  auto loops = llvm::to_vector(llvm::seq<unsigned>(0, rank));
  // A loop of one iteration is the dimension of size 1.
  SmallVector<OpFoldResult> sizes = b.sizes(tensor);
  sizes.push_back(b.getIndexAttr(1));
  SmallVector<unsigned> kept(loops);
  kept.back() = rank;
  return b.nest(sizes, {{tensor, loops}}, b.getF32Type(), kept,
                b.getF32FloatAttr(init), body);
}

Value EagerBuilder::sum(Value tensor) {
  return reduceLast(*this, tensor, 0.0,
                    [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                      return arith::AddFOp::create(b, args[1], args[0]);
                    });
}

Value EagerBuilder::maximum(Value tensor) {
  return reduceLast(*this, tensor, -std::numeric_limits<double>::infinity(),
                    [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                      return arith::MaximumFOp::create(b, args[1], args[0]);
                    });
}

Value EagerBuilder::mean(Value tensor) {
  int64_t count = cast<RankedTensorType>(tensor.getType()).getShape().back();
  return pointwise(getF32Type(), sum(tensor),
                   [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                     return arith::DivFOp::create(b, args[0],
                                                  constant(b, count));
                   });
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

Value EagerBuilder::convert(Value tensor, Type element) {
  if (elementOf(tensor) == element)
    return tensor;
  return pointwise(
      element, tensor,
      [](ImplicitLocOpBuilder &, ValueRange args) { return args[0]; });
}

template <typename Op>
static Value binary(EagerBuilder &b, Value lhs, Value rhs) {
  return b.pointwise(promote(elementOf(lhs), elementOf(rhs)), {lhs, rhs},
                     [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                       return Op::create(b, args[0], args[1]);
                     });
}

template <typename Op>
static Value unary(EagerBuilder &b, Value tensor) {
  return b.pointwise(elementOf(tensor), tensor,
                     [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                       return Op::create(b, args[0]);
                     });
}

Value EagerBuilder::add(Value lhs, Value rhs) {
  return binary<arith::AddFOp>(*this, lhs, rhs);
}
Value EagerBuilder::sub(Value lhs, Value rhs) {
  return binary<arith::SubFOp>(*this, lhs, rhs);
}
Value EagerBuilder::mul(Value lhs, Value rhs) {
  return binary<arith::MulFOp>(*this, lhs, rhs);
}
Value EagerBuilder::neg(Value tensor) {
  return unary<arith::NegFOp>(*this, tensor);
}
Value EagerBuilder::exp(Value tensor) {
  return unary<math::ExpOp>(*this, tensor);
}
Value EagerBuilder::log(Value tensor) {
  return unary<math::LogOp>(*this, tensor);
}

Value EagerBuilder::rsqrt(Value tensor, double eps) {
  return pointwise(getF32Type(), tensor,
                   [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                     Value sum =
                         arith::AddFOp::create(b, args[0], constant(b, eps));
                     Value root = math::SqrtOp::create(b, sum);
                     return arith::DivFOp::create(b, constant(b, 1.0), root);
                   });
}

/// `x * sigmoid(x)`, or `x / 2 * (1 + f(...))` with f = erf or tanh.
static Value activate(ImplicitLocOpBuilder &b, Activation kind, Value x) {
  auto constant = [&](double value) {
    return EagerBuilder::constant(b, value);
  };
  auto mul = [&](Value lhs, Value rhs) -> Value {
    return arith::MulFOp::create(b, lhs, rhs);
  };
  auto onePlus = [&](Value value) -> Value {
    return arith::AddFOp::create(b, constant(1.0), value);
  };
  Value inner;
  if (kind == Activation::SiLU) {
    Value exp = math::ExpOp::create(b, arith::NegFOp::create(b, x).getResult());
    return mul(x, arith::DivFOp::create(b, constant(1.0), onePlus(exp)));
  }
  if (kind == Activation::GELU) {
    inner = math::ErfOp::create(b, mul(x, constant(1 / llvm::numbers::sqrt2)));
  } else {
    Value cube = mul(x, mul(x, x));
    Value sum = arith::AddFOp::create(b, x, mul(constant(0.044715), cube));
    double scale = llvm::numbers::sqrt2 * llvm::numbers::inv_sqrtpi;
    inner = math::TanhOp::create(b, mul(constant(scale), sum));
  }
  return mul(mul(constant(0.5), x), onePlus(inner));
}

Value EagerBuilder::activation(Activation kind, Value tensor) {
  return pointwise(elementOf(tensor), tensor,
                   [&](ImplicitLocOpBuilder &b, ValueRange args) {
                     return activate(b, kind, args[0]);
                   });
}

Value EagerBuilder::linear(Value x, Value weight) {
  unsigned rank = cast<RankedTensorType>(x.getType()).getRank();
  // Loops: the dimensions of x, then the outputs.
  SmallVector<OpFoldResult> all = sizes(x);
  all.push_back(size(weight, 0));
  auto loops = llvm::to_vector(llvm::seq<unsigned>(0, rank));
  SmallVector<unsigned> kept(loops);
  kept.back() = rank;
  Value product = nest(
      all, {{x, loops}, {weight, {rank, rank - 1}}}, getF32Type(), kept,
      getF32FloatAttr(0.0f),
      [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
        return arith::AddFOp::create(
            b, args[2], arith::MulFOp::create(b, args[0], args[1]).getResult());
      });
  return convert(product, elementOf(x));
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

Value EagerBuilder::castTo(Value tensor, Type type) {
  return tensor.getType() == type
             ? tensor
             : tensor::CastOp::create(*this, type, tensor).getResult();
}

Value EagerBuilder::slice(Value tensor, unsigned dim, int64_t offset,
                          int64_t count) {
  SmallVector<OpFoldResult> shape = sizes(tensor);
  shape[dim] = getIndexAttr(count);
  auto loops = llvm::to_vector(llvm::seq<unsigned>(0, shape.size()));
  return nest(shape, {}, elementOf(tensor), loops, {},
              [&](ImplicitLocOpBuilder &b, ValueRange) {
                SmallVector<Value> indices;
                for (unsigned loop : loops)
                  indices.push_back(linalg::IndexOp::create(b, loop));
                Value begin = arith::ConstantIndexOp::create(b, offset);
                indices[dim] = arith::AddIOp::create(b, indices[dim], begin);
                Value value = tensor::ExtractOp::create(b, tensor, indices);
                return widen(b, value);
              });
}

Value EagerBuilder::concat(ArrayRef<Value> tensors) {
  auto getWidth = [](Value tensor) {
    return cast<RankedTensorType>(tensor.getType()).getShape().back();
  };
  unsigned last = cast<RankedTensorType>(tensors[0].getType()).getRank() - 1;
  SmallVector<OpFoldResult> shape = sizes(tensors[0]);
  int64_t total = 0;
  for (Value tensor : tensors)
    total += getWidth(tensor);
  shape[last] = getIndexAttr(total);
  auto loops = llvm::to_vector(llvm::seq<unsigned>(0, last + 1));
  return nest(
      shape, {}, elementOf(tensors[0]), loops, {},
      [&](ImplicitLocOpBuilder &b, ValueRange) {
        SmallVector<Value> indices;
        for (unsigned loop : loops)
          indices.push_back(linalg::IndexOp::create(b, loop));
        // Each tensor is read in its bounds for every index.
        Value index = indices[last], result;
        int64_t offset = 0;
        for (Value tensor : tensors) {
          int64_t width = getWidth(tensor);
          Value begin = arith::ConstantIndexOp::create(b, offset);
          Value zero = arith::ConstantIndexOp::create(b, 0);
          Value end = arith::ConstantIndexOp::create(b, width - 1);
          indices[last] = arith::SubIOp::create(b, index, begin);
          indices[last] = arith::MaxSIOp::create(b, indices[last], zero);
          indices[last] = arith::MinSIOp::create(b, indices[last], end);
          Value value = tensor::ExtractOp::create(b, tensor, indices);
          value = widen(b, value);
          Value isReached =
              arith::CmpIOp::create(b, arith::CmpIPredicate::sge, index, begin);
          result = result ? arith::SelectOp::create(b, isReached, value, result)
                                .getResult()
                          : value;
          offset += width;
        }
        return result;
      });
}
