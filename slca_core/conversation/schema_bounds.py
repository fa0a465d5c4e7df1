"""How much work a JSON Schema can ask of its validator, told before the validator is asked.

A compiled validator cannot be interrupted: thirty nested pairs of `anyOf` and `$ref` cost it 2**30 steps in one call, and the event
loop stands still for so long. So the work is bounded by counting, and not by a clock: a schema that could ask for too much is
refused before any rollout, and a value that would ask too much of a recursive schema is refused like any value that does not fit.
The same call gets the same verdict on every machine, which matched arms rely on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# A million steps of the compiled validator take about 15 ms.
MAX_STEPS = 2_000_000
MAX_DEPTH = 100  # levels of a schema, references followed
MAX_CHARACTERS = 1_000_000  # of a schema as JSON
_CHEAP = 100  # expanded nodes below which no value of a possible call costs anything
_MAX_PAIRS = 50_000  # (schema, value) pairs looked at in estimating one check

SUBSCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
SUBSCHEMAS = frozenset(
    {
        *("items", "prefixItems", "contains", "unevaluatedItems"),
        *("additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("not", "if", "then", "else", "anyOf", "oneOf", "allOf"),
    }
)
_SAME_VALUE = ("not", "if", "then", "else", "anyOf", "oneOf", "allOf")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class UnboundedSchema(ValueError):
    """The schema refers to what is not in it, to itself without end, or expands beyond the bounds; the message says which."""


@dataclass(frozen=True)
class Bounds:
    """A schema's references, resolved, and the size to which it expands.

    Attributes:
        expanded: nodes with all references written out; None for a recursive schema, whose size follows from the value.
    """

    root: Any
    expanded: int | None
    _anchors: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, schema: Any) -> Bounds:
        """UnboundedSchema if the schema cannot be bounded."""
        anchors, nested_ids, refers = _survey(schema)
        if nested_ids and refers:
            raise UnboundedSchema("a nested $id changes what its references mean; write them as #/... from the root")
        bounds = cls(schema, None, anchors)
        return cls(schema, _Expansion(bounds).size(schema), anchors)

    def affords(self, value: Any) -> bool:
        """Whether checking `value` stays below MAX_STEPS."""
        if self.expanded is not None and (self.expanded <= _CHEAP or self.expanded * _node_count(value) <= MAX_STEPS):
            return True
        try:
            return _Steps(self).of(self.root, value) <= MAX_STEPS
        except (UnboundedSchema, RecursionError):
            return False

    def on_same_value(self, schema: Any) -> Iterator[Any]:
        """The schemas that are applied to the very value `schema` is applied to."""
        if not isinstance(schema, dict):
            return
        for keyword in _REFERENCES:
            if keyword in schema:
                yield self._target(schema[keyword])
        for keyword in _SAME_VALUE:
            if keyword in schema:
                yield from _listed(schema[keyword])
        yield from _values(schema.get("dependentSchemas"))

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str):
            raise UnboundedSchema(f"a reference is {reference!r}, not text")
        base = self.root.get("$id", "") if isinstance(self.root, dict) else ""
        local = reference.removeprefix(base) if isinstance(base, str) and base else reference
        if local.startswith("#") and not local.startswith("#/") and local[1:] in self._anchors:
            return self._anchors[local[1:]]
        if local not in ("", "#") and not local.startswith("#/"):
            raise UnboundedSchema(f"{reference!r} refers to another document, and nothing is fetched")
        node = self.root
        for part in local.removeprefix("#").split("/")[1:]:
            node = _step(node, part.replace("~1", "/").replace("~0", "~"), reference)
        return node


def _step(node: Any, part: str, reference: str) -> Any:
    if isinstance(node, dict) and part in node:
        return node[part]
    if isinstance(node, list) and part.isdecimal() and int(part) < len(node):
        return node[int(part)]
    raise UnboundedSchema(f"{reference!r} refers to nothing in the definition")


def _below(schema: Any) -> Iterator[Any]:
    """The schemas that are applied to what lies inside the value."""
    if not isinstance(schema, dict):
        return
    for keyword in ("properties", "patternProperties"):
        yield from _values(schema.get(keyword))
    for keyword in (
        *("items", "prefixItems", "contains", "unevaluatedItems"),
        *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    ):
        if keyword in schema:
            yield from _listed(schema[keyword])


def _survey(schema: Any) -> tuple[dict[str, Any], bool, bool]:
    """(schemas by anchor, whether one inside has an $id, whether any refers), seen wherever schemas stand."""
    anchors: dict[str, Any] = {}
    nested_ids = refers = False
    level, depth = [schema], 0
    while level:
        if (depth := depth + 1) > MAX_DEPTH:
            raise UnboundedSchema(f"it is nested more than {MAX_DEPTH} levels deep")
        below: list[Any] = []
        for node in level:
            if not isinstance(node, dict):
                continue
            anchors |= {node[keyword]: node for keyword in ("$anchor", "$dynamicAnchor") if isinstance(node.get(keyword), str)}
            nested_ids |= "$id" in node and node is not schema
            refers |= any(keyword in node for keyword in _REFERENCES)
            below += [part for keyword in SUBSCHEMA_MAPS & node.keys() for part in _values(node[keyword])]
            below += [part for keyword in SUBSCHEMAS & node.keys() for part in _listed(node[keyword])]
        level = below
    return anchors, nested_ids, refers


class _Expansion:
    """Counts a schema's nodes with every reference written out."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._known: dict[int, tuple[int, int]] = {}
        self._open: dict[int, int] = {}
        self._recursive = False

    def size(self, schema: Any) -> int | None:
        size, _ = self._visit(schema, inside=0)
        return None if self._recursive else size

    def _visit(self, schema: Any, inside: int) -> tuple[int, int]:
        """(nodes, height); `inside` counts how far into the value the walk has gone."""
        key = id(schema)
        if key in self._open:
            if self._open[key] == inside:
                raise UnboundedSchema("a reference leads back to itself without going into the value")
            self._recursive = True
            return 0, 0
        if key in self._known:
            return self._known[key]
        if len(self._open) > MAX_DEPTH:
            raise UnboundedSchema(f"it is nested more than {MAX_DEPTH} levels deep, references followed")
        self._open[key] = inside
        visited = [self._visit(part, inside) for part in self._bounds.on_same_value(schema)]
        visited += [self._visit(part, inside + 1) for part in _below(schema)]
        del self._open[key]
        # Keywords that look at what their neighbours left over go through those again.
        again = 2 if isinstance(schema, dict) and {"unevaluatedProperties", "unevaluatedItems"} & schema.keys() else 1
        size, height = 1 + again * sum(count for count, _ in visited), 1 + max((high for _, high in visited), default=0)
        if size > MAX_STEPS:
            raise UnboundedSchema(f"it expands to more than {MAX_STEPS:,} schemas, references written out")
        if height > MAX_DEPTH:
            raise UnboundedSchema(f"it is nested more than {MAX_DEPTH} levels deep, references followed")
        self._known[key] = size, height
        return size, height


