// RUN: %option_errors %s fuse-opt %s --fuse-list-modules='paths={}'

// Path globs that match nothing, or that are not globs.

// OPTIONS: layers.7
// ERROR: no module matches path glob 'layers.7'

// OPTIONS: layers.**x
// ERROR: path glob 'layers.**x': '**' must be a whole segment, got '**x'

// OPTIONS: layers..mlp
// ERROR: path glob 'layers..mlp': has an empty segment

// OPTIONS: "layers.[0"
// ERROR: path glob 'layers.[0': invalid glob pattern, unmatched '['

// OPTIONS: layers.{0.mlp,1}
// ERROR: path glob 'layers.{0.mlp,1}': '.' between '{' and '}'; alternatives are parts of one segment

// OPTIONS: layers.{}
// ERROR: path glob 'layers.{}': empty or singleton brace expansions are not supported

// OPTIONS: layers.{a[0-3],5}
// ERROR: path glob 'layers.{a[0-3],5}': nested brace expansions are not supported

// Ranges of numbers. One may end at the largest number of 64 bits, so that its
// end is not reached by counting up.

// OPTIONS: layers.[3-0]
// ERROR: path glob 'layers.[3-0]': range [3-0] ends before it begins

// OPTIONS: layers.[0-5000]
// ERROR: path glob 'layers.[0-5000]': range [0-5000] has more than 1024 numbers

// OPTIONS: layers.[18446744073709551614-18446744073709551615]
// ERROR: no module matches path glob 'layers.[18446744073709551614-18446744073709551615]'

// As classes of characters, these would select single digits.

// OPTIONS: "layers.[10,12]"
// ERROR: path glob 'layers.[10,12]': '[10,12]' is not a range of numbers; expected [first-last], or {a,b} for single ones

// OPTIONS: layers.[0-]
// ERROR: path glob 'layers.[0-]': '[0-]' is not a range of numbers

// OPTIONS: layers.[0-18446744073709551616]
// ERROR: path glob 'layers.[0-18446744073709551616]': '[0-18446744073709551616]' is not a range of numbers

fuse.model @tree class "Tree" {
  fuse.module @layers class "ModuleList" {
    fuse.module @"0" class "Layer" {
    }
  }
}
