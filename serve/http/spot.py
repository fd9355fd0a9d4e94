"""EC2 says two minutes ahead, in the instance metadata, that it takes a spot instance back (IMDSv2)."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

from serve.http.log import event

_TOKEN_SECONDS = 21600
_PATIENCE = 2.0  # seconds for one call
# The metadata service is on the machine itself: no proxy leads there.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class SpotNotices:
    """Polls the metadata service at `address`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._token = ""

    async def wait(self, seconds: float) -> str:
        """Poll every `seconds` until there is a notice; its text. A service that does not answer is asked again."""
        silent = False
        while True:
            try:
                notice = await asyncio.to_thread(self.look)
                silent = False
            except OSError as error:
                notice = None
                if not silent:
                    event("spot_unreachable", address=self._address, error=str(error))
                silent = True
            if notice is not None:
                return notice
            await asyncio.sleep(seconds)

    def look(self) -> str | None:
        """The notice, if there is one; OSError when the service does not answer."""
        if not self._token:
            self._token = self._call("PUT", "/latest/api/token", "ttl-seconds", str(_TOKEN_SECONDS))
        try:
            return self._call("GET", "/latest/meta-data/spot/instance-action", "", self._token)
        except urllib.error.HTTPError as error:
            if error.code == 401:
                self._token = ""  # it has expired; the next look fetches another
            elif error.code != 404:  # 404: no notice
                raise
            return None

    def _call(self, method: str, path: str, header: str, value: str) -> str:
        name = "x-aws-ec2-metadata-token" + (f"-{header}" if header else "")
        request = urllib.request.Request(self._address + path, method=method, headers={name: value})
        with _opener.open(request, timeout=_PATIENCE) as response:
            text: str = response.read(10_000).decode(errors="replace")
        return text
