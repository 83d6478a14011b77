//===- TensorExpr.cpp - Tensors as scalar expressions ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/TensorExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fuse;

/// Maximum length of a chain of producers; a tensor further up is a leaf.
/// Bounds the stack; the expressions of layers are far shallower.
static constexpr unsigned kMaxDepth = 256;
/// Maximum number of tensors recorded as holders of one value.
static constexpr unsigned kMaxOrigins = 8;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// The float types narrower than f32, one bit of `Expr::exactIn` each.
static ArrayRef<const llvm::fltSemantics *> getNarrowSemantics() {
  static const llvm::fltSemantics *const semantics[] = {
      &APFloat::IEEEhalf(), &APFloat::BFloat(), &APFloat::Float8E4M3FN(),
      &APFloat::Float8E5M2()};
  return semantics;
}
constexpr unsigned kAllNarrow = 0xf, kHalfAndBFloat = 0x3;

/// The bits of `Expr::exactIn` for values of `type`.
static unsigned getExactIn(Type type) {
  if (isa<Float8E4M3FNType>(type))
    return kHalfAndBFloat | 0x4;
  if (isa<Float8E5M2Type>(type))
    return kHalfAndBFloat | 0x8;
  if (type.isSignlessInteger(8))
    return kHalfAndBFloat;
  return type.isF16() ? 0x1 : type.isBF16() ? 0x2 : 0;
}

static unsigned getExactIn(double value) {
  unsigned bits = 0;
  for (auto [bit, semantics] : llvm::enumerate(getNarrowSemantics())) {
    APFloat number(value);
    bool losesInfo = false;
    number.convert(*semantics, APFloat::rmNearestTiesToEven, &losesInfo);
    if (!losesInfo)
      bits |= 1u << bit;
  }
  return bits;
}

static unsigned getExactIn(const Expr &node) {
  switch (node.kind) {
  case ExprKind::Leaf:
  case ExprKind::Round:
  case ExprKind::ToInt:
    return getExactIn(node.type);
  case ExprKind::Constant:
    return getExactIn(node.value);
  case ExprKind::Neg:
  case ExprKind::Abs:
  case ExprKind::Max:
  case ExprKind::Min:
  case ExprKind::MaxNum:
  case ExprKind::MinNum: {
    unsigned bits = kAllNarrow;
    for (const Expr *operand : node.operands)
      bits &= operand->exactIn;
    return bits;
  }
  default:
    return 0;
  }
}

/// Whether rounding `expr` to `type` changes nothing.
static bool isRepresentable(const Expr *expr, Type type) {
  const llvm::fltSemantics &wanted = cast<FloatType>(type).getFloatSemantics();
  for (auto [bit, semantics] : llvm::enumerate(getNarrowSemantics()))
    if (semantics == &wanted)
      return expr->exactIn & (1u << bit);
  return false;
}

/// Whether expressions support values of this type.
static bool isComputeType(Type type) {
  return type.isF32() || type.isF16() || type.isBF16();
}

