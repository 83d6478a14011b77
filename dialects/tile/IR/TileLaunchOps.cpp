//===- TileLaunchOps.cpp - Launches and their plans -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "tile/IR/TileOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tile;
using bufferization::AliasingValueList;
using bufferization::AnalysisState;
using bufferization::BufferizationOptions;
using bufferization::BufferizationState;
using bufferization::BufferLikeType;
using bufferization::BufferRelation;

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Checks that numbers are natural and less than 2^48, so that products of two
/// small ones do not overflow.
static LogicalResult
checkNumbers(function_ref<InFlightDiagnostic()> emitError,
             ArrayRef<std::pair<StringRef, int64_t>> numbers) {
  for (auto [name, number] : numbers)
    if (number < 0 || number >= int64_t(1) << 48)
      return emitError() << name << " = " << number
                         << " is not from 0 to 2^48 - 1";
  return success();
}

LogicalResult
WorkspaceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      int64_t bytes, int64_t zeroed, ArrayAttr matrices) {
  if (failed(checkNumbers(emitError, {{"bytes", bytes}, {"zeroed", zeroed}})))
    return failure();
  if (zeroed > bytes)
    return emitError() << "zeroed = " << zeroed
                       << " is more than bytes = " << bytes;
  int64_t end = zeroed;
  for (Attribute attr :
       matrices ? matrices.getValue() : ArrayRef<Attribute>()) {
    auto matrix = dyn_cast<TokenMatrixAttr>(attr);
    if (!matrix)
      return emitError() << "matrices has " << attr
                         << ": expected #tile.token_matrix";
    if (failed(checkNumbers(emitError, {{"offset", matrix.getOffset()},
                                        {"row_bytes", matrix.getRowBytes()},
                                        {"multiple", matrix.getMultiple()}})))
      return failure();
    if (matrix.getMultiple() == 0)
      return emitError() << "multiple = 0 of a matrix is not positive";
    if (matrix.getOffset() < end || matrix.getOffset() > bytes)
      return emitError() << "a matrix begins at " << matrix.getOffset()
                         << ": expected " << end << " to " << bytes;
    end = matrix.getOffset();
  }
  return success();
}

LogicalResult BoxAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                              int64_t source, int64_t offset,
                              ArrayRef<int64_t> at, ArrayRef<int64_t> sizes,
                              ArrayRef<int64_t> strides) {
  if (at.size() != sizes.size() || at.size() != strides.size())
    return emitError() << "a box has " << at.size() << " positions, "
                       << sizes.size() << " sizes and " << strides.size()
                       << " strides";
  SmallVector<std::pair<StringRef, int64_t>> numbers = {{"source", source},
                                                        {"offset", offset}};
  for (auto [name, values] :
       {std::pair("at", at), {"sizes", sizes}, {"strides", strides}})
    for (int64_t value : values)
      numbers.push_back({name, value});
  return checkNumbers(emitError, numbers);
}

LogicalResult PackedAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringRef, ArrayRef<int64_t> operands, int64_t,
                                 int64_t, int64_t, ArrayAttr views) {
  if (!views)
    return success();
  for (Attribute view : views) {
    auto boxes = dyn_cast<ArrayAttr>(view);
    if (!boxes || boxes.empty())
      return emitError() << "views has " << view
                         << ": expected a list of #tile.box for each matrix";
    for (Attribute attr : boxes) {
      auto box = dyn_cast<BoxAttr>(attr);
      if (!box)
        return emitError() << "views has " << attr << ": expected #tile.box";
      if (box.getSource() >= static_cast<int64_t>(operands.size()))
        return emitError() << "views has a box of operand " << box.getSource()
                           << ", but there are " << operands.size();
    }
  }
  return success();
}

