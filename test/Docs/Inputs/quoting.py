"""Pages of the documentation, and numbers on them that a file has."""

import json
import re
from decimal import Decimal

NUMBER = r"[-+]?[0-9][0-9,]*(?:\.[0-9]+)?"


def number(text):
    return float(text.replace(",", ""))


def is_rounded(text, value):
    """Whether `text` is `value` with fewer digits."""
    digits = max(0, -Decimal(text.replace(",", "")).as_tuple().exponent)
    return abs(number(text) - value) <= 0.5000001 * 10.0 ** -digits


def rounded(text, value):
    """`value` with the digits that `text` has."""
    digits = max(0, -Decimal(text.replace(",", "")).as_tuple().exponent)
    sign = "+" if text.startswith("+") else ""
    return f"{value:{sign}{',' if ',' in text else ''}.{digits}f}"


def one(rows, **wanted):
    """The row with these values, or none."""
    return next((row for row in rows
                 if all(row.get(key) == wanted[key] for key in wanted)), None)


class Cell(str):
    """Text that knows where on its page it is."""

    start = None

    @classmethod
    def at(cls, text, start):
        cell = cls(text)
        cell.start = start
        return cell

    def split(self, separator=None):
        if separator is None:
            return str.split(self)
        parts, place = [], self.start
        for part in str.split(self, separator):
            parts.append(Cell.at(part, place))
            place += len(part) + len(separator)
        return parts


class Page:
    """A page, the file that it quotes, and what is wrong."""

    def __init__(self, root, page, result):
        self.name, self.file = page, f"{result}.json"
        self.text = (root / page).read_text()
        self.result = json.loads(
            (root / "benchmarks" / "results" / self.file).read_text())
        self.problems = []
        self.edits = {}

    def write(self, root):
        """Has numbers that are wrong be right."""
        text = self.text
        for start, (old, new) in sorted(self.edits.items(), reverse=True):
            text = text[:start] + new + text[start + len(old):]
        (root / self.name).write_text(text)

    def fail(self, what):
        self.problems.append(f"{self.name}: {what}")

    def rows(self, *columns):
        """The rows of the table that begins with these columns, as a
        dictionary from the heading; cells without a text continue the row
        above."""
        lines = re.finditer(r"^.*$", self.text, re.MULTILINE)
        for line in lines:
            heading = self.cells(line)
            if heading[:len(columns)] == list(columns):
                break
        else:
            self.fail(f"no table begins with {', '.join(columns)}")
            return
        next(lines)
        above = {}
        for line in lines:
            if not line[0].startswith("|"):
                # Markdown ends the table there; what follows is not read.
                if not line[0] and next(lines, " ")[0].startswith("|"):
                    self.fail("an empty line cuts the table that begins with "
                              f"{', '.join(columns)}")
                return
            row = dict(zip(heading, self.cells(line)))
            above = {key: row[key] or above.get(key, "") for key in row}
            yield above if not row[heading[0]] else row

    @staticmethod
    def cells(line):
        return [Cell.at(cell.strip(),
                        cell.start + len(cell) - len(cell.lstrip()))
                for cell in Cell.at(line[0][1:-1], line.start() + 1).split("|")]

    def check(self, what, text, value):
        found = re.match(NUMBER, text)
        if not found:
            if value is not None and text:
                self.fail(f"{what} is no number: '{text}'")
        elif value is None:
            self.fail(f"nothing says what {what} is, {found[0]}")
        elif not is_rounded(found[0], value):
            self.fail(f"{what} is {found[0]}, {self.file} says {value:.4g}")
            if getattr(text, "start", None) is not None:
                self.edits[text.start] = found[0], rounded(found[0], value)

    def word(self, what, text, value):
        """A cell that is a name and no number."""
        if text != value:
            self.fail(f"{what} is {text}, {self.file} says {value}")
            self.edits[text.start] = text, value

    def says(self, text):
        """Words that hold for the file, such as a commit."""
        if not self.find(text, self.text):
            self.fail(f"nothing says '{text}'")

    def check_rows(self, seen, wanted):
        for key in sorted(set(map(str, wanted)) - set(map(str, seen))):
            self.fail(f"no row of {key}, which {self.file} has")

    @staticmethod
    def find(text, where):
        """`text`, which has a # for each number, in another text."""
        words = [re.escape(word).replace(r"\#", f"({NUMBER})")
                 for word in text.split()]
        return re.search(r"\s+".join(words), where)

    def quoted(self, key, text):
        """The numbers of a sentence of the file itself."""
        found = self.find(text, self.result[key])
        if not found:
            self.fail(f"'{key}' of {self.file} does not say '{text}'")
        return [number(group) for group in found.groups()] if found else []

    def sentence(self, text, *values):
        """`text` has a # for each number."""
        found = self.find(text, self.text)
        if not found:
            self.fail(f"nothing says '{text}'")
            return
        if len(values) != len(found.groups()):
            self.fail(f"{self.file} has {len(values)} numbers for '{text}'")
        for i, value in enumerate(values[:len(found.groups())], 1):
            self.check(f"number {i} of '{text}'",
                       Cell.at(found[i], found.start(i)), value)
