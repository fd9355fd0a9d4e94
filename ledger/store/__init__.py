"""The store of build products: a folder of this machine, or a bucket that many machines share.

local.py    the folder, and the interface that every stage sees
shared.py   the same with a bucket behind it
remote.py   the bucket: all that is known of S3
opening.py  which of them a location names
"""

from ledger.store.local import ObjectWriter, Ref, Store
from ledger.store.opening import open_store

__all__ = ["ObjectWriter", "Ref", "Store", "open_store"]
