//===- ModuleGenerator.cpp - Random modules of layer ops ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionGenerator.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace fuse;

FunctionGenerator::FunctionGenerator(Random &random, ModuleOp module,
                                     unsigned index, Stratum stratum,
                                     uint64_t combination)
    : random(random), builder(module.getContext()),
      scheduled(stratum == Stratum::Scheduled || stratum == Stratum::Mixed ||
                stratum == Stratum::Schedules),
      drawn(stratum == Stratum::Schedules), mixed(stratum == Stratum::Mixed),
      functions(stratum == Stratum::Functions),
      strided(stratum == Stratum::Strided),
      runs(stratum == Stratum::Runnable || stratum == Stratum::Boundary ||
           functions || strided) {
  if (stratum == Stratum::Boundary) {
    chooseBoundary(module, combination);
    return;
  }
  if (scheduled) {
    decoration = damage = oddTypes = 0;
    // Shared values connect the chains and give several of them the same
    // weights.
    sharing = mixed ? 60 : 0;
    leading.push_back(
        random.oneOf<int64_t>({ShapedType::kDynamic, ShapedType::kDynamic, 1, 7,
                               16, 33, 64, 100, 128}));
    // For most modules, a launch selects the kernel.
    if (drawn)
      leading[0] = random.percent(80)
                       ? ShapedType::kDynamic
                       : random.oneOf<int64_t>({1, 5, 63, 129, 200, 257, 300});
    features = random.oneOf<int64_t>({16, 48, 64, 128, 144, 256, 272, 400});
    element = builder.getBF16Type();
    builder.setInsertionPointToEnd(module.getBody());
    function = func::FuncOp::create(builder, loc(), "f" + std::to_string(index),
                                    builder.getFunctionType({}, {}));
    return;
  }
  decoration = random.oneOf({0u, 0u, 10u, 50u});
  sharing = random.oneOf({0u, 10u, 30u, 60u});
  damage = random.oneOf({0u, 0u, 5u, 20u});
  oddTypes = random.oneOf({0u, 0u, 5u, 30u});
  for (unsigned i = random.below(4); i > 0; --i)
    leading.push_back(
        random.oneOf<int64_t>({ShapedType::kDynamic, 0, 1, 2, 5, 129}));
  features = random.oneOf<int64_t>({1, 2, 3, 16, 17, 64, 127});
  if (runs) {
    // Sizes around those of vectors and tiles.
    for (int64_t &size : leading)
      size = random.oneOf<int64_t>(
          {ShapedType::kDynamic, ShapedType::kDynamic, 0, 1, 3, 8, 17});
    // Limit the work: every value is computed several times, and once by the
    // interpreter.
    auto getTokens = [&] {
      int64_t tokens = 1;
      for (int64_t size : leading)
        tokens *= ShapedType::isDynamic(size) ? 17 : size;
      return tokens;
    };
    while (getTokens() > 300)
      leading.pop_back();
    features = random.oneOf<int64_t>(
        {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129});
  }
  element = floatType();
  builder.setInsertionPointToEnd(module.getBody());
  function = func::FuncOp::create(builder, loc(), "f" + std::to_string(index),
                                  builder.getFunctionType({}, {}));
}

ArrayRef<int64_t> fuse::getBoundarySizes() {
  static const int64_t sizes[] = {1,  2,  3,  7,  8,   15,  16,  17,  31,  32,
                                  33, 63, 64, 65, 127, 128, 129, 255, 256, 257};
  return sizes;
}

/// Numbers of families, element types, and kinds of quantization with their
/// storage types.
static constexpr uint64_t kNumFamilies = 4, kNumElements = 3;
static constexpr uint64_t kNumQuantizations = 1 + 4 * 3;

uint64_t fuse::getNumBoundaryCombinations() {
  uint64_t sizes = getBoundarySizes().size();
  return kNumFamilies * kNumElements * kNumQuantizations * sizes * sizes;
}

void FunctionGenerator::chooseBoundary(ModuleOp module, uint64_t combination) {
  decoration = damage = oddTypes = 0;
  sharing = random.oneOf({0u, 60u});
  MLIRContext *context = builder.getContext();
  // Multiplying by a prime that does not divide the number of combinations
  // visits all of them, and all sizes early.
  uint64_t rest = combination * 1000003 % getNumBoundaryCombinations();
  auto choose = [&](uint64_t count) {
    uint64_t chosen = rest % count;
    rest /= count;
    return chosen;
  };
  leading = {ShapedType::kDynamic};
  ArrayRef<int64_t> sizes = getBoundarySizes();
  boundary.emplace();
  features = sizes[choose(sizes.size())];
  boundary->width = sizes[choose(sizes.size())];
  // Families in the numbering of `chain`. The last is an MLP.
  boundary->family = choose(kNumFamilies);
  const Type elements[] = {builder.getBF16Type(), builder.getF16Type(),
                           builder.getF32Type()};
  element = elements[choose(kNumElements)];
  const Type stored[] = {Float8E4M3FNType::get(context),
                         Float8E5M2Type::get(context), builder.getI8Type()};
  uint64_t kind = choose(kNumQuantizations);
  boundary->how.storage = stored[kind % 3];
  boundary->how.kind =
      kind == 0 ? Quantization::None : Quantization::Kind((kind - 1) / 3 + 1);
  boundary->how.order =
      random.oneOf({QuantOrder::Reciprocal, QuantOrder::Divide});
  builder.setInsertionPointToEnd(module.getBody());
  function = func::FuncOp::create(builder, loc(), "f",
                                  builder.getFunctionType({}, {}));
}

