"""Errors that are returned to the client."""


class Problem(Exception):
    """An HTTP error in the shape of the Qdrant server's errors."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def bad_request(message: str) -> Problem:
    return Problem(400, f"Wrong input: {message}")


def missing(collection: str) -> Problem:
    return Problem(404, f"Not found: Collection `{collection}` doesn't exist!")


def unsupported(what: str) -> Problem:
    return Problem(400, f"Bad request: this facade does not know {what}. The Qdrant server does.")
