"""Validates manifests against the definitions of their types; a field that is not defined is an error.

Usage: python custom_type.py DEFINITION MANIFEST
"""

import sys

import jsonschema
import yaml


def strict(schema):
    """The schema without additional fields, as the API server prunes them."""
    if not isinstance(schema, dict):
        return schema
    schema = {
        name: part if name in ("default", "enum") else walk(part)
        for name, part in schema.items()
    }
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    if schema.pop("x-kubernetes-int-or-string", False):
        schema.pop("type", None)
    return schema


def walk(part):
    if isinstance(part, list):
        return [strict(one) for one in part]
    return strict(part)


definition, manifest = (yaml.safe_load(open(path)) for path in sys.argv[1:])
group = definition["spec"]["group"]
version = next(one for one in definition["spec"]["versions"] if one["storage"])
assert manifest["apiVersion"] == f"{group}/{version['name']}", manifest["apiVersion"]
assert manifest["kind"] == definition["spec"]["names"]["kind"], manifest["kind"]
schema = strict(version["schema"]["openAPIV3Schema"])
schema["properties"]["metadata"] = {"type": "object"}
# Without a check of the schema itself, whose patterns are Go's.
jsonschema.Draft4Validator(schema).validate(manifest)
