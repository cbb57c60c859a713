"""Doors with TLS in front of servers without: the embedded Postgres and Valkey are built without it."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_GSS_WANTED = bytes.fromhex("0000000804d21630")
_TLS_WANTED = bytes.fromhex("0000000804d2162f")
"""How a client of Postgres asks for TLS, in clear, before it says anything else."""


@contextmanager
def tls_proxy(port: int, certificate: Path, key: Path, postgres: bool = False) -> Iterator[int]:
    """The port on which TLS is spoken for the server at `port` of this machine. Nothing in clear comes through."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            if postgres:
                wanted = await reader.readexactly(8)
                while wanted == _GSS_WANTED:
                    writer.write(b"N")
                    wanted = await reader.readexactly(8)
                if wanted != _TLS_WANTED:
                    writer.close()
                    return
                writer.write(b"S")
                await writer.start_tls(context)
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))

    async def start() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0, ssl=None if postgres else context)

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
