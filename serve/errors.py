"""The one error a user of an artifact meets: a sentence that says what is wrong and what is accepted."""


class ServeError(Exception):
    """Bad artifact, bad request or a host that cannot run it; ``str(error)`` is one sentence for a person."""

    exit_code = 2
