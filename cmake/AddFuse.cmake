# Helpers that declare one component of fuse in one call: code that TableGen
# generates, compiled sources, and generated documentation.

# Sets `result` to the sanitizers of targets in the current folder.
function(_fuse_sanitizers result)
  set(sanitizers "${FUSE_SANITIZERS}")
  if(FUSE_SANITIZED_FOLDERS)
    set(sanitizers "")
    foreach(folder ${FUSE_SANITIZED_FOLDERS})
      string(FIND "${CMAKE_CURRENT_SOURCE_DIR}/" "${PROJECT_SOURCE_DIR}/${folder}/"
        place)
      if(place EQUAL 0)
        set(sanitizers "${FUSE_SANITIZERS}")
      endif()
    endforeach()
  endif()
  set(${result} "${sanitizers}" PARENT_SCOPE)
endfunction()

# Options for every fuse target.
function(_fuse_target_options name)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wno-unused-parameter)
  if(FUSE_ENABLE_WERROR)
    target_compile_options(${name} PRIVATE -Werror)
  endif()
  if(FUSE_ENABLE_ASSERTIONS)
    target_compile_options(${name} PRIVATE -UNDEBUG)
    if(NOT LLVM_ENABLE_ASSERTIONS)
      # The only class whose layout depends on NDEBUG in LLVM.
      target_include_directories(${name} BEFORE PRIVATE
        "${PROJECT_SOURCE_DIR}/cmake/compat")
    endif()
  endif()
  _fuse_sanitizers(sanitizers)
  if(sanitizers)
    target_compile_options(${name} PRIVATE
      -fsanitize=${sanitizers} -fno-omit-frame-pointer)
    # Functions of the sanitizer are in the program, so shared libraries have
    # undefined symbols, which LLVM's options would refuse.
    target_link_options(${name} PRIVATE
      -fsanitize=${sanitizers} -Wl,-z,undefs)
  endif()
endfunction()

# Makes a library or program load where the C++ library is another one, or none.
function(_fuse_link_standalone name)
  if(FUSE_SANITIZERS)
    return()
  endif()
  target_link_options(${name} PRIVATE
    -static-libgcc
    -static-libstdc++
    # What is not used would add requirements on the C library.
    -Wl,--gc-sections
    -Wl,--exclude-libs,ALL)
  if(FUSE_STATIC_LLVM)
    target_link_options(${name} PRIVATE -Wl,--strip-all)
  endif()
endfunction()

# Makes a target use the precompiled headers of MLIR. They must have been
# compiled with the options of the target, so everything is compiled as
# position-independent code.
function(_fuse_use_precompiled_headers name)
  _fuse_sanitizers(sanitizers)
  if(NOT FUSE_ENABLE_PCH OR (FUSE_SANITIZED_FOLDERS AND sanitizers))
    return()
  endif()
  set(pch "${CMAKE_BINARY_DIR}/lib/Precompiled/CMakeFiles")
  string(APPEND pch "/FusePrecompiled.dir${LLVM_INCLUDE_DIR}"
    "/mlir/Transforms/DialectConversion.h.o")
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include-pch ${pch}>")
  get_target_property(sources ${name} SOURCES)
  set_property(SOURCE ${sources} APPEND PROPERTY OBJECT_DEPENDS "${pch}")
endfunction()

# add_fuse_library(NAME source... [NO_MLIR] [DEPENDS target...]
#                  [LINK_LIBS target...])
# Adds a static library. NO_MLIR removes the headers of MLIR from its include
# path. MLIR and LLVM are linked once, by add_fuse_tool or fuse-c
# (cmake/FuseLLVM.cmake).
function(add_fuse_library name)
  cmake_parse_arguments(ARG "NO_MLIR" "" "DEPENDS;LINK_LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  if(NOT ARG_NO_MLIR)
    add_dependencies(${name} mlir-headers mlir-generic-headers ${ARG_DEPENDS})
    _fuse_use_precompiled_headers(${name})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK_LIBS})
  _fuse_target_options(${name})
endfunction()

