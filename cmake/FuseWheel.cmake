# Contents of a Python wheel. The package finds both libraries next to its
# modules. Wheels cannot have symbolic links, so each file has only the name
# under which it is loaded.
if(FUSE_PREBUILT)
  file(REAL_PATH "${FUSE_PREBUILT}/libfuse.so" compiler)
  file(REAL_PATH "${FUSE_PREBUILT}/libfuse-rt.so.0" runtime)
  set(extension "${FUSE_PREBUILT}/fuse_call.abi3.so")
else()
  set_target_properties(fuse-c fuse-rt PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  set(compiler "$<TARGET_FILE:fuse-c>")
  set(runtime "$<TARGET_FILE:fuse-rt>")
  set(extension "$<TARGET_FILE:fuse-call>")
endif()
install(FILES "${compiler}"
  DESTINATION fuse_mlir/lib RENAME libfuse.so COMPONENT Python)
install(FILES "${runtime}"
  DESTINATION fuse_mlir/lib RENAME libfuse-rt.so.0 COMPONENT Python)
install(FILES "${extension}" DESTINATION fuse_mlir/lib COMPONENT Python)
