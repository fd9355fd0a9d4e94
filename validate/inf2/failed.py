"""Why a run on a rented machine ended without a verdict."""

from ledger.errors import FoundryError


class RentFailed(FoundryError):  # noqa: N818  (a verdict)
    """No machine, no money or no receipt; the configuration is fine, and another time it may work."""

    exit_code = 1
