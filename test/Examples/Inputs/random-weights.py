"""Writes a checkpoint with random bf16 parameters for the IR of a model."""

import json
import random
import re
import struct
import sys

MODULE = re.compile(r'nn\.module @"?([^" ]+)"? class')
PARAMETER = re.compile(r"nn\.parameter @(\w+) : tensor<([0-9x]+)xbf16>")


def main(source, output):
    draw = random.Random(0)
    path, header, data = [], {}, b""
    with open(source, encoding="utf-8") as file:
        for line in file:
            if module := MODULE.search(line):
                depth = (len(line) - len(line.lstrip())) // 2 - 2
                path = path[:depth] + [module.group(1)]
            if parameter := PARAMETER.search(line):
                shape = [int(n) for n in parameter.group(2).split("x")]
                count = 1
                for size in shape:
                    count *= size
                # The upper half of an f32 is a bf16.
                raw = b"".join(
                    struct.pack("<f", draw.gauss(0, 0.1))[2:]
                    for _ in range(count)
                )
                header[".".join(path + [parameter.group(1)])] = {
                    "dtype": "BF16",
                    "shape": shape,
                    "data_offsets": [len(data), len(data) + len(raw)],
                }
                data += raw
    text = json.dumps(header).encode()
    with open(output, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


main(*sys.argv[1:])