/// The numbers of an argument, or nothing if it is of no known kind.
static std::optional<SmallVector<std::pair<StringRef, int64_t>>>
getNumbers(Attribute argument) {
  using Numbers = SmallVector<std::pair<StringRef, int64_t>>;
  return llvm::TypeSwitch<Attribute, std::optional<Numbers>>(argument)
      .Case<OperandAttr, ResultAttr>(
          [](auto attr) { return Numbers{{"index", attr.getIndex()}}; })
      .Case([](PackedAttr attr) {
        Numbers numbers = {{"tiles", attr.getTiles()},
                           {"steps", attr.getSteps()},
                           {"bytes", attr.getBytes()}};
        for (int64_t operand : attr.getOperands())
          numbers.push_back({"an operand", operand});
        return numbers;
      })
      .Case([](PlaceAttr attr) {
        return Numbers{{"offset", attr.getOffset()},
                       {"rows", attr.getRows()},
                       {"columns", attr.getColumns()}};
      })
      .Case([](TokenMapAttr attr) {
        return Numbers{{"offset", attr.getOffset()},
                       {"rows", attr.getRows()},
                       {"columns", attr.getColumns()},
                       {"box_rows", attr.getBoxRows()},
                       {"box_columns", attr.getBoxColumns()},
                       {"swizzle", attr.getSwizzle()}};
      })
      .Case<TokensAttr, ScalarAttr>([](Attribute) { return Numbers(); })
      .Default([](Attribute) { return std::nullopt; });
}

LogicalResult ScalarAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringRef name, FloatAttr value,
                                 ArrayAttr factors, FloatAttr divisor) {
  if (!factors && !divisor)
    return success();
  auto toF32 = [](Attribute attr) {
    return cast<FloatAttr>(attr).getValue().convertToFloat();
  };
  auto isF32 = [](Attribute attr) {
    auto number = dyn_cast<FloatAttr>(attr);
    return number && number.getType().isF32();
  };
  if (factors && divisor)
    return emitError() << "scalar '" << name
                       << "' is either a product or a reciprocal, not both";
  if (!isF32(value) || (divisor && !isF32(divisor)) ||
      (factors && (factors.empty() || !llvm::all_of(factors, isF32))))
    return emitError() << "scalar '" << name
                       << "' and its scales must be numbers of type f32";
  float expected = 1.0f;
  if (divisor)
    expected = 1.0f / toF32(divisor);
  else
    for (Attribute factor : factors)
      expected *= toF32(factor);
  if (expected != toF32(value))
    return emitError() << "scalar '" << name << "' is " << toF32(value)
                       << ", and its scales make it " << expected;
  return success();
}

LogicalResult PlanAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t blocks, int64_t threads,
                               int64_t sharedBytes, int64_t cluster, bool, bool,
                               std::optional<int64_t> carveout,
                               int64_t maxTokens, WorkspaceAttr, bool,
                               ArrayAttr arguments) {
  if (failed(checkNumbers(emitError, {{"blocks", blocks},
                                      {"threads", threads},
                                      {"shared_bytes", sharedBytes},
                                      {"cluster", cluster},
                                      {"max_tokens", maxTokens}})))
    return failure();
  if (maxTokens == 0)
    return emitError() << "max_tokens = 0 is not positive";
  if (carveout && (*carveout < 0 || *carveout > 100))
    return emitError() << "carveout = " << *carveout
                       << " is not from 0 to 100 percent";
  for (Attribute argument : arguments) {
    auto numbers = getNumbers(argument);
    if (!numbers)
      return emitError() << "arguments has " << argument
                         << ": expected #tile.operand, #tile.result, "
                            "#tile.packed, #tile.place, #tile.token_map, "
                            "#tile.tokens or #tile.scalar";
    if (failed(checkNumbers(emitError, *numbers)))
      return failure();
  }
  return success();
}

int64_t PlanAttr::getWorkspaceBytes() const {
  return getWorkspace() ? getWorkspace().getBytes() : 0;
}

int64_t PlanAttr::getZeroedBytes() const {
  return getWorkspace() ? getWorkspace().getZeroed() : 0;
}

SmallVector<TokenMatrixAttr> PlanAttr::getMatrices() const {
  if (!getWorkspace() || !getWorkspace().getMatrices())
    return {};
  return llvm::to_vector(
      getWorkspace().getMatrices().getAsRange<TokenMatrixAttr>());
}

//===----------------------------------------------------------------------===//
// launch
//===----------------------------------------------------------------------===//