# add_fuse_dialect(NAME namespace source... [LINK_LIBS target...])
# Expects NAME{Dialect,Attrs,Ops}.td in the current directory, and NAMETypes.td
# or NAMEInterfaces.td where TYPES or INTERFACES is given. Makes the library
# NAMEDialect.
function(add_fuse_dialect name namespace)
  cmake_parse_arguments(ARG "TYPES;INTERFACES" "" "LINK_LIBS" ${ARGN})
  set(LLVM_TARGET_DEFINITIONS ${name}Ops.td)
  mlir_tablegen(${name}Ops.h.inc -gen-op-decls -dialect=${namespace})
  mlir_tablegen(${name}Ops.cpp.inc -gen-op-defs -dialect=${namespace})
  set(LLVM_TARGET_DEFINITIONS ${name}Dialect.td)
  mlir_tablegen(${name}Dialect.h.inc
    -gen-dialect-decls -dialect=${namespace})
  mlir_tablegen(${name}Dialect.cpp.inc
    -gen-dialect-defs -dialect=${namespace})
  set(LLVM_TARGET_DEFINITIONS ${name}Attrs.td)
  mlir_tablegen(${name}Enums.h.inc -gen-enum-decls)
  mlir_tablegen(${name}Enums.cpp.inc -gen-enum-defs)
  mlir_tablegen(${name}Attrs.h.inc
    -gen-attrdef-decls -attrdefs-dialect=${namespace})
  mlir_tablegen(${name}Attrs.cpp.inc
    -gen-attrdef-defs -attrdefs-dialect=${namespace})
  if(ARG_TYPES)
    set(LLVM_TARGET_DEFINITIONS ${name}Types.td)
    mlir_tablegen(${name}Types.h.inc
      -gen-typedef-decls -typedefs-dialect=${namespace})
    mlir_tablegen(${name}Types.cpp.inc
      -gen-typedef-defs -typedefs-dialect=${namespace})
  endif()
  if(ARG_INTERFACES)
    set(LLVM_TARGET_DEFINITIONS ${name}Interfaces.td)
    mlir_tablegen(${name}Interfaces.h.inc -gen-op-interface-decls)
    mlir_tablegen(${name}Interfaces.cpp.inc -gen-op-interface-defs)
  endif()
  add_mlir_dialect_tablegen_target(${name}IncGen)
  add_fuse_library(${name}Dialect ${ARG_UNPARSED_ARGUMENTS}
    DEPENDS ${name}IncGen LINK_LIBS ${ARG_LINK_LIBS})
  add_mlir_doc(${name}Ops ${name}Dialect Dialects/
    -gen-dialect-doc -dialect=${namespace})
endfunction()

# add_fuse_passes(GROUP): declarations and documentation of the passes in
# include/fuse/GROUP/Passes.td.
function(add_fuse_passes group)
  set(LLVM_TARGET_DEFINITIONS Passes.td)
  mlir_tablegen(Passes.h.inc -gen-pass-decls -name ${group})
  add_mlir_generic_tablegen_target(Fuse${group}PassIncGen)
  add_mlir_doc(Passes Fuse${group} Passes/ -gen-pass-doc)
endfunction()

# add_fuse_tool(NAME source... [LINK_LIBS target...])
function(add_fuse_tool name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  _fuse_use_precompiled_headers(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK_LIBS} FuseLLVM)
  if(FUSE_JEMALLOC AND NOT FUSE_SANITIZERS)
    target_link_libraries(${name} PRIVATE ${FUSE_JEMALLOC})
  endif()
  _fuse_target_options(${name})
endfunction()

# add_fuse_unittest(NAME source... [LINK_LIBS target...])
# Adds a GoogleTest program. NAME ends in Tests, because scripts/test.sh finds
# programs by this suffix.
function(add_fuse_unittest name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS" ${ARGN})
  add_fuse_tool(${name} ${ARG_UNPARSED_ARGUMENTS}
    LINK_LIBS ${ARG_LINK_LIBS} GTest::gtest_main)
endfunction()
