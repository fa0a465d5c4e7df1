"""What settings may ask of the YAML reader: no more depth and no more values than a study has, aliases counted as written out.

A reader that recurses dies of depth, and a few aliases of aliases stand for billions of values. Both are seen in the stream of
events, before anything is built.
"""

from __future__ import annotations

import yaml

MAX_DEPTH, MAX_VALUES = 50, 20_000
_ENDS = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


class Unbounded(yaml.YAMLError):
    """A YAML text nests deeper, or stands for more values, than any study."""


class NoValue(yaml.MarkedYAMLError):
    """A text looks like a number or a date, or is said to be one, and is none."""

    def __init__(self, mark: yaml.Mark) -> None:
        super().__init__(
            problem="a number or a date was expected, it is none; a text that looks like one goes in quotes", problem_mark=mark
        )


def bounded(text: str) -> str:
    """The text itself; Unbounded if it nests or unfolds beyond all measure, another YAMLError if it is not YAML."""
    sizes: dict[str | None, int] = {}
    opened: list[tuple[str | None, int]] = []  # Anchor of each collection that is open, and how many values came before it.
    values = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in {anchor for anchor, _ in opened}:
                raise Unbounded(f"an alias in {_place(event)} stands within itself")
            values += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, values))
            values += 1
            if len(opened) > MAX_DEPTH:
                raise Unbounded(f"it is nested more than {MAX_DEPTH} deep in {_place(event)}")
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
        elif isinstance(event, _ENDS):
            anchor, before = opened.pop()
            if anchor:
                sizes[anchor] = values - before
        if values > MAX_VALUES:
            raise Unbounded(f"it stands for more than {MAX_VALUES:,} values, aliases counted as written out, in {_place(event)}")
    return text


def fault(error: Exception) -> str:
    """Where a text is not YAML, and why, without any of it: what PyYAML and Python say repeats parts that may be secrets."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return (f"line {mark.line + 1}, column {mark.column + 1}: " if mark else "") + _problem(error)


def _problem(error: Exception) -> str:
    match error:
        case Unbounded():
            return str(error)
        case NoValue():
            return str(error.problem)
        case yaml.scanner.ScannerError() | yaml.parser.ParserError() if "tag" not in str(error.problem):
            return str(error.problem)  # It names characters and kinds of tokens.
        case yaml.composer.ComposerError():
            return "an alias without an anchor, or an anchor that two have; a text that begins with * or & goes in quotes"
        case yaml.reader.ReaderError():
            return f"character {error.position + 1} is none that YAML has"
        case yaml.MarkedYAMLError():
            return "a key, or a tag, that no setting has; a text that begins with ! goes in quotes"
        case UnicodeDecodeError():
            return f"it is not UTF-8 from byte {error.start + 1} on"
        case _:
            return type(error).__name__


def _place(event: yaml.Event) -> str:
    return f"line {event.start_mark.line + 1}" if event.start_mark else "some line"
