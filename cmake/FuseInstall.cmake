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
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT Runtime)
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
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/FuseConfig.cmake.in"
  "${CMAKE_BINARY_DIR}/FuseConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(
  "${CMAKE_BINARY_DIR}/FuseConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_BINARY_DIR}/FuseConfig.cmake"
  "${CMAKE_BINARY_DIR}/FuseConfigVersion.cmake"
  DESTINATION "${package_dir}" COMPONENT Runtime)