static bool isLeafType(Type type) {
  return isComputeType(type) || isa<Float8E4M3FNType, Float8E5M2Type>(type) ||
         type.isSignlessInteger(8);
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

void Expr::Profile(llvm::FoldingSetNodeID &id) const {
  id.AddInteger(static_cast<unsigned>(kind));
  id.AddPointer(type.getAsOpaquePointer());
  id.AddInteger(llvm::bit_cast<uint64_t>(value));
  id.AddPointer(leaf.getAsOpaquePointer());
  id.AddInteger(static_cast<unsigned>(index.size()));
  for (int i : index)
    id.AddInteger(i);
  for (const Expr *operand : operands)
    id.AddPointer(operand);
  id.AddInteger(variable);
}

TensorExprs::~TensorExprs() { nodes.clear(); }

Expr *TensorExprs::intern(Expr &&node) {
  llvm::FoldingSetNodeID id;
  node.Profile(id);
  void *position = nullptr;
  if (Expr *existing = nodes.FindNodeOrInsertPos(id, position))
    return existing;
  Expr *created = new (allocator.Allocate()) Expr(std::move(node));
  created->exactIn = getExactIn(*created);
  created->usesAccumulator =
      created->kind == ExprKind::Accumulator ||
      (created->kind != ExprKind::Sum &&
       llvm::any_of(created->operands,
                    [](const Expr *e) { return e->usesAccumulator; }));
  nodes.InsertNode(created, position);
  return created;
}

const Expr *TensorExprs::getNode(ExprKind kind, ArrayRef<const Expr *> operands,
                                 Operation *owner, Type type, double value,
                                 int variable) {
  Expr node;
  node.kind = kind;
  node.operands.assign(operands.begin(), operands.end());
  node.owner = owner;
  node.type = type;
  node.value = value;
  node.variable = variable;
  return intern(std::move(node));
}

const Expr *TensorExprs::getConstant(double value, Operation *owner) {
  return getNode(ExprKind::Constant, {}, owner, {}, value);
}

const Expr *TensorExprs::getLeaf(Value value, ArrayRef<int> index) {
  Type type = getElementTypeOrSelf(value.getType());
  if (!isLeafType(type))
    return nullptr;
  Expr node;
  node.kind = ExprKind::Leaf;
  node.type = type;
  node.leaf = value;
  node.index.assign(index.begin(), index.end());
  node.owner = value.getDefiningOp();
  return intern(std::move(node));
}

const Expr *TensorExprs::getRound(Type type, const Expr *operand,
                                  Operation *owner) {
  if (type.isF32() || isRepresentable(operand, type))
    return operand;
  if (operand->isConstant()) {
    APFloat value(operand->value);
    bool losesInfo = false;
    value.convert(cast<FloatType>(type).getFloatSemantics(),
                  APFloat::rmNearestTiesToEven, &losesInfo);
    return getConstant(value.convertToDouble(), owner);
  }
  return getNode(ExprKind::Round, operand, owner, type);
}

//===----------------------------------------------------------------------===//
// Scalar ops
//===----------------------------------------------------------------------===//

/// The value of a scalar or splat constant, or nothing.
static std::optional<double> getConstantValue(Value value) {
  Attribute attribute;
  if (!matchPattern(value, m_Constant(&attribute)))
    return std::nullopt;
  if (auto elements = dyn_cast<DenseElementsAttr>(attribute)) {
    if (!elements.isSplat())
      return std::nullopt;
    attribute = elements.getSplatValue<Attribute>();
  }
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  if (auto number = dyn_cast<IntegerAttr>(attribute))
    if (number.getType().isIndex() || number.getType().isSignlessInteger())
      if (number.getValue().getSignificantBits() <= 32)
        return double(number.getValue().getSExtValue());
  return std::nullopt;
}

const Expr *TensorExprs::buildScalar(Value scalar) {
  if (std::optional<double> value = getConstantValue(scalar))
    return getConstant(*value, scalar.getDefiningOp());
  return getLeaf(scalar, {});
}

/// A select between the two sides of a comparison with a constant is a maximum
/// or minimum. Its result for NaN depends on whether the comparison is ordered.
/// Every other select is a node of its own.
const Expr *TensorExprs::buildSelect(ArrayRef<const Expr *> operands,
                                     Operation *owner) {
  const Expr *compare = operands[0];
  if (compare->kind != ExprKind::Compare)
    return nullptr;
  const Expr *lhs = compare->operand(0), *rhs = compare->operand(1);
  bool straight = operands[1] == lhs && operands[2] == rhs;
  bool crossed = operands[1] == rhs && operands[2] == lhs;
  if (lhs == rhs || lhs->isConstant() == rhs->isConstant() ||
      (!straight && !crossed))
    return getNode(ExprKind::Select, operands, owner);
  using Predicate = arith::CmpFPredicate;
  bool greater, ordered;
  switch (static_cast<Predicate>(int(compare->value))) {
  case Predicate::OGT:
  case Predicate::OGE:
    greater = true, ordered = true;
    break;
  case Predicate::UGT:
  case Predicate::UGE:
    greater = true, ordered = false;
    break;
  case Predicate::OLT:
  case Predicate::OLE:
    greater = false, ordered = true;
    break;
  case Predicate::ULT:
  case Predicate::ULE:
    greater = false, ordered = false;
    break;
  default:
    return getNode(ExprKind::Select, operands, owner);
  }
  bool maximum = greater == straight;
  // For NaN, an ordered comparison selects operand 2 and an unordered one
  // operand 1. NaN propagates if that operand is not the constant.
  bool keepsNaN = !operands[ordered ? 2 : 1]->isConstant();
  ExprKind kind = maximum ? (keepsNaN ? ExprKind::Max : ExprKind::MaxNum)
                          : (keepsNaN ? ExprKind::Min : ExprKind::MinNum);
  return getNode(kind, {lhs, rhs}, owner);
}

/// The kind of an op that is a single node on f32.
static std::optional<ExprKind> getKind(Operation *op) {
  using Result = std::optional<ExprKind>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<arith::NegFOp>([](auto) { return ExprKind::Neg; })
      .Case<arith::AddFOp>([](auto) { return ExprKind::Add; })
      .Case<arith::SubFOp>([](auto) { return ExprKind::Sub; })
      .Case<arith::MulFOp>([](auto) { return ExprKind::Mul; })
      .Case<arith::DivFOp>([](auto) { return ExprKind::Div; })
      .Case<arith::MaximumFOp>([](auto) { return ExprKind::Max; })
      .Case<arith::MinimumFOp>([](auto) { return ExprKind::Min; })
      .Case<arith::MaxNumFOp>([](auto) { return ExprKind::MaxNum; })
      .Case<arith::MinNumFOp>([](auto) { return ExprKind::MinNum; })
      .Case<math::AbsFOp>([](auto) { return ExprKind::Abs; })
      .Case<math::PowFOp, math::FPowIOp>([](auto) { return ExprKind::Pow; })
      .Case<math::ExpOp>([](auto) { return ExprKind::Exp; })
      .Case<math::LogOp>([](auto) { return ExprKind::Log; })
      .Case<math::Log1pOp>([](auto) { return ExprKind::Log1p; })
      .Case<math::TanhOp>([](auto) { return ExprKind::Tanh; })
      .Case<math::ErfOp>([](auto) { return ExprKind::Erf; })
      .Case<math::ErfcOp>([](auto) { return ExprKind::Erfc; })
      .Case<math::SqrtOp>([](auto) { return ExprKind::Sqrt; })
      .Case<math::RsqrtOp>([](auto) { return ExprKind::Rsqrt; })
      .Case<math::RoundEvenOp>([](auto) { return ExprKind::RoundEven; })
      .Case<math::RoundOp>([](auto) { return ExprKind::RoundAway; })
      .Default([](auto) { return Result(); });
}

/// The node of a scalar op, or of one element of an op on tensors. Null if
/// expressions do not support the op.
const Expr *TensorExprs::buildOp(Operation *op, Operation *owner,
                                 ArrayRef<const Expr *> operands) {
  if (op->getNumResults() != 1 || llvm::is_contained(operands, nullptr))
    return nullptr;
  Type type = getElementTypeOrSelf(op->getResult(0).getType());
  if (isa<arith::CmpFOp>(op)) {
    auto predicate = cast<arith::CmpFOp>(op).getPredicate();
    return getNode(ExprKind::Compare, operands, owner, {}, double(predicate));
  }
  if (isa<arith::SelectOp>(op))
    return isComputeType(type) ? buildSelect(operands, owner) : nullptr;
  if (isa<arith::ExtFOp>(op))
    return isComputeType(type) ? operands[0] : nullptr;
  if (auto truncate = dyn_cast<arith::TruncFOp>(op)) {
    auto mode = truncate.getRoundingmodeAttr();
    if (mode && mode.getValue() != arith::RoundingMode::to_nearest_even)
      return nullptr;
    if (!isLeafType(type))
      return nullptr;
    return getRound(type, operands[0], owner);
  }
  // Integers are stored values of quantized tensors. Every supported type
  // represents them exactly.
  if (isa<arith::SIToFPOp, arith::ExtSIOp>(op)) {
    const Expr *operand = operands[0];
    bool isStored =
        (operand->kind == ExprKind::Leaf || operand->kind == ExprKind::ToInt) &&
        operand->type.isSignlessInteger(8);
    bool fits = isComputeType(type) || isa<IntegerType>(type);
    return isStored && fits ? operand : nullptr;
  }
  if (isa<arith::FPToSIOp>(op))
    return type.isSignlessInteger(8)
               ? getNode(ExprKind::ToInt, operands, owner, type)
               : nullptr;
  if (!isComputeType(type))
    return nullptr;
  if (isa<math::FmaOp>(op)) {
    const Expr *product = getNode(ExprKind::Mul, operands.take_front(2), owner);
    return getRound(type, getNode(ExprKind::Add, {product, operands[2]}, owner),
                    owner);
  }
  std::optional<ExprKind> kind = getKind(op);
  if (!kind)
    return nullptr;
  if (*kind == ExprKind::Neg && operands[0]->isConstant())
    return getConstant(-operands[0]->value, owner);
  return getRound(type, getNode(*kind, operands, owner), owner);
}

const Expr *TensorExprs::buildSum(const Expr *body, const Expr *init,
                                  int variable, Operation *owner) {
  Type type = Float32Type::get(owner->getContext());
  if (body->kind == ExprKind::Round) {
    type = body->type;
    body = body->operand(0);
  }
  if (body->kind != ExprKind::Add)
    return nullptr;
  for (unsigned i : {0u, 1u})
    if (body->operand(i)->kind == ExprKind::Accumulator &&
        !body->operand(1 - i)->usesAccumulator)
      return getNode(ExprKind::Sum, {body->operand(1 - i), init}, owner, type,
                     0.0, variable);
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Reshapes that add or remove unit dimensions only rename indices.
const Expr *TensorExprs::buildReshape(Operation *op, ArrayRef<int> index) {
  bool expands = isa<tensor::ExpandShapeOp>(op);
  auto groups =
      expands ? cast<tensor::ExpandShapeOp>(op).getReassociationIndices()
              : cast<tensor::CollapseShapeOp>(op).getReassociationIndices();
  Value source = op->getOperand(0);
  auto wide = cast<RankedTensorType>(expands ? op->getResult(0).getType()
                                             : source.getType());
  auto sourceType = cast<RankedTensorType>(source.getType());
  ExprIndex sourceIndex(sourceType.getRank(), kZeroIndex);
  for (auto [narrow, group] : llvm::enumerate(groups)) {
    std::optional<int64_t> kept;
    for (int64_t dim : group) {
      if (wide.getDimSize(dim) == 1)
        continue;
      if (kept)
        return nullptr;
      kept = dim;
    }
    if (kept)
      sourceIndex[expands ? narrow : *kept] = index[expands ? *kept : narrow];
  }
  return get(source, sourceIndex);
}

/// The indices of an operand with indexing map `map`, given the indices of the
/// loops. Fails on results other than loop dimensions and zeros.
static LogicalResult applyMap(AffineMap map, ArrayRef<std::optional<int>> loops,
                              ExprIndex &index) {
  for (AffineExpr result : map.getResults()) {
    if (auto dim = dyn_cast<AffineDimExpr>(result)) {
      if (!loops[dim.getPosition()])
        return failure();
      index.push_back(*loops[dim.getPosition()]);
      continue;
    }
    auto constant = dyn_cast<AffineConstantExpr>(result);
    if (!constant || constant.getValue() != 0)
      return failure();
    index.push_back(kZeroIndex);
  }
  return success();
}

/// Assigns an index to each loop for one element of a result. The reduction
/// loop, if any, gets `variable`. Fails on more than one reduction loop.
static LogicalResult assignLoops(linalg::LinalgOp op, AffineMap resultMap,
                                 ArrayRef<int> index,
                                 MutableArrayRef<std::optional<int>> loops,
                                 std::optional<int> &variable) {
  for (auto [expr, position] : llvm::zip_equal(resultMap.getResults(), index)) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim) {
      // The op writes only index 0; in a dimension of another size, all other
      // elements keep their initial values.
      auto constant = dyn_cast<AffineConstantExpr>(expr);
      if (!constant || constant.getValue() != 0 || position != kZeroIndex)
        return failure();
      continue;
    }
    std::optional<int> &loop = loops[dim.getPosition()];
    if (loop && *loop != position)
      return failure();
    loop = position;
  }
  for (auto [loop, iterator] :
       llvm::zip_equal(loops, op.getIteratorTypesArray())) {
    if (iterator == utils::IteratorType::parallel)
      continue;
    if (iterator != utils::IteratorType::reduction || variable || loop)
      return failure();
    unsigned nesting = 0;
    for (int position : index)
      if (isSumVariable(position))
        nesting = std::max(nesting, unsigned(-2 - position) + 1);
    // Two levels are enough for the mean inside of a variance. With more,
    // consecutive matrix products would be viewed at ever new indices.
    if (nesting > 1)
      return failure();
    variable = getSumVariable(nesting);
    loop = variable;
  }
  return success();
}

