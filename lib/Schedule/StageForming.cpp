//===- StageForming.cpp - Form a graph of stages --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The graph of a fused op consists of the layer ops of its decomposition. Each
// member goes to a stage: linears of one input are a product, elementwise ops
// follow their operands, and ops on whole rows begin a `stage.rows` if an
// operand is the result of a product.
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/StageGraph.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fuse;

namespace {

/// The members of a stage. A product has an input.
struct Group {
  Value x;
  SmallVector<Operation *> members;
};

/// Forms the graph of one chain of layer ops.
class GraphForming {
public:
  GraphForming(FusedOpInterface op, OpBuilder &builder)
      : op(op), builder(builder) {}

  std::optional<Refusal> divide();
  stage::GraphOp build();

private:
  std::optional<unsigned> getLastGroup(Operation *member);
  unsigned choose(Operation *member);
  void buildStage(const Group &group, unsigned number);
  SmallVector<Value> getInputs(const Group &group, unsigned number);
  SmallVector<Value> getResults(const Group &group, unsigned number);
  Value lookup(Value value) { return values.lookup(value); }

  FusedOpInterface op;
  OpBuilder &builder;
  Block scratch;
  Decomposition chain;
  SmallVector<Group, 0> groups;
  DenseMap<Operation *, unsigned> groupOf;
  /// Values of the chain and of the op in the body of the graph.
  IRMapping values;
};

} // namespace

/// Why no stage has `member`, or nothing.
static std::optional<RefusalKind> getProblem(Operation *member) {
  if (auto linear = dyn_cast<LinearOp>(member)) {
    if (QuantAttr quant = linear.getQuantAttr(); quant && quant.hasBlockSums())
      return RefusalKind::StageBlockSums;
    if (linear.getWeight().getDefiningOp<DequantizeOp>())
      return RefusalKind::StageRealWeight;
    return std::nullopt;
  }
  if (isa<DequantizeWeightOp>(member))
    return RefusalKind::StageRealWeight;
  if (auto quantize = dyn_cast<DynamicQuantizeOp>(member);
      quantize && quantize.getScope() == ScaleScope::PerTensor)
    return RefusalKind::StageMember;
  if (isa<ResidualAddOp, RMSNormOp, LayerNormOp, ActivationOp, GatedMulOp,
          QuantizeOp, DequantizeOp, DynamicQuantizeOp>(member))
    return std::nullopt;
  return RefusalKind::StageMember;
}

/// The last group that has an operand of `member`.
std::optional<unsigned> GraphForming::getLastGroup(Operation *member) {
  std::optional<unsigned> last;
  for (Value operand : member->getOperands())
    if (Operation *def = operand.getDefiningOp())
      if (auto it = groupOf.find(def); it != groupOf.end())
        last = std::max(last.value_or(0), it->second);
  return last;
}

/// The number of the group of a member. Adds a group if it needs one.
unsigned GraphForming::choose(Operation *member) {
  std::optional<unsigned> last = getLastGroup(member);
  auto add = [&](Value x) {
    groups.push_back({x, {}});
    return groups.size() - 1;
  };
  if (auto linear = dyn_cast<LinearOp>(member)) {
    // A group after the operands of all linears of its input.
    for (auto [number, group] : llvm::enumerate(groups))
      if (group.x == linear.getX() && (!last || *last < number))
        return number;
    return add(linear.getX());
  }
  bool isElementwise = !isa<RMSNormOp, LayerNormOp, DynamicQuantizeOp>(member);
  if (last && (isElementwise || !groups[*last].x))
    return *last;
  if (!last && !groups.empty() && !groups.front().x)
    return 0;
  return add(Value());
}

std::optional<Refusal> GraphForming::divide() {
  OpBuilder inScratch(op.getContext());
  inScratch.setInsertionPointToEnd(&scratch);
  chain = op.decompose(inScratch);
  for (Operation *member : chain.members) {
    // The linear that reads a dequantized weight is refused.
    if (std::optional<RefusalKind> kind = getProblem(member))
      return Refusal(*kind, member);
    unsigned number = choose(member);
    groupOf[member] = number;
    groups[number].members.push_back(member);
  }
  return std::nullopt;
}

/// Values of other stages that a stage reads. The input and the weights of a
/// product are not among them.
SmallVector<Value> GraphForming::getInputs(const Group &group,
                                           unsigned number) {
  llvm::SetVector<Value> inputs;
  for (Operation *member : group.members)
    for (OpOperand &operand : member->getOpOperands()) {
      Operation *def = operand.get().getDefiningOp();
      auto it = def ? groupOf.find(def) : groupOf.end();
      bool isOwn = it != groupOf.end() && it->second == number;
      if (!isOwn && !(isa<LinearOp>(member) && operand.getOperandNumber() < 2))
        inputs.insert(operand.get());
    }
  return inputs.takeVector();
}

