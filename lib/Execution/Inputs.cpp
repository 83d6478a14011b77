//===- Inputs.cpp - Inputs for running a function -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Execution/Inputs.h"
#include "fuse/IO/Npy.h"
#include "fuse/IO/Safetensors.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "nn/IR/NNModules.h"
#include "stage/IR/StageOps.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

namespace {

/// Sizes of dynamic dimensions from the command line.
struct DynamicSizes {
  std::optional<int64_t> tokens, batch;
  llvm::DenseMap<unsigned, SmallVector<int64_t>> shapes;
};

} // namespace

static Expected<int64_t> parseSize(StringRef text, StringRef option) {
  int64_t size;
  if (text.getAsInteger(10, size) || size < 0)
    return createStringError("--" + option + ": expected a size, got '" + text +
                             "'");
  return size;
}

static Expected<DynamicSizes> parseSizes(const InputOptions &options,
                                         const Signature &signature) {
  DynamicSizes sizes;
  for (StringRef text : options.dims) {
    auto [name, value] = text.split('=');
    bool named = text.contains('=');
    Expected<int64_t> size = parseSize(named ? value : text, "dim");
    if (!size)
      return size.takeError();
    if (named && name != "tokens" && name != "batch")
      return createStringError("--dim: unknown dimension '" + name +
                               "'; there are tokens, batch");
    if (!named || name == "tokens")
      sizes.tokens = *size;
    if (!named || name == "batch")
      sizes.batch = *size;
  }
  for (StringRef text : options.shapes) {
    auto [number, shape] = text.split(':');
    unsigned argument;
    if (number.getAsInteger(10, argument) ||
        argument >= signature.inputs.size())
      return createStringError("--shape: expected an argument from 0 to " +
                               Twine(int64_t(signature.inputs.size()) - 1) +
                               ", got '" + number + "'");
    SmallVector<StringRef> parts;
    shape.split(parts, 'x');
    SmallVector<int64_t> &list = sizes.shapes[argument];
    list.clear();
    for (StringRef part : parts) {
      Expected<int64_t> size = parseSize(part, "shape");
      if (!size)
        return size.takeError();
      list.push_back(*size);
    }
  }
  return sizes;
}

/// Whether `spec` allows `shape`.
static bool isCompatible(ArrayRef<int64_t> shape, const TensorSpec &spec) {
  if (shape.size() != spec.shape.size())
    return false;
  for (auto [actual, expected] : llvm::zip_equal(shape, spec.shape))
    if (expected >= 0 && actual != expected)
      return false;
  return true;
}

/// Chooses the shape of a random argument.
static Expected<SmallVector<int64_t>> chooseShape(unsigned argument,
                                                  const TensorSpec &spec,
                                                  const DynamicSizes &sizes) {
  auto given = sizes.shapes.find(argument);
  if (given != sizes.shapes.end()) {
    if (!isCompatible(given->second, spec))
      return createStringError("--shape: argument " + Twine(argument) + " is " +
                               toString(spec.type, spec.shape) + ", got " +
                               toString(spec.type, given->second));
    return given->second;
  }
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(spec.shape)) {
    if (size >= 0) {
      shape.push_back(size);
      continue;
    }
    bool isTokens = dim + 2 >= spec.shape.size();
    std::optional<int64_t> chosen = isTokens ? sizes.tokens : sizes.batch;
    shape.push_back(chosen.value_or(isTokens ? 16 : 2));
  }
  return shape;
}

/// Sizes that the function assumes although its types leave them open, with
/// their distance from the last dimension.
static SmallVector<std::pair<size_t, int64_t>>
getRequiredSizes(ModuleOp lowered) {
  SmallVector<std::pair<size_t, int64_t>> required;
  lowered.walk([&](tensor::CastOp castOp) {
    auto from = dyn_cast<RankedTensorType>(castOp.getSource().getType());
    auto to = dyn_cast<RankedTensorType>(castOp.getType());
    if (!from || !to)
      return;
    for (int64_t dim = 0; dim < from.getRank(); ++dim)
      if (from.isDynamicDim(dim) && !to.isDynamicDim(dim))
        required.emplace_back(from.getRank() - dim, to.getDimSize(dim));
  });
  return required;
}

