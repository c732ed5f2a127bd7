"""Stores each collection in a folder with the name of the collection."""

import re
import shutil
import threading
from pathlib import Path
from typing import Any

from collection import SETTINGS, Collection
from problem import Problem, bad_request, missing

# Qdrant's rule for collection names, also against path traversal.
NAME = re.compile(r'(?!\.)[^<>:"/\\|?*\x00-\x1f]{1,255}')


class CollectionsFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self.collections: dict[str, Collection] = {}
        for each in folder.iterdir():
            if (each / SETTINGS).exists():
                self.collections[each.name] = Collection(each)
            else:
                # Left by a crash while the collection was created or deleted.
                shutil.rmtree(each)

    def names(self) -> list[str]:
        return sorted(self.collections)

    def get(self, name: str) -> Collection:
        collection = self.collections.get(name)
        if collection is None:
            raise missing(name)
        return collection

    def create(self, name: str, settings: dict[str, Any]) -> bool:
        if not NAME.fullmatch(name):
            raise bad_request(f"{name!r} is not a valid collection name")
        with self.lock:
            if name in self.collections:
                raise Problem(409, f"Wrong input: Collection `{name}` already exists!")
            self.collections[name] = Collection.create(self.folder / name, settings)
        return True

    def delete(self, name: str) -> bool:
        with self.lock:
            collection = self.collections.pop(name, None)
            if collection is None:
                return False
            collection.close()
            (collection.folder / SETTINGS).unlink()
            shutil.rmtree(collection.folder)
        return True

    def flush(self) -> None:
        for collection in list(self.collections.values()):
            collection.flush()

    def close(self) -> None:
        for collection in self.collections.values():
            collection.flush()
            collection.close()
