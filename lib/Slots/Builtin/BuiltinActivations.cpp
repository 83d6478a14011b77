//===- BuiltinActivations.cpp - Slots of gated activations and MLPs -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Registry/GeneratedKernel.h"

using namespace mlir;
using namespace fuse;

/// The formula of an activation.
static StringRef getFormula(Activation kind) {
  switch (kind) {
  case Activation::GELU:
    return "gelu(x) = x/2 * (1 + erf(x / sqrt(2)))";
  case Activation::GELUTanh:
    return "gelu_tanh(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))";
  default:
    return "silu(x) = x / (1 + exp(-x))";
  }
}

static void addActivation(KernelRegistry &registry, Activation kind) {
  std::string name = stringifyActivation(kind).str();
  registerGeneratedKernel(
      registry,
      {"act_and_mul",
       name,
       name + "(gate) * up, the activation rounded to the type of gate; " +
           getFormula(kind).str(),
       {"gate", "up"},
       2,
       1,
       {},
       [=](ImplicitLocOpBuilder &b, SlotOp slot, ValueRange args) {
         Value act = ActivationOp::create(b, args[0].getType(), kind, args[0]);
         Value y = GatedMulOp::create(b, getResultType(slot), act, args[1]);
         return SlotResults(SmallVector<Value>{y});
       },
       [=](EagerBuilder &b, SlotOp slot, ValueRange args) {
         Value y = b.mul(b.activation(kind, args[0]), args[1]);
         return SlotResults(
             SmallVector<Value>{b.convert(y, getResultElement(slot))});
       }});
}

static void addGatedMLP(KernelRegistry &registry, StringRef op,
                        StringRef variant, Activation kind) {
  std::string act = stringifyActivation(kind).str();
  registerGeneratedKernel(
      registry,
      {op.str(),
       variant.str(),
       "linear(" + act +
           "(linear(x, gate)) * linear(x, up), down), each step rounded to "
           "the type of x, weights as [out, in]; " +
           getFormula(kind).str(),
       {"x", "gate", "up", "down"},
       4,
       1,
       {},
       [=](ImplicitLocOpBuilder &b, SlotOp slot, ValueRange args) {
         auto mlp = GatedMLPOp::create(
             b, TypeRange(getResultType(slot)), args[0], /*residual=*/Value(),
             /*norm_weight=*/Value(), /*norm_bias=*/Value(), args[1],
             /*gate_bias=*/Value(), args[2], /*up_bias=*/Value(), args[3],
             /*down_bias=*/Value(), /*output_residual=*/Value(),
             /*channel_scales=*/ValueRange(), /*norm=*/NormAttr(), kind,
             /*add_stream=*/false, /*quant=*/QuantAttr(),
             /*extras=*/ArrayAttr(),
             /*scales=*/StaticScalesAttr(),
             RoundingAttr::getExact(b.getContext()), /*origins=*/ArrayAttr(),
             /*site=*/StringAttr(), /*provenance=*/ProvenanceAttr());
         return SlotResults(SmallVector<Value>(mlp->getResults()));
       },
       [=](EagerBuilder &b, SlotOp slot, ValueRange args) {
         Value gate = b.activation(kind, b.linear(args[0], args[1]));
         Value product = b.mul(gate, b.linear(args[0], args[2]));
         Value y = b.linear(product, args[3]);
         return SlotResults(
             SmallVector<Value>{b.convert(y, getResultElement(slot))});
       }});
}

void fuse::registerActivationKernels(KernelRegistry &registry) {
  for (Activation kind :
       {Activation::SiLU, Activation::GELUTanh, Activation::GELU})
    addActivation(registry, kind);
}

void fuse::registerGatedMLPKernels(KernelRegistry &registry) {
  addGatedMLP(registry, "swiglu_mlp", "standard", Activation::SiLU);
  addGatedMLP(registry, "geglu_mlp", "gelu_tanh", Activation::GELUTanh);
  addGatedMLP(registry, "geglu_mlp", "gelu", Activation::GELU);
}
