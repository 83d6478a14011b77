# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that read results: the summary, tables, plots and comparisons."""
