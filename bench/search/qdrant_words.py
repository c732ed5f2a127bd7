"""Sparse vectors in Qdrant's engine, with its own idf: a line of JSON in, a line out. {"points": [...]}, {"ready": true}, {"query": ...}."""

import json
import sys
import tempfile
import time

import qdrant_edge as engine


def main() -> None:
    params = engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf)
    with tempfile.TemporaryDirectory() as folder:
        shard = engine.EdgeShard.create(folder, engine.EdgeConfig(sparse_vectors={"words": params}))
        shard.update(engine.UpdateOperation.create_field_index("acl", engine.PayloadSchemaType.Keyword))
        for line in sys.stdin:
            print(json.dumps(answer(shard, json.loads(line))), flush=True)
        shard.close()


def answer(shard: engine.EdgeShard, asked: dict) -> dict:
    if "points" in asked:
        points = [
            engine.Point(id=of["id"], vector={"words": sparse(of)}, payload={"acl": of["acl"]})
            for of in asked["points"]
        ]
        shard.update(engine.UpdateOperation.upsert_points(points))
        return {}
    if "ready" in asked:
        shard.optimize()
        return {}
    request = engine.QueryRequest(
        query=engine.Query.Nearest(sparse(asked["query"]), using="words"),
        filter=engine.Filter(must=[engine.FieldCondition(key="acl", match=engine.MatchAny(any=asked["acl"]))]),
        limit=asked["limit"],
    )
    start = time.perf_counter()
    hits = shard.query(request)
    return {"ms": (time.perf_counter() - start) * 1000, "ids": [str(hit.id) for hit in hits]}


def sparse(of: dict) -> engine.SparseVector:
    return engine.SparseVector(indices=of["indices"], values=of["values"])


main()
