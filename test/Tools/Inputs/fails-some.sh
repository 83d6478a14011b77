#!/bin/sh
# Stands for fuse-opt: crashes, fails without an error, hangs, one by one.
case "$*" in
--help | *--dump-pass-pipeline*) exec fuse-opt "$@" ;;
esac
echo >>"$0.calls"
case $(wc -l <"$0.calls") in
1) kill -SEGV $$ ;;
2) exit 1 ;;
*) exec sleep 60 ;;
esac