/// Checks the comparisons of sizes that the function records.
static llvm::Error checkSizes(func::FuncOp lowered,
                              ArrayRef<HostTensor> inputs) {
  auto checks = lowered->getAttrOfType<ArrayAttr>(kChecksAttrName);
  if (!checks)
    return llvm::Error::success();
  Builder builder(lowered.getContext());
  for (auto check : checks.getAsRange<DictionaryAttr>()) {
    SmallVector<Attribute> sizes, folded;
    for (auto symbol :
         check.getAs<ArrayAttr>("symbols").getAsRange<DenseI64ArrayAttr>())
      sizes.push_back(
          builder.getIndexAttr(inputs[symbol[0]].getShape()[symbol[1]]));
    StringRef predicate = check.getAs<StringAttr>("predicate").getValue();
    bool holds = false;
    // Folding fails on a division by zero.
    if (succeeded(check.getAs<AffineMapAttr>("sizes").getValue().constantFold(
            sizes, folded))) {
      int64_t lhs = cast<IntegerAttr>(folded[0]).getInt();
      int64_t rhs = cast<IntegerAttr>(folded[1]).getInt();
      holds = predicate == "eq"   ? lhs == rhs
              : predicate == "ne" ? lhs != rhs
              : predicate == "lt" ? lhs < rhs
                                  : lhs <= rhs;
    }
    if (!holds)
      return createStringError("the sizes of the arguments do not fit @" +
                               lowered.getSymName() + ": " +
                               check.getAs<StringAttr>("message").getValue());
  }
  return llvm::Error::success();
}

/// Compiled code reads a size from one argument and uses it for another.
static llvm::Error checkAgreement(func::FuncOp function,
                                  ArrayRef<HostTensor> inputs,
                                  const Signature &signature) {
  auto lowered = lowerForCPU(function, /*reference=*/false, "linalg");
  if (!lowered)
    return lowered.takeError();
  auto required = getRequiredSizes(**lowered);
  llvm::SmallDenseMap<size_t, unsigned> first;
  for (auto [index, spec] : llvm::enumerate(signature.inputs))
    for (auto [dim, size] : llvm::enumerate(spec.shape)) {
      if (size >= 0)
        continue;
      size_t fromEnd = spec.shape.size() - dim;
      for (auto [place, expected] : required)
        if (place == fromEnd && inputs[index].getShape()[dim] != expected)
          return createStringError(
              "@" + function.getSymName() + " needs size " + Twine(expected) +
              " in dimension " + Twine(dim) + " of argument " + Twine(index) +
              ", got " + toString(spec.type, inputs[index].getShape()));
      auto [entry, inserted] = first.try_emplace(fromEnd, index);
      unsigned other = entry->second;
      ArrayRef<int64_t> shape = inputs[index].getShape();
      ArrayRef<int64_t> otherShape = inputs[other].getShape();
      int64_t expected = otherShape[otherShape.size() - fromEnd];
      if (shape[dim] != expected)
        return createStringError(
            "dynamic sizes differ: argument " + Twine(other) + " is " +
            toString(inputs[other].getType(), otherShape) + ", argument " +
            Twine(index) + " is " + toString(spec.type, shape));
    }
  return checkSizes(
      (*lowered)->lookupSymbol<func::FuncOp>(function.getSymName()), inputs);
}

//===----------------------------------------------------------------------===//
// Random values
//===----------------------------------------------------------------------===//

namespace {

/// Role of an argument in the ops that use it.
struct Role {
  enum Kind {
    Activation,
    Weight,
    Norm,
    OffsetNorm,
    Bias,
    Scale,
    Exponent,
    ZeroPoint
  } kind;
  /// Number of input features of a weight, which scales sums to variance 1.
  int64_t features = 1;
};

} // namespace

/// Assigns the roles of the scales of a weight of 4 bits.
static void assignScales(DequantizeWeightOp op,
                         function_ref<void(Value, Role)> assign) {
  QuantAttr quant = op.getQuant();
  int64_t features = op.getX().getType().getShape().back();
  Role::Kind kind = Role::Scale;
  if (isa<Float8E8M0FNUType>(quant.getScaleType()))
    kind = Role::Exponent;
  else if (isa<Float8E4M3FNType>(quant.getScaleType()))
    // Their range is too small for that of weights.
    kind = Role::Norm;
  assign(op.getScales().front(), {kind, features});
  if (quant.getHasGroupZeros())
    assign(op.getScales()[1], {Role::ZeroPoint, 1});
  if (quant.getTensorScale() == TensorScale::Multiply)
    assign(op.getScales().back(), {Role::Scale, features});
  else if (quant.getTensorScale() == TensorScale::Divide)
    assign(op.getScales().back(), {Role::Norm, 1});
}