const Expr *TensorExprs::buildLinalg(OpResult result, ArrayRef<int> index) {
  auto op = cast<linalg::LinalgOp>(result.getOwner());
  if (!op.hasPureTensorSemantics() || op->getNumRegions() != 1)
    return nullptr;
  OpOperand *init = op.getDpsInitOperand(result.getResultNumber());
  AffineMap resultMap = op.getMatchingIndexingMap(init);
  SmallVector<std::optional<int>> loops(op.getNumLoops());
  std::optional<int> variable;
  if (failed(assignLoops(op, resultMap, index, loops, variable)))
    return nullptr;

  Block *body = op.getBlock();
  llvm::SmallDenseMap<Value, const Expr *, 16> values;
  for (OpOperand &operand : op->getOpOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(&operand);
    if (argument.use_empty())
      continue;
    // The accumulators of other sums also differ from their initial values.
    if (variable && op.isDpsInit(&operand)) {
      if (&operand == init)
        values[argument] = getNode(ExprKind::Accumulator, {}, op);
      continue;
    }
    if (!isa<RankedTensorType>(operand.get().getType())) {
      values[argument] = buildScalar(operand.get());
      continue;
    }
    ExprIndex operandIndex;
    if (succeeded(
            applyMap(op.getMatchingIndexingMap(&operand), loops, operandIndex)))
      values[argument] = get(operand.get(), operandIndex);
  }
  auto lookup = [&](Value value) -> const Expr * {
    auto known = values.find(value);
    if (known != values.end())
      return known->second;
    Operation *producer = value.getDefiningOp();
    if (producer && producer->getBlock() == body &&
        !producer->hasTrait<OpTrait::ConstantLike>())
      return nullptr;
    if (auto argument = dyn_cast<BlockArgument>(value);
        argument && argument.getOwner() == body)
      return nullptr;
    return buildScalar(value);
  };
  for (Operation &inner : body->without_terminator()) {
    if (inner.hasTrait<OpTrait::ConstantLike>() || inner.getNumResults() != 1)
      continue;
    values[inner.getResult(0)] = buildOp(
        &inner, op, llvm::map_to_vector<3>(inner.getOperands(), lookup));
  }
  const Expr *yielded =
      lookup(body->getTerminator()->getOperand(result.getResultNumber()));
  if (!yielded || !variable)
    return yielded;
  ExprIndex initIndex;
  if (failed(applyMap(resultMap, loops, initIndex)))
    return nullptr;
  const Expr *start = get(init->get(), initIndex);
  return start ? buildSum(yielded, start, *variable, op) : nullptr;
}

