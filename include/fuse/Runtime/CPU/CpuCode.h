//===- CpuCode.h - Machine code for this process ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CPU_CPUCODE_H
#define FUSE_RUNTIME_CPU_CPUCODE_H

#include "fuse-c/Runtime.h"
#include "fuse/Runtime/Core/Manifest.h"

#include <memory>

namespace fuse::runtime {

/// The CPU of this machine, with level "native".
CpuTarget getThisCpu();

/// Whether this process may use AMX tiles, which Linux grants on request.
/// `FUSE_AMX=0` in the environment disables them.
bool hasTiles();

/// Levels to which code for this architecture can be restricted, weakest first.
/// With `ofThisMachine`, only the levels that this machine supports.
std::vector<std::string> getCpuLevels(bool ofThisMachine);

/// Throws `Failure` unless this machine has every instruction of `target`.
void checkCpu(const CpuTarget &target);

/// Code loaded into this process. The destructor unloads it.
class LoadedCode {
public:
  virtual ~LoadedCode();

  /// The address of a function. Throws `Failure` if the symbol does not exist.
  void *lookup(const std::string &symbol) const;

  /// Loads a section, which is a shared or a relocatable object.
  static std::shared_ptr<LoadedCode> load(const Section &section);

protected:
  virtual void *find(const char *symbol) const = 0;
};

void setObjectLinker(const fuse_object_linker *linker);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CPU_CPUCODE_H
