"""A collection: a qdrant-edge shard in its own folder, beside the settings of the collection."""

import json
import threading
from pathlib import Path
from typing import Any

import qdrant_edge as engine
import translate
from problem import Problem, bad_request, missing, unsupported

Json = dict[str, Any]
Update = engine.UpdateOperation

DISTANCES = {"Cosine": engine.Distance.Cosine, "Dot": engine.Distance.Dot, "Euclid": engine.Distance.Euclid}
SETTINGS = "collection.json"
# No HNSW graph: `optimize` would hold Python's GIL for seconds to build it. Searches scan the filtered vectors.
NO_GRAPH = engine.HnswIndexConfig(m=0, ef_construct=4, full_scan_threshold=0)


class Collection:
    def __init__(self, folder: Path) -> None:
        self.settings: Json = json.loads((folder / SETTINGS).read_text())
        self.folder = folder
        self.shard = engine.EdgeShard.load(str(folder / "shard"))
        self.is_dirty = False
        self.is_closed = False
        # qdrant-edge takes one update at a time, and a closed shard must not be updated.
        self.lock = threading.Lock()

    @staticmethod
    def create(folder: Path, settings: Json) -> "Collection":
        vectors = settings.get("vectors") or {}
        if not isinstance(vectors.get("size"), int) or vectors.get("distance") not in DISTANCES:
            raise unsupported("collections without exactly one vector with a size and a distance")
        translate.refuse_others(settings, {"vectors", "hnsw_config", "optimizers_config", "strict_mode_config"}, "collections")
        params = engine.EdgeVectorParams(size=vectors["size"], distance=DISTANCES[vectors["distance"]])
        engine.EdgeShard.create(str(folder / "shard"), engine.EdgeConfig(vectors=params, hnsw_config=NO_GRAPH)).close()
        # Written last: a folder without the settings file is removed at the next start.
        (folder / SETTINGS).write_text(json.dumps(settings))
        return Collection(folder)

    def info(self) -> Json:
        info = self.shard.info()
        return {
            "status": "green",
            "optimizer_status": "ok",
            "indexed_vectors_count": info.indexed_vectors_count,
            "points_count": info.points_count,
            "segments_count": info.segments_count,
            "config": {
                "params": {"vectors": self.settings["vectors"]},
                "hnsw_config": self.settings.get("hnsw_config") or {},
                "optimizer_config": self.settings.get("optimizers_config") or {},
                "strict_mode_config": self.settings.get("strict_mode_config"),
            },
            "payload_schema": {
                name: {"data_type": str(of.data_type).rpartition(".")[2].lower(), "points": of.points}
                for name, of in info.payload_schema.items()
            },
        }

    def change(self, changes: Json) -> bool:
        translate.refuse_others(changes, {"strict_mode_config"}, "changes of a collection")
        self.settings["strict_mode_config"] = changes.get("strict_mode_config")
        draft = self.folder / f"{SETTINGS}.new"
        draft.write_text(json.dumps(self.settings))
        draft.replace(self.folder / SETTINGS)
        return True

    def create_index(self, body: Json) -> Json:
        return self.update(Update.create_field_index(body["field_name"], translate.index(body["field_schema"])))

    def upsert(self, body: Json) -> Json:
        translate.refuse_others(body, {"points", "update_filter"}, "upserts")
        points = [translate.point(one) for one in body["points"]]
        for one in body["points"]:
            self.require_size(one["vector"])
        return self.update(Update.upsert_points(points, condition=self.filter(body.get("update_filter"), "update")))

    def set_payload(self, body: Json) -> Json:
        translate.refuse_others(body, {"payload", "points", "filter"}, "changes of payload")
        if body.get("filter") is not None:
            return self.update(Update.set_payload_by_filter(self.filter(body["filter"], "update"), body["payload"]))
        return self.update(Update.set_payload([translate.point_id(one) for one in body["points"]], body["payload"]))

    def delete(self, body: Json) -> Json:
        translate.refuse_others(body, {"points", "filter"}, "deletions")
        if body.get("filter") is not None:
            return self.update(Update.delete_points_by_filter(self.filter(body["filter"], "update")))
        return self.update(Update.delete_points([translate.point_id(one) for one in body["points"]]))

    def update(self, operation: engine.UpdateOperation) -> Json:
        with self.lock:
            if self.is_closed:
                raise missing(self.folder.name)
            self.shard.update(operation)
            self.is_dirty = True
        return {"operation_id": 0, "status": "completed"}

    def retrieve(self, body: Json) -> list[Json]:
        ids = [translate.point_id(one) for one in body["ids"]]
        wanted = (translate.selector(body.get("with_payload", True)), bool(body.get("with_vector")))
        return [translate.record(one) for one in self.shard.retrieve(ids, *wanted)]

    def count(self, body: Json) -> Json:
        request = engine.CountRequest(exact=body.get("exact", True), filter=self.filter(body.get("filter")))
        return {"count": self.shard.count(request)}

    def scroll(self, body: Json) -> Json:
        translate.refuse_others(body, {"filter", "limit", "offset", "with_payload", "with_vector"}, "scrolling")
        offset = body.get("offset")
        request = engine.ScrollRequest(
            offset=None if offset is None else translate.point_id(offset),
            limit=body.get("limit") or 10,
            filter=self.filter(body.get("filter")),
            with_payload=translate.selector(body.get("with_payload", True)),
            with_vector=bool(body.get("with_vector")),
        )
        points, following = self.shard.scroll(request)
        next_offset = following if following is None or isinstance(following, int) else str(following)
        return {"points": [translate.record(one) for one in points], "next_page_offset": next_offset}

    def query(self, body: Json) -> Json:
        known = {"query", "filter", "limit", "offset", "score_threshold", "with_payload", "with_vector", "params"}
        translate.refuse_others(body, known, "queries")
        vector = translate.nearest(body.get("query"))
        self.require_size(vector)
        request = engine.QueryRequest(
            query=engine.Query.Nearest(vector),
            filter=self.filter(body.get("filter")),
            limit=body.get("limit") or 10,
            offset=body.get("offset"),
            score_threshold=body.get("score_threshold"),
            with_payload=translate.selector(body.get("with_payload")),
            with_vector=bool(body.get("with_vector")),
        )
        return {"points": [translate.record(one) for one in self.shard.query(request)]}

    def filter(self, body: Json | None, use: str = "retrieve") -> engine.Filter | None:
        strict = self.settings.get("strict_mode_config") or {}
        if strict.get("enabled") and strict.get(f"unindexed_filtering_{use}") is False:
            for key in sorted(translate.filtered_keys(body) - self.shard.info().payload_schema.keys()):
                message = f'Bad request: Index required but not found for "{key}". Help: Create an index for this key.'
                raise Problem(400, message)
        return translate.query_filter(body)

    def require_size(self, vector: list[float]) -> None:
        size = self.settings["vectors"]["size"]
        if len(vector) != size:
            raise bad_request(f"Vector dimension error: expected dim: {size}, got {len(vector)}")

    def flush(self) -> None:
        """Does nothing if the collection was deleted after the caller listed it."""
        with self.lock:
            if self.is_dirty and not self.is_closed:
                self.shard.flush()
                self.is_dirty = False

    def close(self) -> None:
        with self.lock:
            self.is_closed = True
            self.shard.close()