/// Checks that outputs are all tensors or all buffers that a kernel can use.
static LogicalResult verifyInits(DestinationStyleOpInterface op) {
  bool isTensor = false, isBuffer = false;
  for (Value init : op.getDpsInits()) {
    auto buffer = dyn_cast<MemRefType>(init.getType());
    isBuffer |= static_cast<bool>(buffer);
    isTensor |= !buffer;
  }
  if (isTensor && isBuffer)
    return op.emitOpError("has outputs in tensors and in buffers");
  return success();
}

LogicalResult LaunchOp::verify() {
  if (failed(verifyInits(*this)))
    return failure();
  for (Type type : getOperandTypes())
    if (auto buffer = dyn_cast<MemRefType>(type);
        buffer && !buffer.getLayout().isIdentity())
      return emitOpError() << "has an operand of type " << type
                           << ": expected buffers without strides";
  if (!getPlan())
    return success();
  auto check = [&](StringRef what, int64_t index,
                   size_t count) -> LogicalResult {
    if (index < static_cast<int64_t>(count))
      return success();
    return emitOpError() << "has a plan with " << what << " " << index
                         << ", but " << count << " of them";
  };
  for (Attribute argument : getPlan()->getArguments()) {
    if (auto operand = dyn_cast<OperandAttr>(argument))
      if (failed(check("operand", operand.getIndex(), getInputs().size())))
        return failure();
    if (auto result = dyn_cast<ResultAttr>(argument))
      if (failed(check("result", result.getIndex(), getInits().size())))
        return failure();
    if (auto packed = dyn_cast<PackedAttr>(argument))
      for (int64_t index : packed.getOperands())
        if (failed(check("packed operand", index, getInputs().size())))
          return failure();
  }
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // After code generation, the gpu.module is a gpu.binary without symbols.
  Operation *module = symbols.lookupNearestSymbolFrom(
      *this, FlatSymbolRefAttr::get(getKernel().getRootReference()));
  if (!module)
    return emitOpError() << "names " << getKernel()
                         << ", but there is no module @"
                         << getKernel().getRootReference().getValue();
  if (isa<gpu::GPUModuleOp>(module) &&
      !symbols.lookupNearestSymbolFrom(*this, getKernelAttr()))
    return emitOpError() << "names " << getKernel()
                         << ", but the module has no such kernel";
  return success();
}

void LaunchOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  auto add = [&](OpOperand &operand, MemoryEffects::Effect *effect) {
    if (isa<MemRefType>(operand.get().getType()))
      effects.emplace_back(effect, &operand);
  };
  for (OpOperand &operand : getInputsMutable())
    add(operand, MemoryEffects::Read::get());
  for (OpOperand &operand : getInitsMutable()) {
    add(operand, MemoryEffects::Read::get());
    add(operand, MemoryEffects::Write::get());
  }
}

bool LaunchOp::bufferizesToMemoryRead(OpOperand &, const AnalysisState &) {
  return true;
}

/// The number of an init, or none. Inits are the last operands. The analysis
/// asks for each pair of operands, and isDpsInit makes an attribute each time.
template <typename OpTy>
static std::optional<unsigned> getInitNumber(OpTy op, OpOperand &operand) {
  unsigned first = op->getNumOperands() - op.getInits().size();
  if (operand.getOperandNumber() < first)
    return std::nullopt;
  return operand.getOperandNumber() - first;
}

bool LaunchOp::bufferizesToMemoryWrite(OpOperand &operand,
                                       const AnalysisState &) {
  return getInitNumber(*this, operand).has_value();
}

AliasingValueList LaunchOp::getAliasingValues(OpOperand &operand,
                                              const AnalysisState &) {
  auto number = getInitNumber(*this, operand);
  if (!number)
    return {};
  return {{getOutputs()[*number], BufferRelation::Equivalent}};
}

/// The buffers of tensors, and other values as they are.
static FailureOr<SmallVector<Value>>
getBuffers(RewriterBase &rewriter, ValueRange values,
           const BufferizationOptions &options,
           const BufferizationState &state) {
  SmallVector<Value> buffers;
  for (Value value : values) {
    if (!isa<TensorType>(value.getType())) {
      buffers.push_back(value);
      continue;
    }
    FailureOr<Value> buffer =
        bufferization::getBuffer(rewriter, value, options, state);
    if (failed(buffer))
      return failure();
    buffers.push_back(*buffer);
  }
  return buffers;
}

