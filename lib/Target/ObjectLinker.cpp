//===- ObjectLinker.cpp - Relocatable objects in this process -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Target/ObjectLinker.h"
#include "llvm/BinaryFormat/Magic.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Object/Archive.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

#include <mutex>

using namespace fuse;
using llvm::StringRef;

LinkedObject::LinkedObject(std::unique_ptr<llvm::orc::LLJIT> jit)
    : jit(std::move(jit)) {}

LinkedObject::~LinkedObject() = default;

llvm::Expected<std::unique_ptr<LinkedObject>>
LinkedObject::create(StringRef object) {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  // Functions of libc and libm are those of this process.
  auto process = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      (*jit)->getDataLayout().getGlobalPrefix());
  if (!process)
    return process.takeError();
  (*jit)->getMainJITDylib().addGenerator(std::move(*process));
  // Whether all of it can be linked shows when its symbols are looked up.
  auto add = [&](StringRef file) {
    return (*jit)->addObjectFile(
        llvm::MemoryBuffer::getMemBufferCopy(file, "fuse"));
  };
  if (llvm::identify_magic(object) != llvm::file_magic::archive) {
    if (llvm::Error error = add(object))
      return std::move(error);
    return std::unique_ptr<LinkedObject>(new LinkedObject(std::move(*jit)));
  }
  auto archive = llvm::object::Archive::create({object, "fuse"});
  if (!archive)
    return archive.takeError();
  llvm::Error error = llvm::Error::success();
  for (const llvm::object::Archive::Child &child :
       (*archive)->children(error)) {
    auto file = child.getBuffer();
    if (!file)
      return llvm::joinErrors(std::move(error), file.takeError());
    if (llvm::Error failure = add(*file))
      return llvm::joinErrors(std::move(error), std::move(failure));
  }
  if (error)
    return std::move(error);
  return std::unique_ptr<LinkedObject>(new LinkedObject(std::move(*jit)));
}

void *LinkedObject::lookup(llvm::StringRef symbol) const {
  auto address = jit->lookup(symbol);
  if (address)
    return address->toPtr<void *>();
  llvm::consumeError(address.takeError());
  return nullptr;
}
