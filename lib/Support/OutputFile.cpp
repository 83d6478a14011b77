//===- OutputFile.cpp - Write a file atomically ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Support/OutputFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using llvm::createStringError;
using llvm::Error;
namespace fs = llvm::sys::fs;

/// Runs `body` and reports write errors of the stream.
static Error writeStream(llvm::StringRef path, llvm::raw_fd_ostream &os,
                         llvm::function_ref<Error(llvm::raw_ostream &)> body) {
  Error error = body(os);
  os.flush();
  std::error_code code = os.error();
  os.clear_error();
  if (error || !code)
    return error;
  return createStringError(code, path + ": " + code.message());
}

Error fuse::writeFile(llvm::StringRef path,
                      llvm::function_ref<Error(llvm::raw_ostream &)> body) {
  fs::file_status status;
  bool isSpecial = !fs::status(path, status) && !fs::is_regular_file(status);
  if (path == "-" || isSpecial) {
    std::error_code code;
    llvm::raw_fd_ostream os(path, code);
    if (code)
      return createStringError(code, path + ": " + code.message());
    return writeStream(path, os, body);
  }
  llvm::Expected<fs::TempFile> file =
      fs::TempFile::create(path + ".%%%%%%.tmp");
  if (!file)
    return createStringError(path + ": " + llvm::toString(file.takeError()));
  llvm::raw_fd_ostream os(file->FD, /*shouldClose=*/false);
  if (Error error = writeStream(path, os, body)) {
    consumeError(file->discard());
    return error;
  }
  if (Error error = file->keep(path))
    return createStringError(path + ": " + llvm::toString(std::move(error)));
  return Error::success();
}
