// Ten commands in twenty lines.

// RUN: echo 1 \
// RUN:   | cat
// RUN: echo 2 \
// RUN:   | cat
// RUN: echo 3 \
// RUN:   | cat
// RUN: echo 4 \
// RUN:   | cat
// RUN: echo 5 \
// RUN:   | cat
// RUN: echo 6 \
// RUN:   | cat
// RUN: echo 7 \
// RUN:   | cat
// RUN: echo 8 \
// RUN:   | cat
// RUN: echo 9 \
// RUN:   | cat
// RUN: echo 10 \
// RUN:   | cat
