"""Keeps one private key for each task and window, made when it is first needed and emptied when it is not any more.

Servers of one database have the same keys. A stolen database makes tokens for the windows of now, and for no other.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from alcove.platform.issuer.patience import write_patiently
from alcove.platform.store import Store
from alcove.platform.store.issuance import StoredKey, add_issuer_key, find_issuer_key, retire_issuer_keys
from alcove.privacy.entropy import Entropy
from alcove.privacy.tokens import Issuer
from alcove.privacy.tokens.blind_rsa import EXPONENT, Arithmetic
from alcove.privacy.tokens.privacy_pass import KEY_BITS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["IssuerKeys"]

KEPT: Final = 256  # keys in memory


class IssuerKeys:
    """The private keys.

    Args:
        store: where they are.
        entropy: hides what is signed.
        arithmetic: computes.
        list_tasks: returns, in a transaction, the ids in DAP of the tasks of which tokens are made.
    """

    def __init__(
        self,
        store: Store,
        entropy: Entropy,
        arithmetic: Arithmetic,
        list_tasks: Callable[[AsyncSession], Awaitable[Collection[bytes]]],
    ) -> None:
        self._list_tasks = list_tasks
        self._store = store
        self._entropy = entropy
        self._arithmetic = arithmetic
        self._kept: OrderedDict[tuple[bytes, int], Issuer] = OrderedDict()
        self._making = asyncio.Lock()

    async def find(self, task_id: bytes, time: int, *, oldest: int) -> Issuer | None:
        """Return the key of a task and time, made now if there is none; None: it was emptied.

        Args:
            task_id: of the task, in DAP.
            time: of the window, in DAP.
            oldest: the first time whose tokens are still made.
        """
        place = (task_id, time)
        async with self._making:  # one at a time: making a key takes a tenth of a second
            for each in [each for each in self._kept if each[0] == task_id and each[1] < oldest]:
                del self._kept[each]
            if place not in self._kept:
                stored = await self._find_or_make(task_id, time, oldest)
                if not stored.private_key:
                    return None
                self._kept[place] = self._load(stored)
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return self._kept[place]

    async def _find_or_make(self, task_id: bytes, time: int, oldest: int) -> StoredKey:
        async with self._store.read() as session:
            stored = await find_issuer_key(session, task_id, time)
        if stored is not None:
            return stored
        made = await asyncio.to_thread(generate_private_key, EXPONENT, KEY_BITS)
        encoded = made.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        key = StoredKey(Issuer(made, self._entropy).key.encoded, encoded)

        async def keep(session: AsyncSession) -> StoredKey:
            await retire_issuer_keys(session, task_id, oldest, await self._list_tasks(session))
            return await add_issuer_key(session, task_id, time, key)

        return await write_patiently(self._store, keep)

    def _load(self, stored: StoredKey) -> Issuer:
        private_key = load_der_private_key(stored.private_key, None)
        if not isinstance(private_key, RSAPrivateKey):
            raise TypeError("a key of tokens is RSA")
        return Issuer(private_key, self._entropy, self._arithmetic)