/// The buffer itself, or a copy if it has strides or an offset.
static FailureOr<Value> makeContiguous(OpBuilder &builder, Value buffer,
                                       const BufferizationOptions &options) {
  auto type = cast<MemRefType>(buffer.getType());
  if (type.getLayout().isIdentity())
    return buffer;
  return bufferization::castOrReallocMemRefValue(
      builder, buffer, MemRefType::get(type.getShape(), type.getElementType()),
      options);
}

LogicalResult LaunchOp::bufferize(RewriterBase &rewriter,
                                  const BufferizationOptions &options,
                                  BufferizationState &state) {
  auto inputs = getBuffers(rewriter, getInputs(), options, state);
  auto inits = getBuffers(rewriter, getInits(), options, state);
  if (failed(inputs) || failed(inits))
    return failure();
  for (Value &input : *inputs) {
    FailureOr<Value> buffer = makeContiguous(rewriter, input, options);
    if (failed(buffer))
      return failure();
    input = *buffer;
  }
  SmallVector<Value> written;
  for (Value init : *inits) {
    FailureOr<Value> buffer = makeContiguous(rewriter, init, options);
    if (failed(buffer))
      return failure();
    written.push_back(*buffer);
  }
  auto launch = LaunchOp::create(rewriter, getLoc(), TypeRange(), getKernel(),
                                 *inputs, written, getPlanAttr());
  launch->setDiscardableAttrs(getOperation()->getDiscardableAttrDictionary());
  for (auto [init, buffer] : llvm::zip_equal(*inits, written))
    if (init != buffer &&
        failed(options.createMemCpy(rewriter, getLoc(), buffer, init)))
      return failure();
  bufferization::replaceOpWithBufferizedValues(rewriter, *this, *inits);
  return success();
}

//===----------------------------------------------------------------------===//
// dispatch
//===----------------------------------------------------------------------===//

ParseResult DispatchOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::UnresolvedOperand tokens;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  SmallVector<int64_t> bounds;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperand(tokens) || parser.parseKeyword("outs") ||
      parser.parseOperandList(operands, OpAsmParser::Delimiter::Paren) ||
      parser.parseColonType(type))
    return failure();
  operands.insert(operands.begin(), tokens);
  if (parser.resolveOperands(operands, type.getInputs(), loc,
                             result.operands) ||
      parser.parseLBrace())
    return failure();
  while (succeeded(parser.parseOptionalKeyword("upto")))
    if (parser.parseInteger(bounds.emplace_back()) ||
        parser.parseRegion(*result.addRegion()))
      return failure();
  result.addTypes(type.getResults());
  result.getOrAddProperties<Properties>().setBounds(
      parser.getBuilder().getDenseI64ArrayAttr(bounds));
  return failure(parser.parseRBrace() ||
                 parser.parseOptionalAttrDictWithKeyword(result.attributes));
}

void DispatchOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getTokens() << " outs(" << getInits() << ") : ";
  printer.printFunctionalType(*this);
  printer << " {";
  printer.increaseIndent();
  for (auto [bound, region] : llvm::zip_equal(getBounds(), getRanges())) {
    printer.printNewline();
    printer << "upto " << bound << ' ';
    printer.printRegion(region);
  }
  printer.decreaseIndent();
  printer.printNewline();
  printer << "}";
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {getBoundsAttrName()});
}

LogicalResult DispatchOp::verify() {
  if (cast<ShapedType>(getTokens().getType()).getRank() == 0)
    return emitOpError("has an operand without rows");
  if (failed(verifyInits(*this)))
    return failure();
  if (getBounds().size() != getRanges().size())
    return emitOpError() << "has " << getRanges().size() << " regions and "
                         << getBounds().size() << " bounds";
  if (std::string problem = getBoundsProblem(getBounds()); !problem.empty())
    return emitOpError() << "is malformed: " << problem;
  for (auto [bound, region] : llvm::zip_equal(getBounds(), getRanges())) {
    if (region.getArgumentTypes() != getResultTypes())
      return emitOpError() << "has a region for up to " << bound
                           << " tokens with arguments of types "
                           << region.getArgumentTypes()
                           << ", and results of types " << getResultTypes();
    auto yield = dyn_cast<YieldOp>(region.front().back());
    if (!yield)
      return emitOpError() << "has a region for up to " << bound
                           << " tokens that does not end with tile.yield";
    if (yield->getOperandTypes() != getResultTypes())
      return yield.emitOpError()
             << "has operands of types " << yield->getOperandTypes()
             << ", the dispatch has results of types " << getResultTypes();
  }
  return success();
}

