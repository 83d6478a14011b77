#!/bin/sh
# usage: build-embed.sh FOLDER [--component Runtime]
#
# Installs fuse, or a component of it, into FOLDER/prefix, and builds
# examples/embed in FOLDER/build as any project would: find_package(Fuse) finds
# the installed copy. ROOT, BUILD, CC and CXX are of the tests.
set -e
folder=$1
shift
rm -rf "$folder"
mkdir "$folder"
cmake --install "$BUILD" --prefix "$folder/prefix" "$@" >"$folder/install.log"
cmake -S "$ROOT/examples/embed" -B "$folder/build" \
  -DCMAKE_PREFIX_PATH="$folder/prefix" -DCMAKE_CXX_COMPILER="$CXX" \
  -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=Debug >"$folder/configure.log"
cmake --build "$folder/build" >"$folder/build.log"
