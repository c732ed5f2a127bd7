"""Translates between the JSON of Qdrant's REST API and objects of qdrant-edge."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import qdrant_edge as engine
from problem import bad_request, unsupported

Json = dict[str, Any]

INDEXES: dict[str, Callable[..., object]] = {
    "keyword": engine.KeywordIndexParams,
    "integer": engine.IntegerIndexParams,
    "float": engine.FloatIndexParams,
    "uuid": engine.UuidIndexParams,
    "datetime": engine.DatetimeIndexParams,
}


def point_id(value: object) -> int | UUID:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    try:
        return UUID(value)  # type: ignore[arg-type]
    except (ValueError, AttributeError, TypeError):
        raise bad_request(f"{value!r} is neither an unsigned integer nor a UUID") from None


def vector(value: object) -> list[float]:
    # qdrant-edge validates the other numbers: checking each in Python would take longer than storing them.
    if isinstance(value, list) and value and isinstance(value[0], (int, float)):
        return value
    raise unsupported("vectors that are not one list of numbers")


def point(body: Json) -> engine.Point:
    return engine.Point(id=point_id(body["id"]), vector=vector(body["vector"]), payload=body.get("payload") or {})


def index(schema: str | Json) -> object:
    params = {"type": schema} if isinstance(schema, str) else dict(schema)
    kind = params.pop("type", None)
    if kind not in INDEXES:
        raise unsupported(f"the index type {kind!r}")
    try:
        return INDEXES[kind](**params)
    except TypeError as error:
        raise unsupported(f"an index with these parameters: {error}") from None


def query_filter(body: Json | None) -> engine.Filter | None:
    if body is None:
        return None
    refuse_others(body, {"must", "should", "must_not"}, "filter clauses")
    clauses = {name: [condition(one) for one in as_list(clause)] for name, clause in body.items() if clause is not None}
    return engine.Filter(**clauses)


def condition(body: Json) -> object:
    if "is_empty" in body:
        return engine.IsEmptyCondition(body["is_empty"]["key"])
    if "has_id" in body:
        return engine.HasIdCondition({point_id(one) for one in body["has_id"]})
    if "key" in body:
        refuse_others(body, {"key", "match", "range"}, "conditions")
        if body.get("match") is not None:
            return engine.FieldCondition(key=body["key"], match=match(body["match"]))
        if body.get("range") is not None:
            refuse_others(body["range"], {"gt", "gte", "lt", "lte"}, "ranges")
            return engine.FieldCondition(key=body["key"], range=engine.RangeFloat(**body["range"]))
    if body.keys() <= {"must", "should", "must_not"}:
        return query_filter(body)
    raise unsupported(f"conditions with {', '.join(sorted(body))}")


def match(body: Json) -> object:
    if "value" in body:
        # The Python binding of qdrant-edge would treat a boolean as a number.
        if isinstance(body["value"], bool):
            raise unsupported("matching booleans")
        return engine.MatchValue(value=body["value"])
    if "any" in body:
        return engine.MatchAny(any=body["any"])
    if "except" in body:
        return engine.MatchExcept(body["except"])
    raise unsupported(f"matching by {', '.join(sorted(body))}")


def filtered_keys(body: Json | None) -> set[str]:
    """Returns the names of the payload fields that a filter reads."""
    keys: set[str] = set()
    for clause in (body or {}).values():
        for one in as_list(clause or []):
            if "key" in one or "is_empty" in one:
                keys.add(one.get("key") or one["is_empty"]["key"])
            elif "has_id" not in one:
                keys |= filtered_keys(one)
    return keys


def nearest(query: object) -> list[float]:
    return vector(query["nearest"] if isinstance(query, dict) and "nearest" in query else query)


def selector(wanted: object) -> object:
    if isinstance(wanted, dict):
        refuse_others(wanted, {"include"}, "payload selectors")
        wanted = wanted["include"]
    return engine.PayloadSelector.Include(wanted) if isinstance(wanted, list) else bool(wanted)


def record(one: Any) -> Json:
    """Converts a point to JSON, with a score if it is the result of a query."""
    shown: Json = {"id": one.id if isinstance(one.id, int) else str(one.id)}
    if isinstance(one, engine.ScoredPoint):
        shown |= {"version": one.version, "score": one.score}
    if one.payload is not None:
        shown["payload"] = one.payload
    if one.vector is not None:
        shown["vector"] = one.vector
    return shown


def as_list(clause: object) -> list:
    return clause if isinstance(clause, list) else [clause]


def refuse_others(body: Json, known: set[str], what: str) -> None:
    others = {name for name, value in body.items() if value is not None} - known
    if others:
        raise unsupported(f"{what} with {', '.join(sorted(others))}")
