# RUN: %python %s %fuse_src_root %llvm_lib_dir/../include | FileCheck %s
# RUN: not %python %s %S/Inputs/bad-reference %llvm_lib_dir/../include \
# RUN:   | FileCheck %s --check-prefix=BAD
# CHECK-NOT: :
# CHECK: {{^[3-9][0-9]}} passes and {{[1-9][0-9]+}} ops, 0 problems
# BAD-DAG: fuse-some-thing: has no summary
# BAD-DAG: fuse-some-thing: has no sentence 'After this pass'
# BAD-DAG: fuse-some-thing: has no example
# BAD-DAG: fuse-some-thing: has no statistics
# BAD-DAG: fuse-other-thing: example does not parse: {{.*}}: fuse.quadratic %x
# BAD-DAG: fuse.linear: has no description
# BAD-DAG: fuse.add: is in no example
# BAD-DAG: fuse.add: example does not parse: expected {{.*}}: fuse.linear %x,
# BAD: 2 passes and 2 ops, {{[1-9][0-9]*}} problems
"""Passes and ops say in TableGen what a reader needs, and their examples parse.

In examples, values need no definition: they get whatever type they are used
with. What is left out of an example of a pass, in three dots, is not parsed.
"""

import json
import pathlib
import re
import subprocess
import sys

PASSES = ("Transforms", "Conversion", "Slots", "Target")
DIALECTS = {"fuse": "Fuse", "nn": "NN", "stage": "Stage", "tile": "Tile"}


def records(file, *include):
    """What TableGen knows after reading a file, by name."""
    if not file.exists():
        return {"!instanceof": {}}
    command = ["llvm-tblgen", "--dump-json", file]
    command += [f"-I{folder}" for folder in include]
    return json.loads(
        subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout
    )


def check_pass(record):
    """The problems of one pass."""
    argument, text = record["argument"], record["description"]
    if not record["summary"]:
        yield f"{argument}: has no summary"
    if "After this pass" not in text:
        yield f"{argument}: has no sentence 'After this pass'"
    if "Example" not in text:
        yield f"{argument}: has no example"
    if not record["statistics"]:
        yield f"{argument}: has no statistics"


# Examples in the descriptions of passes, and of ops.
BLOCK = r"```mlir\n(.*?)```()"
BLOCK_OR_LINE = r"```mlir\n(.*?)```|Example: *\n? *`([^`]+)`"


def examples(text, form):
    """The ops of the examples in a description, one by one."""
    for code in re.findall(form, text, re.DOTALL):
        code = code[0] or code[1]
        indent = min(
            len(line) - len(line.lstrip())
            for line in code.splitlines()
            if line.strip()
        )
        yield from filter(
            str.strip,
            re.split(rf"^ {{{indent}}}(?=[%\w])", code, flags=re.MULTILINE),
        )


class Example:
    """An op of an example, with what stands for the values that it uses."""

    def __init__(self, name, code):
        self.name, self.code, self.error = name, code.strip(), ""
        made = re.match(r"(?:%\w+(?::\d+)?,? *)+=", self.code)
        own = re.findall(r"%\w+", made[0]) if made else []
        # Arguments of blocks stand before their types or their values.
        own += re.findall(r"%\w+(?=: )|(?<=[(,])%\w+(?= =)", self.code)
        used = re.findall(r"(%\w+)(?:#(\d+))?", self.code)
        self.types = {value: "none" for value, _ in used if value not in own}
        self.counts = {}
        for value, number in used:
            self.counts[value] = max(
                self.counts.get(value, 1), int(number or 0) + 1
            )

    def __str__(self):
        defs = "".join(
            f'{value}:{self.counts[value]} = "test.def"() : () -> '
            f"({', '.join([kind] * self.counts[value])})\n"
            for value, kind in self.types.items()
        )
        return (
            f'"test.graph"() ({{\n{self.code}\n{defs}}}) : () -> ()\n// -----\n'
        )

    def learn(self, errors):
        """Take a type from an error. Returns whether to try again."""
        if not errors:
            self.error = ""
            return False
        self.error = re.sub(r".*?error: ", "", errors.splitlines()[0])
        value = re.search(r"value '(%\w+)", self.error)
        wanted = re.search(
            r"than prior uses: '(.*?)' vs|"
            r"previously used here with type '(.*)'$",
            errors,
            re.MULTILINE,
        )
        if not value or not wanted or self.types.get(value[1]) != "none":
            return False
        self.types[value[1]] = wanted[1] or wanted[2]
        return True


def parse_all(found):
    """Parse examples, again for each value whose type becomes known."""
    while found:
        text, starts = "", []
        for example in found:
            starts.append(text.count("\n"))
            text += str(example)
        result = subprocess.run(
            [
                "fuse-opt",
                "-split-input-file",
                "-allow-unregistered-dialect",
                "--mlir-very-unsafe-disable-verifier-on-parsing",
                "-",
            ],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        said = ["" for _ in found]
        for message in re.split(
            r"^(?=<stdin>:\d+:\d+: error)", result.stderr, flags=re.MULTILINE
        )[1:]:
            line = int(message.split(":")[1])
            index = max(i for i, start in enumerate(starts) if start < line)
            said[index] = said[index] or message
        found = [
            example
            for example, errors in zip(found, said)
            if example.learn(errors)
        ]


def check_ops(ops, found):
    """The problems of ops, by their names. Their examples go to `found`."""
    for name, record in ops.items():
        if not record["summary"]:
            yield f"{name}: has no summary"
        text = record["description"].strip()
        if not text:
            yield f"{name}: has no description"
        own = [Example(name, code) for code in examples(text, BLOCK_OR_LINE)]
        if not any(
            re.search(rf"\b{re.escape(name)}\b", one.code) for one in own
        ):
            yield f"{name}: is in no example"
        found += own


def check_examples(found):
    """The problems of examples."""
    parse_all(found)
    for example in found:
        if example.error:
            yield (
                f"{example.name}: example does not parse: {example.error}: "
                f"{example.code.splitlines()[0]}"
            )


def main(root, mlir):
    """Print the problems and return their number."""
    root, problems, passes, ops, found = pathlib.Path(root), [], 0, {}, []
    include = root / "include", root / "dialects", mlir
    for folder in PASSES:
        known = records(root / "include/fuse" / folder / "Passes.td", *include)
        for name in known["!instanceof"].get("PassBase", []):
            passes += 1
            record = known[name]
            problems += check_pass(record)
            found += [
                Example(record["argument"], code)
                for code in examples(record["description"], BLOCK)
                if "..." not in code
            ]
    for name, file in DIALECTS.items():
        known = records(
            root / "dialects" / name / "IR" / f"{file}Ops.td", *include
        )
        for op in known["!instanceof"].get("Op", []):
            dialect = known[known[op]["opDialect"]["def"]]["name"]
            if dialect == name:
                ops[f"{name}.{known[op]['opName']}"] = known[op]
    problems += check_ops(ops, found)
    problems += check_examples(found)
    print("\n".join(problems))
    print(f"{passes} passes and {len(ops)} ops, {len(problems)} problems")
    return len(problems)


sys.exit(main(*sys.argv[1:]) > 0)