/// Roles of the arguments, derived from the layer ops of the unfused function.
static SmallVector<Role> getRoles(func::FuncOp function) {
  SmallVector<Role> roles(function.getNumArguments(), {Role::Activation, 1});
  OwningOpRef<ModuleOp> copy = isolate(function);
  if (failed(unfuse(*copy, {})))
    return roles;
  stage::lowerGraphs(*copy);
  func::FuncOp unfused;
  for (auto candidate : copy->getOps<func::FuncOp>())
    if (candidate.getSymName() == function.getSymName())
      unfused = candidate;
  // Undoing the fusion of modules removes the bodies of fused members.
  if (!unfused)
    return roles;
  auto assign = [&](Value value, Role role) {
    // A weight may be dequantized before its use.
    if (auto dequantize =
            value ? value.getDefiningOp<DequantizeOp>() : DequantizeOp())
      value = dequantize.getQ();
    else if (auto packed = value ? value.getDefiningOp<DequantizeWeightOp>()
                                 : DequantizeWeightOp())
      value = packed.getQ();
    // A weight may be a part of the stored tensor.
    if (auto view = value ? value.getDefiningOp<tensor::ExtractSliceOp>()
                          : tensor::ExtractSliceOp())
      value = view.getSource();
    if (auto argument = dyn_cast_or_null<BlockArgument>(value);
        argument && argument.getOwner() == &unfused.front())
      roles[argument.getArgNumber()] = role;
  };
  unfused.walk([&](Operation *op) {
    if (auto norm = dyn_cast<RMSNormOp>(op)) {
      assign(norm.getWeight(),
             {norm.getOffset() ? Role::OffsetNorm : Role::Norm, 1});
    } else if (auto norm = dyn_cast<LayerNormOp>(op)) {
      assign(norm.getWeight(), {Role::Norm, 1});
      assign(norm.getBias(), {Role::Bias, 1});
    } else if (auto linear = dyn_cast<LinearOp>(op)) {
      int64_t features = linear.getWeight().getType().getShape()[1];
      assign(linear.getWeight(), {Role::Weight, features});
      assign(linear.getBias(), {Role::Bias, 1});
      assign(linear.getChannelScale(), {Role::Scale, features});
    } else if (auto finish = dyn_cast<stage::FinishOp>(op)) {
      assign(finish.getBias(), {Role::Bias, 1});
      assign(finish.getChannelScale(), {Role::Scale, 64});
    } else if (auto quantize = dyn_cast<QuantizeOp>(op)) {
      assign(quantize.getChannelScale(), {Role::Scale, 64});
    } else if (auto dequantize = dyn_cast<DequantizeOp>(op)) {
      assign(dequantize.getChannelScale(),
             {Role::Scale, dequantize.getQ().getType().getShape().back()});
    } else if (auto packed = dyn_cast<DequantizeWeightOp>(op)) {
      assignScales(packed, assign);
    }
  });
  return roles;
}

/// Standard deviation of random stored values. They cover the range of the
/// type, and few of them saturate.
static double getStoredDeviation(ElementType type) {
  return type == ElementType::F8E5M2 || type == ElementType::F8E4M3FN ? 64.0
                                                                      : 32.0;
}

/// Number of elements in a pool. Elements are drawn from a pool because
/// rounding is slow and large weights have few distinct values.
static constexpr int64_t kPoolSize = 1 << 14;

static HostTensor createPool(ElementType type, int64_t size, Role role,
                             std::mt19937_64 &random) {
  // Distributions of the standard library differ between platforms. A sum of
  // twelve uniform values is close enough to a normal distribution.
  auto uniform = [&] { return double(random() >> 11) * 0x1p-53; };
  auto normal = [&] {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i)
      sum += uniform();
    return sum;
  };
  bool stored = getSize(type) == 1;
  double deviation = stored ? getStoredDeviation(type) : 1.0;
  auto draw = [&]() -> double {
    switch (role.kind) {
    case Role::Activation:
      break;
    case Role::Weight:
      if (!stored)
        return normal() / std::sqrt(double(role.features));
      break;
    case Role::Norm:
      return 1.0 + 0.1 * normal();
    case Role::OffsetNorm:
    case Role::Bias:
      return 0.1 * normal();
    case Role::Scale:
      return (0.5 + uniform()) / (64.0 * std::sqrt(double(role.features)));
    case Role::Exponent:
      return std::floor(118.0 + 4.0 * uniform());
    case Role::ZeroPoint:
      return std::floor(16.0 * uniform());
    }
    double value = deviation * normal();
    if (!stored)
      return value;
    double limit = type == ElementType::I8 ? 127.0 : 448.0;
    return std::min(std::max(value, -limit), limit);
  };
  HostTensor values = llvm::cantFail(HostTensor::create(type, size));
  for (int64_t i = 0; i < size; ++i)
    values.set(i, draw());
  return values;
}