bool DispatchOp::bufferizesToMemoryRead(OpOperand &operand,
                                        const AnalysisState &) {
  // Only the shape of the tokens matters.
  return getInitNumber(*this, operand).has_value();
}

bool DispatchOp::bufferizesToMemoryWrite(OpOperand &operand,
                                         const AnalysisState &) {
  return getInitNumber(*this, operand).has_value();
}

AliasingValueList DispatchOp::getAliasingValues(OpOperand &operand,
                                                const AnalysisState &) {
  auto number = getInitNumber(*this, operand);
  if (!number)
    return {};
  return {{getOutputs()[*number], BufferRelation::Equivalent}};
}

bool DispatchOp::isWritable(Value, const AnalysisState &) { return true; }

FailureOr<BufferLikeType>
DispatchOp::getBufferType(Value value, const BufferizationOptions &options,
                          const BufferizationState &state,
                          SmallVector<Value> &invocationStack) {
  unsigned index = isa<BlockArgument>(value)
                       ? cast<BlockArgument>(value).getArgNumber()
                       : cast<OpResult>(value).getResultNumber();
  return bufferization::getBufferType(getInits()[index], options, state,
                                      invocationStack);
}

LogicalResult DispatchOp::verifyAnalysis(const AnalysisState &state) {
  for (Region &region : getRanges())
    for (auto [argument, value] :
         llvm::zip_equal(region.getArguments(),
                         region.front().getTerminator()->getOperands()))
      if (!state.areEquivalentBufferizedValues(argument, value))
        return region.front().getTerminator()->emitOpError(
            "yields another buffer than the output of the dispatch");
  return success();
}

LogicalResult DispatchOp::bufferize(RewriterBase &rewriter,
                                    const BufferizationOptions &options,
                                    BufferizationState &state) {
  auto tokens = getBuffers(rewriter, getTokens(), options, state);
  auto inits = getBuffers(rewriter, getInits(), options, state);
  if (failed(tokens) || failed(inits))
    return failure();
  auto dispatch =
      DispatchOp::create(rewriter, getLoc(), TypeRange(), tokens->front(),
                         *inits, getBounds(), getRanges().size());
  dispatch->setDiscardableAttrs(getOperation()->getDiscardableAttrDictionary());
  for (auto [from, to] : llvm::zip_equal(getRanges(), dispatch.getRanges())) {
    to.takeBody(from);
    rewriter.setInsertionPointToStart(&to.front());
    for (auto [argument, init] : llvm::zip_equal(to.getArguments(), *inits)) {
      Value tensor = bufferization::ToTensorOp::create(
          rewriter, getLoc(), argument.getType(), init);
      rewriter.replaceAllUsesWith(argument, tensor);
    }
    to.front().eraseArguments(0, to.getNumArguments());
  }
  bufferization::replaceOpWithBufferizedValues(rewriter, *this, *inits);
  return success();
}

//===----------------------------------------------------------------------===//
// yield
//===----------------------------------------------------------------------===//

bool YieldOp::bufferizesToMemoryRead(OpOperand &, const AnalysisState &) {
  return true;
}

bool YieldOp::bufferizesToMemoryWrite(OpOperand &, const AnalysisState &) {
  return false;
}

AliasingValueList YieldOp::getAliasingValues(OpOperand &,
                                             const AnalysisState &) {
  return {};
}

bool YieldOp::mustBufferizeInPlace(OpOperand &, const AnalysisState &) {
  return true;
}

/// The launches have written to the outputs of the dispatch.
LogicalResult YieldOp::bufferize(RewriterBase &rewriter,
                                 const BufferizationOptions &,
                                 BufferizationState &) {
  rewriter.modifyOpInPlace(*this, [&] { getValuesMutable().clear(); });
  return success();
}
