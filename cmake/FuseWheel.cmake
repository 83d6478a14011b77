# What goes into a Python wheel: the package finds both libraries beside its
# modules. A wheel has no links, so each file gets the one name it is loaded by.
if(FUSE_PREBUILT)
  file(REAL_PATH "${FUSE_PREBUILT}/libfuse.so" compiler)
  file(REAL_PATH "${FUSE_PREBUILT}/libfuse-rt.so.0" runtime)
else()
  set_target_properties(fuse-c fuse-rt PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  set(compiler "$<TARGET_FILE:fuse-c>")
  set(runtime "$<TARGET_FILE:fuse-rt>")
endif()
install(FILES "${compiler}"
  DESTINATION fuse_mlir/lib RENAME libfuse.so COMPONENT Python)
install(FILES "${runtime}"
  DESTINATION fuse_mlir/lib RENAME libfuse-rt.so.0 COMPONENT Python)
