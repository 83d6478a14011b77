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
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

#include <mutex>

#include <dlfcn.h>

using namespace fuse;
using llvm::StringRef;

LinkedObject::LinkedObject(std::unique_ptr<llvm::orc::LLJIT> jit,
                           std::shared_ptr<std::string> problem)
    : problem(std::move(problem)), jit(std::move(jit)) {}

LinkedObject::~LinkedObject() = default;

// Functions of libgcc that LLVM calls where the CPU has no such instructions.
// Their types do not matter here.
extern "C" {
void __powidf2();
void __powisf2();
#ifdef __x86_64__
void __extendhfsf2();
void __truncdfhf2();
void __truncsfhf2();
#endif
}

/// Defines the functions of libgcc. It is linked statically, so no search of
/// shared libraries finds them.
static llvm::Error defineLibgcc(llvm::orc::LLJIT &jit) {
  llvm::orc::SymbolMap symbols;
  auto add = [&](StringRef name, void (*function)()) {
    symbols[jit.mangleAndIntern(name)] = {
        llvm::orc::ExecutorAddr::fromPtr(function),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  add("__powidf2", __powidf2);
  add("__powisf2", __powisf2);
#ifdef __x86_64__
  add("__extendhfsf2", __extendhfsf2);
  add("__truncdfhf2", __truncdfhf2);
  add("__truncsfhf2", __truncsfhf2);
#endif
  return jit.getMainJITDylib().define(
      llvm::orc::absoluteSymbols(std::move(symbols)));
}

/// A handle of the shared library with this function, or null in an executable.
/// It finds the symbols of the library and of its dependencies. It is never
/// closed, because the library stays loaded as long as its code runs.
static void *openThisLibrary() {
  static void *handle = []() -> void * {
    Dl_info info;
    if (!::dladdr(reinterpret_cast<void *>(&openThisLibrary), &info) ||
        !info.dli_fname)
      return nullptr;
    void *found = ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (found)
      ::dlclose(found);
    return found;
  }();
  return handle;
}

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
  // The text becomes part of the caller's error instead of going to stderr.
  auto problem = std::make_shared<std::string>();
  (*jit)->getExecutionSession().setErrorReporter([problem](llvm::Error error) {
    *problem = llvm::toString(std::move(error));
  });
  if (llvm::Error error = defineLibgcc(**jit))
    return std::move(error);
  // Functions of libc and libm are resolved in this process. If fuse was loaded
  // by dlopen and the process does not link to them, they are resolved through
  // this library.
  char prefix = (*jit)->getDataLayout().getGlobalPrefix();
  auto process =
      llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(prefix);
  if (!process)
    return process.takeError();
  (*jit)->getMainJITDylib().addGenerator(std::move(*process));
  if (void *library = openThisLibrary())
    (*jit)->getMainJITDylib().addGenerator(
        std::make_unique<llvm::orc::DynamicLibrarySearchGenerator>(
            llvm::sys::DynamicLibrary(library), prefix));
  // Link errors are found when a symbol is looked up.
  auto add = [&](StringRef file) {
    return (*jit)->addObjectFile(
        llvm::MemoryBuffer::getMemBufferCopy(file, "fuse"));
  };
  if (llvm::identify_magic(object) != llvm::file_magic::archive) {
    if (llvm::Error error = add(object))
      return std::move(error);
    return std::unique_ptr<LinkedObject>(
        new LinkedObject(std::move(*jit), std::move(problem)));
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
  return std::unique_ptr<LinkedObject>(
      new LinkedObject(std::move(*jit), std::move(problem)));
}

llvm::Expected<void *> LinkedObject::lookup(StringRef symbol) const {
  auto address = jit->lookup(symbol);
  if (address)
    return address->toPtr<void *>();
  llvm::consumeError(address.takeError());
  return nullptr;
}
