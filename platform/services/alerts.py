"""Lists deliveries of alerts and sends them again, in the server's database, even while the server runs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from alcove.platform.domain.limits import PAGE_SIZE
from alcove.platform.services.local_store import LOCAL_PRINCIPAL, with_store
from alcove.platform.store import Store
from alcove.platform.store.alerts import Delivery, DeliveryState, get_delivery, list_deliveries, retry_delivery
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.runtime.clock import SYSTEM_CLOCK, Clock

__all__ = ["get_local_delivery", "list_local_deliveries", "retry_local_deliveries"]


def list_local_deliveries(
    data_dir: Path,
    states: Sequence[DeliveryState],
    *,
    destination: str = "",
    limit: int = PAGE_SIZE[0],
    database: str | None = None,
) -> list[Delivery]:
    """Return deliveries in these states, the newest first.

    Args:
        data_dir: of the server.
        states: of which one must be theirs.
        destination: to which; "": to any.
        limit: largest number.
        database: URL of the server's database where it is no file in the folder.

    Raises:
        InvalidFieldError: the folder does not exist.
    """

    async def work(store: Store) -> list[Delivery]:
        async with store.read() as session:
            return await list_deliveries(session, states, destination=destination, limit=limit)

    return asyncio.run(with_store(data_dir, database, work))


def get_local_delivery(data_dir: Path, number: int, *, database: str | None = None) -> Delivery:
    """Return one delivery.

    Raises:
        InvalidFieldError: the folder does not exist.
        ResourceNotFoundError: there is none of this number.
    """

    async def work(store: Store) -> Delivery:
        async with store.read() as session:
            return await get_delivery(session, number)

    return asyncio.run(with_store(data_dir, database, work))


def retry_local_deliveries(
    data_dir: Path, numbers: Sequence[int] | None, *, clock: Clock = SYSTEM_CLOCK, database: str | None = None
) -> list[Delivery]:
    """Let deliveries be sent again by the server that runs or starts next; return them.

    Args:
        data_dir: of the server.
        numbers: which; None: all that are dead.
        clock: dates it.
        database: URL of the server's database where it is no file in the folder.

    Raises:
        InvalidFieldError: the folder does not exist.
        ResourceNotFoundError: there is none of one of the numbers; none is sent again then.
    """

    async def work(store: Store) -> list[Delivery]:
        async with store.write() as session:
            chosen = numbers
            if chosen is None:
                dead = await list_deliveries(session, [DeliveryState.DEAD], limit=PAGE_SIZE[1])
                chosen = [each.sequence for each in reversed(dead)]
            retried = [await retry_delivery(session, number, now_s=clock.now_s()) for number in chosen]
            uow = UnitOfWork(session, LOCAL_PRINCIPAL, clock.now_s())
            for each in retried:
                await uow.audit("retry alert", str(each.sequence), destination=each.destination)
        return retried

    return asyncio.run(with_store(data_dir, database, work))
