"""What schemathesis.toml cannot say."""

import os
import re
import uuid

import schemathesis

ACCESS_TOKEN = os.environ.get("ACCESS_TOKEN")

if ACCESS_TOKEN:
    # Not a header for all requests: checks leave it out to see that it is asked for.
    @schemathesis.auth()
    class Bearer:
        def get(self, case, context):
            return ACCESS_TOKEN

        def set(self, case, data, context):
            case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.hook
def before_call(context, case, kwargs):
    """A key that was used for another request is refused: a sound one has to be new."""
    headers = case.headers or {}
    key = headers.get("Idempotency-Key")
    if isinstance(key, str) and re.fullmatch(r"[\x21-\x7e]{1,255}", key):
        headers["Idempotency-Key"] = str(uuid.uuid4())
