# How fuse links LLVM and MLIR: FuseLLVM for what everything uses, and
# FuseExecutionEngine for what compiles for the CPU of the process.
#
# Without FUSE_STATIC_LLVM both are the shared libraries of the packages.
# Programs then have one copy of MLIR, which libfuse and fuse's static libraries
# share.
#
# With FUSE_STATIC_LLVM both are all static archives of the packages. The linker
# uses only members that are referenced. Imported targets of MLIR are of no use
# here, because each of them depends on the shared LLVM.
add_library(FuseLLVM INTERFACE)
add_library(FuseExecutionEngine INTERFACE)

if(NOT FUSE_STATIC_LLVM)
  target_link_libraries(FuseLLVM INTERFACE MLIR LLVM)
  target_link_libraries(FuseExecutionEngine INTERFACE
    MLIRExecutionEngineShared
    MLIRExecutionEngineUtils)
  return()
endif()

file(GLOB archives
  "${LLVM_LIBRARY_DIR}/libMLIR*.a" "${LLVM_LIBRARY_DIR}/libLLVM*.a")
list(FILTER archives EXCLUDE REGEX "/lib(MLIRCAPI|MLIRTest|LLVMBOLT)")
foreach(name MLIRIR LLVMSupport)
  if(NOT "${LLVM_LIBRARY_DIR}/lib${name}.a" IN_LIST archives)
    message(FATAL_ERROR "FUSE_STATIC_LLVM needs static archives of LLVM and "
      "MLIR, and ${LLVM_LIBRARY_DIR} has no lib${name}.a")
  endif()
endforeach()
# Archives depend on each other in cycles, which lld resolves without groups.
# GCC looks for it in the folder of -B.
if(NOT EXISTS "${LLVM_TOOLS_BINARY_DIR}/ld.lld")
  message(FATAL_ERROR "FUSE_STATIC_LLVM needs lld, and "
    "${LLVM_TOOLS_BINARY_DIR} has no ld.lld")
endif()

# MLIR initializes all targets of LLVM for one pass on target triples. Empty
# functions keep out those that fuse never compiles for: 71 MB of 182 MB.
set(other_targets "")
foreach(target ${LLVM_TARGETS_TO_BUILD})
  if(NOT target STREQUAL LLVM_NATIVE_ARCH AND NOT target STREQUAL "NVPTX")
    foreach(part AsmParser AsmPrinter Disassembler Target TargetInfo TargetMC)
      string(APPEND other_targets
        "void LLVMInitialize${target}${part}(void) {}\n")
    endforeach()
  endif()
endforeach()
set(other_targets_file "${CMAKE_CURRENT_BINARY_DIR}/OtherTargets.c")
file(CONFIGURE OUTPUT "${other_targets_file}" CONTENT "${other_targets}")

# The linker uses the definition in the first archive, so these come before
# LLVM.
add_library(FuseLLVMReplacements STATIC
  "${PROJECT_SOURCE_DIR}/lib/Support/NoZlib.cpp"
  "${PROJECT_SOURCE_DIR}/lib/Support/OldGlibc.c"
  "${other_targets_file}")
_fuse_target_options(FuseLLVMReplacements)
target_link_libraries(FuseLLVM INTERFACE
  FuseLLVMReplacements
  ${archives}
  ${CMAKE_DL_LIBS}
  m)
# No --icf=all, which would make the library 20 % smaller: MLIR identifies
# extensions of dialects by the addresses of functions. No --icf=safe, because
# the archives of Debian have no usable table of such addresses.
target_link_options(FuseLLVM INTERFACE
  "-B${LLVM_TOOLS_BINARY_DIR}"
  -fuse-ld=lld)
target_link_libraries(FuseExecutionEngine INTERFACE FuseLLVM)