//===----------------------------------------------------------------------===//
// Attributes and locations
//===----------------------------------------------------------------------===//

Location FunctionGenerator::loc() {
  MLIRContext *context = builder.getContext();
  // In real modules, many members of a chain share a location.
  if (!locs.empty() && random.percent(40))
    return random.oneOf<Location>(locs);
  auto file = FileLineColLoc::get(
      context, random.oneOf<StringRef>({"model.py", "a b.py", ""}),
      random.below(100), random.below(10));
  auto other = [&]() -> Location {
    return locs.empty() ? Location(file) : random.oneOf<Location>(locs);
  };
  Location result = file;
  switch (random.below(8)) {
  case 0:
    result = UnknownLoc::get(context);
    break;
  case 1:
    result = NameLoc::get(builder.getStringAttr("model.layers.0.mlp"), file);
    break;
  case 2:
    result = NameLoc::get(builder.getStringAttr("\"\n"), other());
    break;
  case 3:
    result = CallSiteLoc::get(file, other());
    break;
  case 4:
    result = FusedLoc::get({file, other()}, Attribute(), context);
    break;
  case 5:
    result = FusedLoc::get({other()}, builder.getUnitAttr(), context);
    break;
  case 6: {
    // The form of locations that fused kernels have.
    Location first = other();
    Attribute each[] = {LocationAttr(first), file};
    result = FusedLoc::get({first, file}, builder.getArrayAttr(each), context);
    break;
  }
  default:
    break;
  }
  locs.push_back(result);
  return result;
}

Attribute FunctionGenerator::attribute(unsigned depth) {
  switch (random.below(depth == 0 ? 7 : 9)) {
  case 0:
    return builder.getUnitAttr();
  case 1:
    return builder.getStringAttr("kept \"\\\n");
  case 2:
    return builder.getI64IntegerAttr(-1);
  case 3:
    return builder.getF32FloatAttr(std::numeric_limits<float>::quiet_NaN());
  case 4:
    return TypeAttr::get(RankedTensorType::get({4}, builder.getBF16Type()));
  case 5:
    return builder.getDenseI64ArrayAttr({1, 2});
  case 6:
    return RoundingAttr::getExact(builder.getContext());
  case 7:
    return builder.getArrayAttr({attribute(depth - 1), attribute(depth - 1)});
  default:
    return builder.getDictionaryAttr(
        {builder.getNamedAttr("inner", attribute(depth - 1))});
  }
}

/// Adds discardable attributes to an op.
void FunctionGenerator::decorate(Operation *op) {
  while (random.percent(decoration))
    op->setDiscardableAttr(
        random.oneOf<StringRef>({"note", "zz", "other.name", "with space"}),
        attribute(2));
}

FloatAttr FunctionGenerator::scale() {
  // With these scales, values do not all become zero or saturate.
  if (scheduled)
    return builder.getF64FloatAttr(
        random.oneOf<double>({2.1e-2, 1.3e-3, 4.0e-2, 0.0078125}));
  if (runs)
    return builder.getF64FloatAttr(
        random.oneOf<double>({1.0, 2.1e-2, 1.3e-1, 0.1, 0.25}));
  return builder.getF64FloatAttr(random.oneOf<double>(
      {1.0, 2.1e-2, 1.3e-3, 448.0, 0.1, 0.10000000149011612,
       1.1754943508222875e-38, 8.507059173023462e+37}));
}

//===----------------------------------------------------------------------===//
// Types and values
//===----------------------------------------------------------------------===//

Type FunctionGenerator::floatType() {
  return random.oneOf<Type>(
      {builder.getBF16Type(), builder.getF16Type(), builder.getF32Type()});
}

/// The type of `like` with another element type.
RankedTensorType FunctionGenerator::type(Value like, Type element) {
  return withElementType(like.getType(), element);
}

/// The type of a member's result: usually that of its operand. Sometimes the
/// element type differs, or one size becomes dynamic or static.
RankedTensorType FunctionGenerator::resultType(Value like) {
  Type elementType = random.percent(oddTypes) ? floatType() : element;
  RankedTensorType result = type(like, elementType);
  if (runs || !random.percent(oddTypes / 4) || result.getRank() < 2)
    return result;
  SmallVector<int64_t> shape(result.getShape());
  // A known size is restored unchanged.
  int64_t known = ShapedType::isDynamic(leading[0]) ? 7 : leading[0];
  shape[0] = ShapedType::isDynamic(shape[0]) ? known : ShapedType::kDynamic;
  return RankedTensorType::get(shape, elementType);
}

