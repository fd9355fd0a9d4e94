"""A local stand-in of the Hugging Face Hub that the unmodified huggingface_hub client talks to.

    with Hub(tmp_path) as hub:
        api = HfApi(endpoint=hub.endpoint, token=hub.token)

It offers no Xet storage: where the client has hf_xet, HF_HUB_DISABLE_XET=1 makes it use LFS.
"""

from tests.hub.access import Account
from tests.hub.faults import DOWNLOAD_SITES, SITES, UPLOAD_SITES, Exchange
from tests.hub.server import Hub

__all__ = ["DOWNLOAD_SITES", "SITES", "UPLOAD_SITES", "Account", "Exchange", "Hub"]