const Expr *TensorExprs::build(Value tensor, ArrayRef<int> index) {
  if (std::optional<double> value = getConstantValue(tensor))
    return getConstant(*value, tensor.getDefiningOp());
  auto result = dyn_cast<OpResult>(tensor);
  if (!result)
    return nullptr;
  Operation *op = result.getOwner();
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return isa<RankedTensorType>(cast.getSource().getType())
               ? get(cast.getSource(), index)
               : nullptr;
  if (auto splat = dyn_cast<tensor::SplatOp>(op))
    return buildScalar(splat.getInput());
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
    return buildReshape(op, index);
  if (isa<linalg::LinalgOp>(op))
    return buildLinalg(result, index);
  if (!op->hasTrait<OpTrait::Elementwise>() || op->getNumRegions() != 0)
    return nullptr;
  SmallVector<const Expr *, 3> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isa<RankedTensorType>(operand.getType())
                           ? get(operand, index)
                           : buildScalar(operand));
  return buildOp(op, op, operands);
}

ExprIndex TensorExprs::getIdentity(RankedTensorType type) {
  ExprIndex index;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    index.push_back(size == 1 ? kZeroIndex : int(dim));
  return index;
}

const Expr *TensorExprs::get(Value tensor) {
  return get(tensor, getIdentity(cast<RankedTensorType>(tensor.getType())));
}

