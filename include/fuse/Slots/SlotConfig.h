//===- SlotConfig.h - User configuration of slots ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// docs/how-to/bind-slots.md describes the file format.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_SLOTCONFIG_H
#define FUSE_SLOTS_SLOTCONFIG_H

#include "fuse/IR/FuseAttrs.h"
#include "nn/IR/NNOps.h"
#include "llvm/Support/Error.h"

#include <map>
#include <string>
#include <vector>

namespace fuse {

/// Kernels by op (`rms_norm`) or by op and variant (`rms_norm/unweighted`).
using SlotBindingMap = std::map<std::string, std::string>;

/// Bindings for the calls at paths that match a glob.
struct SlotOverride {
  std::string path;
  SlotBindingMap bind;
};

/// Bindings for the calls of one model, or of all models.
struct SlotRequest {
  SlotBindingMap bind;
  /// Later overrides precede earlier ones.
  std::vector<SlotOverride> overrides;
};

/// The device and the mode that kernels must support.
struct SlotTarget {
  DeviceType device = DeviceType::CPU;
  /// Compute capability of a GPU, as in `sm_90`.
  unsigned capability = 0;
  KernelMode mode = KernelMode::Inference;

  /// `device_type=gpu, compute_capability=90`.
  std::string toText() const;
};

struct SlotConfig {
  /// `cpu`, or a chip such as `sm_90`; `cpu` if empty.
  std::string target;
  /// `inference`, `training`, or one of them with `|compile`; `inference` if
  /// empty.
  std::string mode;
  /// Files of kernels to register before binding.
  std::vector<std::string> kernels;
  /// Name of one of `presets`, or `fuse` for all generated kernels.
  std::string preset;
  std::map<std::string, SlotBindingMap> presets;
  SlotRequest request;
  /// By name of the model; these precede `request`.
  std::map<std::string, SlotRequest> models;
  /// Kernel of calls that no other setting selects; unbound if empty.
  std::string otherwise;
  /// Whether bound calls may be bound to another kernel.
  bool rebind = false;
  /// Whether a kernel may replace a registered one with the same key.
  bool force = false;
  /// Names of the models whose calls are bound; all models if empty.
  std::vector<std::string> only;
  /// Only resolve and report: no kernel is built and no call changes.
  bool check = false;

  /// Parses YAML, which includes JSON. `name` is used in messages. Relative
  /// paths of kernels start at `directory`.
  static llvm::Expected<SlotConfig> parse(llvm::StringRef text,
                                          llvm::StringRef name,
                                          llvm::StringRef directory = "");
  static llvm::Expected<SlotConfig> parseFile(llvm::StringRef path);

  /// Adds a binding `op=kernel`, or `path:op=kernel` with a path glob. A prefix
  /// `model@` restricts it to one model.
  llvm::Error addBinding(llvm::StringRef text);

  /// The parsed values of `target` and `mode`.
  llvm::Expected<SlotTarget> getTarget() const;
};

} // namespace fuse

#endif // FUSE_SLOTS_SLOTCONFIG_H
