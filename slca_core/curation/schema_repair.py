"""Tool schemas in older or foreign words, put into JSON Schema's (Draft 2020-12) where they have one plain meaning.

Each repair is named, so that curation can count it. What has no plain meaning is left as it is, for the compiler to refuse.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Any

from slca_core.conversation.schema_bounds import SUBSCHEMA_MAPS, SUBSCHEMAS
from slca_core.curation.type_names import named_type

_JSON_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
# Here null is a value, anywhere else in a schema it is what a table pads absent keywords with.
_MAY_BE_NULL = frozenset({"default", "const", "example"})
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


class Repair(StrEnum):
    """A form that was put into other words."""

    FLAT = "parameters listed without a schema around them"
    TYPE_NAMES = "type names of a programming language"
    REQUIRED = "required as a property's own flag"
    EXCLUSIVE_BOUNDS = "exclusive bounds as flags"
    ITEM_LISTS = "lists of item schemas"
    DEPENDENCIES = "dependencies"
    NULLABLE = "nullable"
    NULL_KEYWORDS = "keywords that are null"
    IDS = "id without a dollar"


def repaired(schema: dict[str, Any], repairs: Counter[str]) -> dict[str, Any]:
    """The schema in today's words; `repairs` counts what was done. One in today's words comes back equal, keys in their order."""
    mended: dict[str, Any] = _node(schema, repairs)
    name = mended.get("id")
    if isinstance(name, str) and "$id" not in mended and name and _refers_to(mended, name):
        mended["$id"] = mended.pop("id")
        repairs[Repair.IDS] += 1
    return mended


def _node(schema: Any, repairs: Counter[str]) -> Any:
    if not isinstance(schema, dict):
        return schema
    node: dict[str, Any] = {}
    for key, value in schema.items():
        if value is None and key not in _MAY_BE_NULL:
            repairs[Repair.NULL_KEYWORDS] += 1
        elif key in SUBSCHEMA_MAPS and isinstance(value, dict):
            node[key] = {name: _node(part, repairs) for name, part in value.items() if part is not None}
            repairs[Repair.NULL_KEYWORDS] += len(value) - len(node[key])
        elif key in SUBSCHEMAS and isinstance(value, list):
            node[key] = [_node(part, repairs) for part in value]
        elif key in SUBSCHEMAS:
            node[key] = _node(value, repairs)
        else:
            node[key] = value
    _lift_required(schema, node, repairs)
    node = _with_standard_type(node, repairs)
    for repair, mend in ((Repair.EXCLUSIVE_BOUNDS, _bounds), (Repair.ITEM_LISTS, _items), (Repair.DEPENDENCIES, _dependencies)):
        repairs[repair] += mend(node)
    repairs[Repair.NULLABLE] += _nullable(node)
    return node


def _lift_required(schema: dict[str, Any], node: dict[str, Any], repairs: Counter[str]) -> None:
    """A property's `required: true` (draft 3) becomes a name in its parent's list."""
    properties = schema.get("properties")
    flags = {name: part["required"] for name, part in _items_of(properties) if isinstance(part.get("required"), bool)}
    listed = node.get("required", [])
    if isinstance(listed, list) and (names := [name for name, flag in flags.items() if flag and name not in listed]):
        node["required"] = [*listed, *names]
    if isinstance(node.get("required"), bool):
        del node["required"]
        repairs[Repair.REQUIRED] += 1


def _items_of(properties: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(name, part) for name, part in properties.items() if isinstance(part, dict)] if isinstance(properties, dict) else []


def _with_standard_type(node: dict[str, Any], repairs: Counter[str]) -> dict[str, Any]:
    kind = node.get("type")
    if isinstance(kind, list):
        found = [named_type(name) if isinstance(name, str) else None for name in kind]
        simple = [part["type"] for part in found if part is not None and part.keys() == {"type"}]
        if len(simple) == len(kind) and simple != kind:
            repairs[Repair.TYPE_NAMES] += 1
            return {**node, "type": simple}
        return node
    if not isinstance(kind, str) or kind in _JSON_TYPES:
        return node
    meant = named_type(kind)
    if meant is None or ("anyOf" in meant and "anyOf" in node):
        return node
    repairs[Repair.TYPE_NAMES] += 1
    mended: dict[str, Any] = {}
    for key, value in node.items():
        mended |= meant if key == "type" else {key: value}
    return mended


def _bounds(node: dict[str, Any]) -> int:
    done = 0
    for exclusive, bound in _BOUNDS:
        flag = node.get(exclusive)
        if flag is False:
            del node[exclusive]
        elif flag is True and isinstance(node.get(bound), int | float):
            node[exclusive] = node.pop(bound)
        else:
            continue
        done += 1
    return done


def _items(node: dict[str, Any]) -> int:
    if not isinstance(node.get("items"), list) or "prefixItems" in node:
        return 0
    node["prefixItems"] = node.pop("items")
    if "additionalItems" in node:
        node["items"] = node.pop("additionalItems")
    return 1


def _dependencies(node: dict[str, Any]) -> int:
    found = node.get("dependencies")
    if not isinstance(found, dict) or {"dependentRequired", "dependentSchemas"} & node.keys():
        return 0
    del node["dependencies"]
    if names := {key: value for key, value in found.items() if isinstance(value, list)}:
        node["dependentRequired"] = names
    if schemas := {key: value for key, value in found.items() if not isinstance(value, list)}:
        node["dependentSchemas"] = schemas
    return 1


def _nullable(node: dict[str, Any]) -> int:
    kind = node.get("type")
    if not isinstance(node.get("nullable"), bool) or not isinstance(kind, str | list):
        return 0
    kinds = kind if isinstance(kind, list) else [kind]
    if node.pop("nullable") and "null" not in kinds:
        node["type"] = [*kinds, "null"]
    return 1


def _refers_to(schema: Any, name: str) -> bool:
    if isinstance(schema, list):
        return any(_refers_to(part, name) for part in schema)
    if not isinstance(schema, dict):
        return False
    reference = schema.get("$ref")
    return (isinstance(reference, str) and reference.startswith(name)) or any(_refers_to(part, name) for part in schema.values())