class _Steps:
    """An upper bound of the steps of one check, each pair of schema and value looked at once."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._known: dict[tuple[int, int], int] = {}

    def of(self, schema: Any, value: Any) -> int:
        key = (id(schema), id(value))
        if key in self._known:
            return self._known[key]
        if len(self._known) >= _MAX_PAIRS:
            raise UnboundedSchema("too many pairs of schema and value")
        self._known[key] = 0
        count = 1 + sum(self.of(part, value) for part in self._bounds.on_same_value(schema))
        if isinstance(schema, dict) and isinstance(value, dict):
            for name, child in value.items():
                count += sum(self.of(part, child) for part in _for_key(schema, name))
                count += self.of(schema["propertyNames"], name) if "propertyNames" in schema else 0
        elif isinstance(schema, dict) and isinstance(value, list):
            for place, child in enumerate(value):
                count += sum(self.of(part, child) for part in _for_place(schema, place))
        again = 2 if isinstance(schema, dict) and {"unevaluatedProperties", "unevaluatedItems"} & schema.keys() else 1
        self._known[key] = min(again * count, MAX_STEPS + 1)
        return self._known[key]


def _for_key(schema: dict[str, Any], name: str) -> Iterator[Any]:
    properties = schema.get("properties")
    known = name in properties if isinstance(properties, dict) else False
    if known:
        yield schema["properties"][name]
    yield from _values(schema.get("patternProperties"))
    for keyword in ("unevaluatedProperties", *(() if known else ("additionalProperties",))):
        if keyword in schema:
            yield schema[keyword]


def _for_place(schema: dict[str, Any], place: int) -> Iterator[Any]:
    prefix = schema.get("prefixItems")
    prefix = prefix if isinstance(prefix, list) else []
    if place < len(prefix):
        yield prefix[place]
    elif "items" in schema:
        yield schema["items"]
    for keyword in ("contains", "unevaluatedItems"):
        if keyword in schema:
            yield schema[keyword]


def _node_count(value: Any) -> int:
    count, level = 1, [value]
    while level := [node for node in level if isinstance(node, (dict, list))]:
        level = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
        count += len(level)
    return count


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
