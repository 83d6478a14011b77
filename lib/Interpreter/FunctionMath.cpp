//===- FunctionMath.cpp - Losses and experts by their contracts -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Interpreter/FunctionMath.h"

#include <limits>

using namespace mlir;
using namespace fuse;

/// For functions that increase everywhere.
static constexpr double kNowhere = -std::numeric_limits<double>::infinity();
/// Errors of function approximations: relative, and absolute for results close
/// to zero.
static constexpr double kFunction = 16 * kUnit, kTiny = 1e-36;

static Interval negate(Interval value) {
  return value.isAnything ? value : Interval(-value.hi, -value.lo);
}

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

/// `log(sum(exp(x - m))) + m - x[label]`, `m` the largest of a row.
static Interval getLoss(llvm::ArrayRef<Interval> row, int64_t label) {
  Interval largest = row.front();
  for (Interval value : row.drop_front())
    largest = max(largest, value);
  Sum exponentials;
  for (Interval value : row) {
    Interval below = add(value, negate(largest));
    // By definition no value is above the largest.
    if (below.isFinite())
      below = Interval(std::min(below.lo, 0.0), std::min(below.hi, 0.0));
    exponentials.add(mapUnimodal(
        below, [](double x) { return std::exp(x); }, kNowhere, kFunction,
        kTiny));
  }
  Interval sum = exponentials.get();
  // The exponential of the largest value is 1, so the sum cannot be near zero.
  if (sum.isFinite())
    sum = Interval(std::max(sum.lo, 0.5), std::max(sum.hi, 0.5));
  Interval logarithm = mapUnimodal(
      sum, [](double x) { return std::log(x); }, kNowhere, kFunction,
      4 * kUnit);
  Sum loss;
  loss.add(logarithm);
  loss.add(largest);
  loss.add(negate(row[label]));
  return loss.get();
}

Tensor fuse::getCrossEntropy(const Tensor &logits, const Tensor &labels,
                             const LossParts &parts) {
  int64_t vocabulary = logits.getRowSize(), numRows = labels.values.size();
  int64_t positions = labels.shape.empty() ? 1 : labels.shape.back();
  Sum total;
  int64_t count = 0;
  for (int64_t row = 0; row < numRows; ++row) {
    int64_t place = row + parts.isCausal;
    bool hasLabel = !parts.isCausal || row % positions + 1 < positions;
    int64_t label = hasLabel ? int64_t(labels[place].lo) : parts.ignoreIndex;
    if (label == parts.ignoreIndex)
      continue;
    ++count;
    if (label < 0 || label >= vocabulary)
      total.add(std::nan(""));
    else
      total.add(getLoss(
          llvm::ArrayRef(logits.values).slice(row * vocabulary, vocabulary),
          label));
  }
  Tensor result;
  Interval loss = total.get();
  if (parts.reduction == LossReduction::Mean)
    loss = count == 0 ? Interval(std::nan("")) : div(loss, double(count));
  else if (parts.items)
    loss = div(loss, f32((*parts.items)[0]));
  result.values.push_back(loss);
  return result;
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

/// Copies a part of the values of a tensor into a matrix.
static Tensor getMatrix(const Tensor &x, int64_t first, int64_t rows,
                        int64_t columns) {
  Tensor matrix;
  matrix.shape = {rows, columns};
  auto begin = x.values.begin() + first;
  matrix.values.assign(begin, begin + rows * columns);
  return matrix;
}

Tensor fuse::runExperts(const Tensor &x, const Routing &routing,
                        const Tensor &gateUp, const Tensor &down,
                        Activation act, Rounding inner, Rounding rounding) {
  int64_t features = x.shape[1], hidden = down.shape[2];
  int64_t numExperts = down.shape[0], places = routing.index.shape[1];
  Tensor result;
  result.shape = x.shape;
  for (int64_t token = 0; token < x.shape[0]; ++token) {
    Tensor input = getMatrix(x, token * features, 1, features);
    std::vector<Sum> sums(features);
    for (int64_t place = 0; place < places; ++place) {
      int64_t expert = int64_t(routing.index[token * places + place].lo);
      // The expert is on another device.
      if (expert < 0 || expert >= numExperts)
        continue;
      int64_t first = 2 * expert * hidden * features;
      auto project = [&](const Tensor &from, const Tensor &weight) {
        return multiplyWeights(from, weight, {}, inner);
      };
      Tensor gate = project(input, getMatrix(gateUp, first, hidden, features));
      Tensor up = project(input, getMatrix(gateUp, first + hidden * features,
                                           hidden, features));
      Tensor product = multiplyTensors(activate(act, gate, inner), up, inner);
      Tensor output =
          project(product, getMatrix(down, first / 2, features, hidden));
      Interval factor = routing.weights[token * places + place];
      for (int64_t feature = 0; feature < features; ++feature)
        sums[feature].add(
            inner(roundTo(mul(output[feature], factor), routing.promoted)));
    }
    for (const Sum &sum : sums)
      result.values.push_back(rounding(sum.get()));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Transposes
//===----------------------------------------------------------------------===//

Tensor fuse::transpose(const Tensor &x, llvm::ArrayRef<int64_t> permutation) {
  int64_t rank = x.shape.size();
  llvm::SmallVector<int64_t> strides(rank, 1);
  for (int64_t dim = rank - 1; dim > 0; --dim)
    strides[dim - 1] = strides[dim] * x.shape[dim];
  Tensor result;
  for (int64_t dim : permutation)
    result.shape.push_back(x.shape[dim]);
  for (size_t i = 0; i < x.values.size(); ++i) {
    int64_t rest = i, from = 0;
    for (int64_t dim = rank - 1; dim >= 0; --dim) {
      from += rest % result.shape[dim] * strides[permutation[dim]];
      rest /= result.shape[dim];
    }
    result.values.push_back(x[from]);
  }
  return result;
}

Tensor fuse::takeView(const Tensor &x, llvm::ArrayRef<int64_t> offsets,
                      llvm::ArrayRef<int64_t> sizes,
                      llvm::ArrayRef<int64_t> strides) {
  int64_t rank = x.shape.size(), count = 1;
  Tensor result;
  for (int64_t dim = 0; dim < rank; ++dim) {
    result.shape.push_back(sizes[dim] < 0 ? x.shape[dim] : sizes[dim]);
    count *= result.shape.back();
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, from = 0, step = 1;
    for (int64_t dim = rank - 1; dim >= 0; --dim) {
      int64_t place = offsets[dim] + rest % result.shape[dim] * strides[dim];
      from += place * step;
      step *= x.shape[dim];
      rest /= result.shape[dim];
    }
    result.values.push_back(x[from]);
  }
  return result;
}

Tensor fuse::concatenate(llvm::ArrayRef<Tensor> parts, int64_t dim) {
  Tensor result;
  result.shape = parts.front().shape;
  result.shape[dim] = 0;
  int64_t outer = 1, inner = 1;
  for (auto [i, size] : llvm::enumerate(parts.front().shape))
    (int64_t(i) < dim ? outer : inner) *= int64_t(i) == dim ? 1 : size;
  for (const Tensor &part : parts)
    result.shape[dim] += part.shape[dim];
  for (int64_t i = 0; i < outer; ++i)
    for (const Tensor &part : parts) {
      auto first = part.values.begin() + i * part.shape[dim] * inner;
      result.values.insert(result.values.end(), first,
                           first + part.shape[dim] * inner);
    }
  return result;
}