/// A value of exactly this type: an existing one, or a new argument.
Value FunctionGenerator::value(Type type) {
  if (random.percent(sharing)) {
    SmallVector<Value> candidates;
    for (Value value : values)
      if (value.getType() == type)
        candidates.push_back(value);
    if (!candidates.empty())
      return random.oneOf<Value>(candidates);
  }
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (strided && tensor && tensor.getRank() > 0 && random.percent(50))
    values.push_back(view(tensor));
  else
    values.push_back(function.getBody().front().addArgument(type, loc()));
  return values.back();
}

/// Part of a new argument: some of its rows and columns, and all of each
/// dynamic dimension.
Value FunctionGenerator::view(RankedTensorType type) {
  SmallVector<int64_t> whole(type.getShape());
  SmallVector<OpFoldResult> offsets, sizes, strides;
  SmallVector<unsigned> dynamic;
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    int64_t offset = 0, stride = 1;
    if (ShapedType::isDynamic(size)) {
      dynamic.push_back(dim);
    } else {
      offset = random.oneOf<int64_t>({0, 0, 1, 3});
      stride = random.oneOf<int64_t>({1, 1, 2, 3});
      // The offset of an empty view must be in bounds, too.
      whole[dim] = offset + std::max<int64_t>(size, 1) * stride +
                   random.oneOf<int64_t>({0, 1, 5});
    }
    offsets.push_back(builder.getIndexAttr(offset));
    sizes.push_back(builder.getIndexAttr(size));
    strides.push_back(builder.getIndexAttr(stride));
  }
  Value source = function.getBody().front().addArgument(
      RankedTensorType::get(whole, type.getElementType()), loc());
  for (unsigned dim : dynamic)
    sizes[dim] = tensor::DimOp::create(builder, loc(), source, dim).getResult();
  return tensor::ExtractSliceOp::create(builder, loc(), type, source, offsets,
                                        sizes, strides);
}

/// A value at which a chain starts.
Value FunctionGenerator::stream() {
  SmallVector<int64_t> shape = leading;
  shape.push_back(features);
  return value(RankedTensorType::get(shape, element));
}

//===----------------------------------------------------------------------===//
// Functions and modules
//===----------------------------------------------------------------------===//

void FunctionGenerator::generate() {
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  bool isOne = (scheduled && !mixed) || boundary;
  for (unsigned i = isOne ? 1 : random.below(4) + 1; i > 0; --i) {
    if (scheduled || boundary) {
      if (mixed && (i == 1 || random.percent(50)))
        between();
      chain();
      continue;
    }
    if (random.percent(functions ? 90 : 40))
      unrelated();
    // Most function ops are alone in their function.
    if (functions && random.percent(60))
      continue;
    if (!random.percent(10)) {
      chain();
      continue;
    }
    // A chain in a separate region, whose values are not visible outside.
    auto region = scf::ExecuteRegionOp::create(builder, loc(), TypeRange());
    Block *body = builder.createBlock(&region.getRegion());
    SmallVector<Value> outside = values;
    unsigned numArguments = entry->getNumArguments();
    chain();
    scf::YieldOp::create(builder, loc());
    shuffle(body);
    values = outside;
    llvm::append_range(values, entry->getArguments().drop_front(numArguments));
    builder.setInsertionPointToEnd(entry);
  }
  SmallVector<Value> results;
  for (Value value : values)
    if (value.getDefiningOp() && value.use_empty() &&
        (isOne || random.percent(80)) &&
        (!runs || isa<RankedTensorType>(value.getType())))
      results.push_back(value);
  func::ReturnOp::create(builder, loc(), results);
  shuffle(entry);
  function.setType(builder.getFunctionType(entry->getArgumentTypes(),
                                           ValueRange(results).getTypes()));
}

StringRef fuse::getName(Stratum stratum) {
  switch (stratum) {
  case Stratum::Any:
    return "any";
  case Stratum::Runnable:
    return "runnable";
  case Stratum::Functions:
    return "functions";
  case Stratum::Strided:
    return "strided";
  case Stratum::Models:
    return "models";
  case Stratum::Slots:
    return "slots";
  case Stratum::Scheduled:
    return "scheduled";
  case Stratum::Schedules:
    return "schedules";
  case Stratum::Boundary:
    return "boundary";
  case Stratum::Mixed:
    return "mixed";
  }
  llvm_unreachable("unknown stratum");
}

OwningOpRef<ModuleOp> fuse::generateModule(MLIRContext *context, uint64_t seed,
                                           Stratum stratum) {
  Random random(seed);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  bool isOne = stratum == Stratum::Scheduled || stratum == Stratum::Schedules ||
               stratum == Stratum::Mixed || stratum == Stratum::Boundary;
  unsigned count = isOne ? 1 : random.below(3) + 1;
  for (unsigned i = 0; i < count; ++i)
    FunctionGenerator(random, *module, i, stratum, seed).generate();
  return module;
}