const Expr *TensorExprs::get(Value tensor, ArrayRef<int> index) {
  auto type = cast<RankedTensorType>(tensor.getType());
  ExprIndex normalized(index);
  for (auto [position, size] : llvm::zip_equal(normalized, type.getShape()))
    if (size == 1)
      position = kZeroIndex;
  if (auto known = views.find(tensor); known != views.end())
    for (const auto &[knownIndex, expr] : known->second)
      if (knownIndex == normalized)
        return expr;
  if (depth >= kMaxDepth)
    return getLeaf(tensor, normalized);
  ++depth;
  const Expr *expr = build(tensor, normalized);
  --depth;
  // A comparison has no origin, because layers have no tensors of i1.
  if (!expr)
    expr = getLeaf(tensor, normalized);
  if (expr && expr->kind != ExprKind::Compare &&
      expr->origins.size() < kMaxOrigins)
    const_cast<Expr *>(expr)->origins.emplace_back(tensor, normalized);
  views[tensor].emplace_back(normalized, expr);
  return expr;
}

Value TensorExprs::findTensor(const Expr *expr, ArrayRef<int> index,
                              ArrayRef<int64_t> shape,
                              function_ref<bool(Value)> accepts) {
  for (const auto &[tensor, at] : expr->origins) {
    auto type = cast<RankedTensorType>(tensor.getType());
    // A dynamic dimension of which only index 0 is read may be longer than 1.
    bool sameShape =
        type.getRank() == int64_t(shape.size()) &&
        llvm::all_of(llvm::zip_equal(type.getShape(), shape, at), [](auto t) {
          auto [size, wanted, position] = t;
          if (ShapedType::isDynamic(size) || ShapedType::isDynamic(wanted))
            return position != kZeroIndex;
          return size == wanted;
        });
    if (sameShape && ArrayRef<int>(at) == index && accepts(tensor))
      return tensor;
  }
  return {};
}
