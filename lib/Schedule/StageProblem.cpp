//===- StageProblem.cpp - Graphs of families with kernels -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels exist for graphs that mean `[residual_add] [norm] [quantize]` and
// then linears or an MLP, and for a linear and a residual add. The description
// comes from the layer ops of the stages alone, so that it holds for a graph
// that was changed by hand.
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/StageGraph.h"

using namespace mlir;
using namespace fuse;

static Type getElement(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

namespace {

/// Reads the layer ops of a graph.
class ChainReader {
public:
  explicit ChainReader(stage::GraphOp graph) : graph(graph) {
    problem.op = graph;
    OpBuilder builder(graph.getContext());
    builder.setInsertionPointToEnd(&chain);
    results = stage::lowerGraph(graph, builder, stage::Slices::Join);
    for (Operation &member : chain)
      rest.insert(&member);
  }

  bool read();
  bool checkStages();
  std::string reason = "its stages are neither those of an MLP nor those of "
                       "linears";
  MlpProblem problem;

private:
  void readHead();
  LinearOp readTail();
  void addTail(LinearOp linear, ScaleName name);
  bool readMLP();
  bool readHidden(Value value);
  bool readLinear();
  bool readLinears(MutableArrayRef<LinearOp> linears);
  bool readLinear(LinearOp linear, ScaleKind inputScale, ScaleName name);
  bool readResults();
  void finishContract();
  Value readQuantize(Value value, ScaleKind name);

  /// The op of a value of the chain, or null. Each op is taken once.
  template <typename OpTy>
  OpTy take(Value value) {
    auto op = value ? value.getDefiningOp<OpTy>() : OpTy();
    return op && rest.remove(op) ? op : OpTy();
  }
  bool isExternal(Value value) {
    Operation *def = value.getDefiningOp();
    return !def || def->getBlock() != &chain;
  }
  void setType(RoundingPoint point, Value value) {
    types.push_back({point, getElement(value)});
  }
  bool fail(const Twine &why) {
    reason = why.str();
    return false;
  }

  stage::GraphOp graph;
  Block chain;
  SmallVector<Value> results;
  /// Ops that have not been read.
  llvm::SetVector<Operation *> rest;
  SmallVector<RoundedType> types;
  SmallVector<NamedScale> scales;
  QuantOrder order = QuantOrder::Reciprocal;
  Type storage;
  std::optional<BiasPlace> biasPlace;
  /// The stream, the normed value, and the input of the first product.
  Value stream, normed, input;
};

} // namespace

/// Reads `[residual_add] [norm]`, which begin the chain.
void ChainReader::readHead() {
  auto first =
      dyn_cast_or_null<ResidualAddOp>(chain.empty() ? nullptr : &chain.front());
  if (first && isExternal(first.getLhs()) && isExternal(first.getRhs())) {
    rest.remove(first);
    problem.x = first.getLhs();
    problem.residual = first.getRhs();
    input = stream = first.getY();
    setType(RoundingPoint::Stream, stream);
  }
  for (Operation &op : chain) {
    auto rms = dyn_cast<RMSNormOp>(op);
    auto layer = dyn_cast<LayerNormOp>(op);
    if (!rms && !layer)
      continue;
    Value x = rms ? rms.getX() : layer.getX();
    if (!problem.x && isExternal(x))
      problem.x = stream = x;
    if (x != stream)
      return;
    rest.remove(&op);
    MLIRContext *context = graph.getContext();
    if (rms) {
      problem.normWeight = rms.getWeight();
      problem.norm = NormAttr::get(context, NormKind::RMS, rms.getEpsAttr(),
                                   rms.getOffset(), rms.getCast());
      normed = rms.getY();
    } else {
      problem.normWeight = layer.getWeight();
      problem.normBias = layer.getBias();
      problem.norm = NormAttr::get(context, NormKind::Layer, layer.getEpsAttr(),
                                   0, NormCast::BeforeWeight);
      normed = layer.getY();
    }
    input = normed;
    setType(RoundingPoint::Normed, normed);
    return;
  }
}

/// The value that a static quantize op reads, or the value itself.
Value ChainReader::readQuantize(Value value, ScaleKind name) {
  auto quantize = value.getDefiningOp<QuantizeOp>();
  if (!quantize || isExternal(value) || !quantize.getScaleAttr())
    return value;
  // A contract has one storage type and one order.
  if (storage &&
      (storage != getElement(quantize.getQ()) || order != quantize.getOrder()))
    return value;
  rest.remove(quantize);
  scales.push_back({name, quantize.getScaleAttr()});
  order = quantize.getOrder();
  storage = getElement(quantize.getQ());
  return quantize.getX();
}

bool ChainReader::readLinear(LinearOp linear, ScaleKind inputScale,
                             ScaleName name) {
  rest.remove(linear);
  if (linear.getQuantAttr() || linear.getDynamicScale())
    return fail("scales are measured at run time");
  if (linear.getBias()) {
    if (biasPlace.value_or(linear.getBiasPlace()) != linear.getBiasPlace())
      return fail("biases are added before and after rounding");
    biasPlace = linear.getBiasPlace();
  }
  if (!storage)
    return isExternal(linear.getWeight());
  FloatAttr scale = linear.getInputScaleAttr();
  auto *known = llvm::find_if(scales, [&](const NamedScale &named) {
    return named.first == ScaleName(inputScale);
  });
  if (known == scales.end() || known->second != scale)
    return fail("a product has another scale than its quantized input");
  scales.push_back({name, linear.getWeightScaleAttr()});
  return isExternal(linear.getWeight());
}

/// Reads the hidden units of an MLP.
bool ChainReader::readHidden(Value value) {
  LinearOp up, gate;
  ActivationOp act;
  if (auto product = take<GatedMulOp>(value)) {
    setType(RoundingPoint::Product, product.getY());
    act = take<ActivationOp>(product.getLhs());
    up = take<LinearOp>(product.getRhs());
    if (!act) {
      act = take<ActivationOp>(product.getRhs());
      up = take<LinearOp>(product.getLhs());
    }
    if (!act || !up)
      return false;
    gate = take<LinearOp>(act.getX());
    if (!gate || gate.getX() != up.getX())
      return false;
  } else {
    act = take<ActivationOp>(value);
    up = act ? take<LinearOp>(act.getX()) : LinearOp();
    if (!up)
      return false;
  }
  setType(RoundingPoint::Act, act.getY());
  problem.activation = act.getKind();
  Value x = readQuantize(up.getX(), ScaleKind::Input);
  if (!problem.x)
    problem.x = input = stream = x;
  if (x != input)
    return false;
  if (gate) {
    problem.gate = gate.getWeight();
    problem.gateBias = gate.getBias();
    setType(RoundingPoint::Gate, gate.getY());
    if (!readLinear(gate, ScaleKind::Input, ScaleKind::Gate))
      return false;
  }
  problem.up = up.getWeight();
  problem.upBias = up.getBias();
  setType(RoundingPoint::Up, up.getY());
  problem.width = up.getWeight().getType().getDimSize(1);
  problem.hidden = up.getWeight().getType().getDimSize(0);
  return readLinear(up, ScaleKind::Input, ScaleKind::Up);
}

/// Reads linears after a norm.
bool ChainReader::readLinears(MutableArrayRef<LinearOp> linears) {
  if (linears.empty() || !problem.norm)
    return false;
  Value shared = linears.front().getX();
  if (readQuantize(shared, ScaleKind::Input) != input)
    return false;
  problem.width = linears.front().getWeight().getType().getDimSize(1);
  for (auto [index, linear] : llvm::enumerate(linears)) {
    ScaleName name = ScaleName::weight(index);
    if (linear.getX() != shared || index >= results.size() ||
        results[index] != linear.getY())
      return false;
    if (!readLinear(linear, ScaleKind::Input, name))
      return false;
    problem.outputs.push_back({linear.getWeight(), linear.getBias(),
                               linear.getWeight().getType().getDimSize(0),
                               name});
  }
  return true;
}

/// Reads the results after those of linears.
bool ChainReader::readResults() {
  for (size_t i = problem.outputs.size(); i < results.size(); ++i) {
    bool isStream = results[i] == stream;
    if (!isStream && results[i] != normed)
      return false;
    int64_t &number = isStream ? problem.streamResult : problem.normedResult;
    if (number >= 0 || (!isStream && problem.hasGemm1()))
      return false;
    number = i;
  }
  return true;
}

/// Sets the contract of roundings and scales.
void ChainReader::finishContract() {
  MLIRContext *context = graph.getContext();
  RoundingAttr contract = graph.getRoundingAttr()
                              ? graph.getRoundingAttr()
                              : RoundingAttr::getExact(context);
  // The contract names the types that differ from that of the input.
  llvm::erase_if(types, [&](const RoundedType &entry) {
    return entry.second == getElement(problem.x);
  });
  problem.rounding =
      RoundingAttr::get(context, contract.getMode(), contract.getSkip(), types,
                        biasPlace.value_or(BiasPlace::BeforeRounding));
  if (storage)
    problem.scales = StaticScalesAttr::get(context, storage, scales, order,
                                           QuantForm::Scaled);
}

/// Reads the last linear and the residual add after it.
LinearOp ChainReader::readTail() {
  Value y = results.front();
  if (auto sum = take<ResidualAddOp>(y)) {
    Value other = sum.getLhs();
    y = sum.getRhs();
    if (isExternal(y) || other.getDefiningOp<LinearOp>())
      std::swap(other, y);
    if (!isExternal(other) && other != stream)
      return {};
    problem.addStream = !isExternal(other);
    problem.outputResidual = isExternal(other) ? other : Value();
  }
  return take<LinearOp>(y);
}

/// Sets the output of the last linear.
void ChainReader::addTail(LinearOp linear, ScaleName name) {
  if (linear.getY() != results.front())
    setType(RoundingPoint::Down, linear.getY());
  problem.outputs.push_back({linear.getWeight(), linear.getBias(),
                             linear.getWeight().getType().getDimSize(0), name});
}

/// Reads one linear without a norm.
bool ChainReader::readLinear() {
  LinearOp linear = readTail();
  if (!linear)
    return false;
  problem.x = input = readQuantize(linear.getX(), ScaleKind::Input);
  problem.width = linear.getWeight().getType().getDimSize(1);
  ScaleName name = ScaleName::weight(0);
  if (!readLinear(linear, ScaleKind::Input, name))
    return false;
  addTail(linear, name);
  return true;
}

/// Reads an MLP.
bool ChainReader::readMLP() {
  LinearOp down = readTail();
  if (!down)
    return false;
  Value hidden = readQuantize(down.getX(), ScaleKind::Hidden);
  if (!readHidden(hidden) ||
      !readLinear(down, ScaleKind::Hidden, ScaleKind::Down))
    return false;
  addTail(down, ScaleKind::Down);
  return true;
}

bool ChainReader::read() {
  if (results.empty())
    return false;
  readHead();
  auto linears = llvm::to_vector(chain.getOps<LinearOp>());
  bool isRead = false;
  if (llvm::any_of(chain, llvm::IsaPred<ActivationOp>))
    isRead = readMLP();
  else if (!problem.norm && !problem.residual && linears.size() == 1)
    isRead = readLinear();
  else
    isRead = readLinears(linears);
  if (!isRead)
    return false;
  if (!isExternal(problem.x) || !rest.empty() || !readResults())
    return false;
  finishContract();
  return true;
}

/// Checks that each stage is one of the stages that kernels have.
bool ChainReader::checkStages() {
  // Launches count the rows of their first operand.
  if (problem.x != graph.getInputs().front())
    return fail("its tokens are not its first operand");
  Block &body = graph.getBody().front();
  auto rows = llvm::to_vector(body.getOps<stage::RowsOp>());
  if (rows.size() > 1 || (rows.size() == 1 && &body.front() != rows.front()))
    return fail("kernels have one stage.rows, before the products");
  int64_t products = llvm::range_size(body.getOps<stage::ProductOp>()),
          expected = problem.hasGemm1() ? 2 : 1;
  if (products != expected)
    return fail("it has " + Twine(products) + " products, its kernels have " +
                Twine(expected));
  return true;
}

std::optional<MlpProblem> fuse::describeGraph(stage::GraphOp graph,
                                              std::string &reason) {
  ChainReader reader(graph);
  if (reader.read() && reader.checkStages())
    return reader.problem;
  reason = reader.reason;
  return std::nullopt;
}