/// Values of a stage that other stages read, or that are results of the graph.
SmallVector<Value> GraphForming::getResults(const Group &group,
                                            unsigned number) {
  SmallVector<Value> results;
  for (Operation *member : group.members)
    for (Value value : member->getResults()) {
      bool isRead = llvm::is_contained(chain.results, value);
      for (Operation *user : value.getUsers())
        isRead |= groupOf.lookup(user) != number;
      if (isRead)
        results.push_back(value);
    }
  return results;
}

void GraphForming::buildStage(const Group &group, unsigned number) {
  Location loc = group.members.front()->getLoc();
  SmallVector<Value> inputs = getInputs(group, number),
                     results = getResults(group, number), weights, sums;
  for (Operation *member : group.members)
    if (auto linear = dyn_cast<LinearOp>(member)) {
      weights.push_back(linear.getWeight());
      sums.push_back(linear.getY());
    }
  auto lookupAll = [&](ArrayRef<Value> all) {
    return llvm::map_to_vector(all, [&](Value value) { return lookup(value); });
  };
  SmallVector<Type> types(ValueRange(results).getTypes());
  Operation *stageOp;
  IRMapping inner;
  auto *body = new Block();
  if (!group.x) {
    auto rows = stage::RowsOp::create(builder, loc, types, lookupAll(inputs),
                                      stage::RowsMappingAttr());
    rows.getBody().push_back(body);
    stageOp = rows;
  } else {
    auto product = stage::ProductOp::create(
        builder, loc, types, lookup(group.x), lookupAll(weights),
        lookupAll(inputs), IntegerAttr(), stage::ProductMappingAttr());
    product.getEpilogue().push_back(body);
    for (Value weight : product.getWeights())
      body->addArgument(product.getSumType(weight), loc);
    stageOp = product;
  }
  for (Value input : inputs)
    inner.map(input, body->addArgument(input.getType(), input.getLoc()));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(body);
  auto lookupInner = [&](Value value) {
    return value ? inner.lookup(value) : Value();
  };
  unsigned sum = 0;
  for (Operation *member : group.members) {
    auto linear = dyn_cast<LinearOp>(member);
    if (!linear) {
      builder.clone(*member, inner);
      continue;
    }
    auto finish = stage::FinishOp::create(
        builder, linear.getLoc(), linear.getY().getType(),
        body->getArgument(sum++), lookupInner(linear.getBias()),
        lookupInner(linear.getChannelScale()),
        lookupInner(linear.getDynamicScale()), linear.getInputScaleAttr(),
        linear.getWeightScaleAttr(), linear.getBiasPlaceAttr(),
        linear.getQuantAttr());
    finish->setDiscardableAttrs(linear->getDiscardableAttrDictionary());
    inner.map(linear.getY(), finish.getY());
  }
  stage::YieldOp::create(builder, loc,
                         llvm::map_to_vector(results, [&](Value value) {
                           return inner.lookup(value);
                         }));
  for (auto [result, value] : llvm::zip_equal(results, stageOp->getResults()))
    values.map(result, value);
}

stage::GraphOp GraphForming::build() {
  auto graph = stage::GraphOp::create(builder, op.getLoc(),
                                      op->getResultTypes(), op->getOperands(),
                                      stage::GraphMappingAttr(), RoundingAttr(),
                                      op.getOriginsAttr(), op.getSiteAttr());
  RoundingAttr rounding = op.getRounding();
  if (rounding.getMode() == RoundingMode::Relaxed)
    graph.setRoundingAttr(RoundingAttr::get(op.getContext(), rounding.getMode(),
                                            rounding.getSkip(), {}));
  Block *body = &graph.getBody().emplaceBlock();
  for (Value operand : op->getOperands()) {
    Value argument = body->addArgument(operand.getType(), operand.getLoc());
    if (!values.contains(operand))
      values.map(operand, argument);
  }
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(body);
  for (auto [number, group] : llvm::enumerate(groups))
    buildStage(group, number);
  stage::YieldOp::create(builder, op.getLoc(),
                         llvm::map_to_vector(chain.results, [&](Value value) {
                           return lookup(value);
                         }));
  return graph;
}

stage::GraphOp fuse::formGraph(FusedOpInterface op, OpBuilder &builder,
                               std::optional<Refusal> &refusal) {
  GraphForming forming(op, builder);
  refusal = forming.divide();
  return refusal ? stage::GraphOp() : forming.build();
}
