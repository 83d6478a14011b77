# RUN: python3 %s %fuse_src_root/dialects %fuse_src_root/include %fuse_src_root/lib
# RUN: rm -rf %t && mkdir %t
# RUN: printf 'namespace fuse {\nclass Twice {\n};\n} // namespace fuse\n' > %t/One.h
# RUN: printf 'namespace {\nstruct Own {\n};\n} // namespace\n' > %t/One.cpp
# RUN: cp %t/One.cpp %t/Two.cpp
# RUN: python3 %s %t
# RUN: cp %t/One.h %t/Two.cpp
# RUN: not python3 %s %t | FileCheck %s
# CHECK: fuse::Twice is defined in {{.*}}One.h and {{.*}}Two.cpp
"""No two files define classes of one name.

The linker keeps one of the functions of each, and a program crashes where it
kept the other's; where functions are inlined it does not show.
"""

import pathlib
import re
import sys

OPEN = re.compile(r"(?:inline )?namespace ?([\w:]*) \{$")
CLOSE = re.compile(r"\} ?// (?:end )?(?:anonymous )?namespace\b")
CLASS = re.compile(
    r"(?:class|struct) (?:\w+_API )?(\w+)(?: final)?(?: :.*|) ?\{$"
)


def get_classes(path):
    """Names of the classes of a file that others see, with their namespaces."""
    spaces = []
    # What is indented is in something else; a list of bases may take two lines.
    text = re.sub(
        r"\n +(: [^\n]*\{)$", r" \1", path.read_text(), flags=re.MULTILINE
    )
    for line in text.splitlines():
        if opened := OPEN.match(line):
            spaces.append(opened[1])
        elif CLOSE.match(line):
            spaces.pop()
        elif (found := CLASS.match(line)) and "" not in spaces:
            yield "::".join([*spaces, found[1]])


def main(folders):
    places = {}
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                for name in set(get_classes(path)):
                    places.setdefault(name, []).append(str(path))
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    for name, paths in twice.items():
        print(f"{name} is defined in {' and '.join(paths)}")
    return 1 if twice or not places else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