static void fillRandom(HostTensor &tensor, Role role, std::mt19937_64 &random) {
  int64_t size = tensor.getNumElements();
  int64_t pool = std::min(size, kPoolSize);
  HostTensor values = createPool(tensor.getType(), pool, role, random);
  if (size == pool) {
    if (pool > 0)
      std::memcpy(tensor.getData(), values.getData(), values.getNumBytes());
    return;
  }
  size_t bytes = getSize(tensor.getType());
  for (int64_t i = 0; i < size; ++i)
    std::memcpy(tensor.getData() + i * bytes,
                values.getData() + (random() % kPoolSize) * bytes, bytes);
}

static std::mt19937_64 getRandom(uint64_t seed, size_t argument) {
  // Each argument has its own random stream, so a size affects no other
  // argument.
  std::seed_seq sequence{uint32_t(seed), uint32_t(seed >> 32),
                         uint32_t(argument)};
  return std::mt19937_64(sequence);
}

std::vector<RandomValues> fuse::createPools(func::FuncOp function,
                                            const Signature &signature,
                                            uint64_t seed) {
  SmallVector<Role> roles = getRoles(function);
  std::vector<RandomValues> pools;
  for (auto [index, spec] : llvm::enumerate(signature.inputs)) {
    std::mt19937_64 random = getRandom(seed, index);
    pools.push_back({createPool(spec.type, kPoolSize, roles[index], random),
                     roles[index].kind == Role::Activation});
  }
  return pools;
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

Expected<std::vector<HostTensor>>
fuse::createInputs(func::FuncOp function, const Signature &signature,
                   const InputOptions &options) {
  Expected<DynamicSizes> sizes = parseSizes(options, signature);
  if (!sizes)
    return sizes.takeError();
  std::optional<SafetensorsFile> weights;
  if (!options.weights.empty()) {
    Expected<SafetensorsFile> file = SafetensorsFile::open(options.weights);
    if (!file)
      return file.takeError();
    weights = std::move(*file);
  }
  SmallVector<Role> roles = getRoles(function);

  std::vector<HostTensor> inputs;
  ArrayRef<std::string> files = options.files;
  for (auto [index, spec] : llvm::enumerate(signature.inputs)) {
    std::string parameter = getParameterName(function, index);
    if (!parameter.empty() && weights) {
      Expected<HostTensor> tensor = weights->read(parameter, spec);
      if (!tensor)
        return tensor.takeError();
      inputs.push_back(std::move(*tensor));
      continue;
    }
    if (parameter.empty() && !files.empty()) {
      Expected<HostTensor> tensor = readNpy(files.front(), spec.type);
      if (!tensor)
        return tensor.takeError();
      if (!isCompatible(tensor->getShape(), spec))
        return createStringError(files.front() + ": argument " + Twine(index) +
                                 " is " + toString(spec.type, spec.shape) +
                                 ", the file has " +
                                 toString(spec.type, tensor->getShape()));
      files = files.drop_front();
      inputs.push_back(std::move(*tensor));
      continue;
    }
    Expected<SmallVector<int64_t>> shape = chooseShape(index, spec, *sizes);
    if (!shape)
      return shape.takeError();
    Expected<HostTensor> tensor = HostTensor::create(spec.type, *shape);
    if (!tensor)
      return tensor.takeError();
    std::mt19937_64 random = getRandom(options.seed, index);
    fillRandom(*tensor, roles[index], random);
    inputs.push_back(std::move(*tensor));
  }
  if (!files.empty())
    return createStringError(
        "--input: " + files.front() + " is one file more than @" +
        function.getSymName() + " has arguments without fuse.parameter");
  if (llvm::Error error = checkAgreement(function, inputs, signature))
    return std::move(error);
  return inputs;
}
