# Rules of `cmake --install`, and the package that find_package(Fuse) finds.
# --component Runtime installs only the runtime.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Fuse")

install(TARGETS dlpack fuse-rt
  EXPORT FuseTargets
  COMPONENT Runtime
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS fuse-c
  EXPORT FuseCompilerTargets
  COMPONENT Compiler)
install(TARGETS fuse-artifact fuse-device-run COMPONENT Runtime)
install(TARGETS
  fuse-compile fuse-explain fuse-lsp-server fuse-opt fuse-run fuse-tune
  COMPONENT Compiler)
install(PROGRAMS tools/fuse-bisect/fuse-bisect
  DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT Compiler)
# The emulator is not part of the runtime. Programs look for it next to their
# folder.
install(TARGETS fuse-emulated-cuda
  LIBRARY DESTINATION lib/fuse-emulated
  COMPONENT Emulator)
install(DIRECTORY include/fuse-c
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT Runtime
  PATTERN Dialects.h EXCLUDE)
install(DIRECTORY third_party/dlpack/include/dlpack
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT Runtime)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT Runtime)
install(FILES third_party/dlpack/LICENSE
  DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME LICENSE.dlpack
  COMPONENT Runtime)

install(EXPORT FuseTargets NAMESPACE Fuse::
  DESTINATION "${package_dir}" COMPONENT Runtime)
install(EXPORT FuseCompilerTargets NAMESPACE Fuse::
  DESTINATION "${package_dir}" COMPONENT Compiler)

# For projects that use MLIR themselves: dialects, passes, and what TableGen
# makes of both or includes. They share libMLIR with fuse.
if(NOT FUSE_STATIC_LLVM)
  install(TARGETS
    FuseAnalysis
    FuseCodegenCPU
    FuseCodegenHopper
    FuseCodegenMma
    FuseDialect
    FuseElementMath
    FuseKernelsToNVVM
    FuseKernelsToPTX
    FuseLinalgToGPU
    FusePipelines
    FusePlugin
    FuseRegistered
    FuseSchedule
    FuseSlotRegistry
    FuseSlots
    FuseSmallFloatsToNVVM
    FuseSupport
    FuseTarget
    FuseToCPU
    FuseToLinalg
    FuseToTile
    FuseTransforms
    NNDialect
    StageDialect
    TileDialect
    TileToNVVM
    EXPORT FuseMLIRTargets
    COMPONENT MLIR
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(FILES include/fuse-c/Dialects.h
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/fuse-c" COMPONENT MLIR)
  foreach(folder dialects/fuse dialects/nn dialects/stage dialects/tile
      include/fuse)
    install(DIRECTORY "${folder}" "${CMAKE_BINARY_DIR}/${folder}"
      DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT MLIR
      FILES_MATCHING
      PATTERN "*.def" PATTERN "*.h" PATTERN "*.inc" PATTERN "*.td"
      PATTERN Artifact EXCLUDE PATTERN Execution EXCLUDE PATTERN IO EXCLUDE
      PATTERN Interpreter EXCLUDE PATTERN Measure EXCLUDE
      PATTERN Runtime EXCLUDE PATTERN CMakeFiles EXCLUDE)
  endforeach()
  install(EXPORT FuseMLIRTargets NAMESPACE Fuse::
    DESTINATION "${package_dir}" COMPONENT MLIR)
endif()

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/FuseConfig.cmake.in"
  "${CMAKE_BINARY_DIR}/FuseConfig.cmake"
  INSTALL_DESTINATION "${package_dir}"
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(
  "${CMAKE_BINARY_DIR}/FuseConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
foreach(component Runtime MLIR)
  install(FILES
    "${CMAKE_BINARY_DIR}/FuseConfig.cmake"
    "${CMAKE_BINARY_DIR}/FuseConfigVersion.cmake"
    DESTINATION "${package_dir}" COMPONENT ${component})
endforeach()
