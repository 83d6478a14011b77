//===- ArtifactDraft.h - An artifact before it is a file --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ARTIFACT_ARTIFACTDRAFT_H
#define FUSE_ARTIFACT_ARTIFACTDRAFT_H

#include "fuse/Artifact/DeviceCode.h"
#include "mlir/IR/DialectRegistry.h"

#include <deque>
#include <mutex>

namespace fuse {

/// All data from which an artifact is written.
struct ArtifactDraft {
  /// The manifest without its functions.
  llvm::json::Object manifest;
  /// Descriptions of the functions, without code for GPUs.
  std::vector<llvm::json::Object> descriptions;
  /// Sections after the manifest, with their kinds.
  std::vector<std::pair<uint32_t, std::string>> sections;
  DeviceProgram device;

  /// Returns the index of the new section.
  int64_t addSection(uint32_t kind, std::string data) {
    sections.push_back({kind, std::move(data)});
    return sections.size();
  }
  /// Makes the draft independent of the context of the module.
  void detach();
};

/// Does the work of `compileToArtifact` except for compiling scheduled kernels.
llvm::Expected<ArtifactDraft> draftArtifact(mlir::ModuleOp module,
                                            const CompileOptions &options);

/// Serializes the artifact. A kernel without PTX appears in the manifest as
/// `deferred` with its number in `device.modules`.
llvm::Expected<std::string> writeArtifact(ArtifactDraft draft);

/// An artifact in memory whose scheduled kernels are compiled when they are
/// needed. Several threads may call its functions at once.
class DeferredArtifact {
public:
  DeferredArtifact(ArtifactDraft draft, mlir::DialectRegistry dialects,
                   CompileOptions options);

  /// PTX of a module of `device`, which is compiled at most once.
  llvm::Expected<llvm::StringRef> getModule(size_t number);
  /// The whole artifact, as `compileToArtifact` returns it.
  llvm::Expected<llvm::StringRef> getFile();

private:
  ArtifactDraft draft;
  mlir::DialectRegistry dialects;
  CompileOptions options;
  /// Held while the module is compiled or its PTX is read.
  std::deque<std::mutex> mutexes;
  std::mutex fileMutex;
  std::string file;
};

} // namespace fuse

#endif // FUSE_ARTIFACT_ARTIFACTDRAFT_H
