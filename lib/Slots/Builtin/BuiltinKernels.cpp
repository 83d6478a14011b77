//===- BuiltinKernels.cpp - Kernels that fuse generates -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/BuiltinKernels.h"
#include "mlir/IR/DialectInterface.h"
#include "mlir/IR/DialectRegistry.h"
#include "nn/IR/NNDialect.h"

using namespace mlir;
using namespace fuse;

void fuse::registerBuiltinKernels(KernelRegistry &registry) {
  registerActivationKernels(registry);
  registerCrossEntropyKernels(registry);
  registerGatedMLPKernels(registry);
  registerLayerNormKernels(registry);
  registerMoEExpertsKernels(registry);
  registerMoELoadBalancingLoss(registry);
  registerRMSNormKernels(registry);
  registerRotaryKernels(registry);
}

namespace {

/// Stores the registry of a context.
class RegistryHolder : public DialectInterface::Base<RegistryHolder> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RegistryHolder)

  explicit RegistryHolder(Dialect *dialect)
      : Base(dialect), registry(dialect->getContext()) {
    registerBuiltinKernels(registry);
  }

  // A context returns its dialect interfaces only as const.
  mutable KernelRegistry registry;
};

} // namespace

void fuse::registerKernels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *, NNDialect *dialect) {
    dialect->addInterfaces<RegistryHolder>();
  });
}

KernelRegistry &fuse::getKernelRegistry(MLIRContext *context) {
  auto *dialect = context->getOrLoadDialect<NNDialect>();
  if (!dialect->getRegisteredInterface<RegistryHolder>())
    dialect->addInterfaces<RegistryHolder>();
  return dialect->getRegisteredInterface<RegistryHolder>()->registry;
}
