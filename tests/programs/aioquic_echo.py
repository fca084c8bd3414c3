"""A server that answers each stream with its octets reversed, and a client that asks it: aioquic_echo.py server|client ADDRESS."""
import asyncio
import hashlib
import ssl
import sys

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration

PORT = 4433


async def answer(reader, writer):
    octets = await reader.read()
    writer.write(octets[::-1])
    writer.write_eof()


def streamed(reader, writer):
    asyncio.ensure_future(answer(reader, writer))


async def server(address):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["echo"])
    configuration.load_cert_chain("certificate", "key")
    await serve(address, PORT, configuration=configuration, stream_handler=streamed)
    await asyncio.Event().wait()


async def client(address):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["echo"], verify_mode=ssl.CERT_NONE)
    async with connect(address, PORT, configuration=configuration) as connection:
        await connection.wait_connected()
        for octets in [b"palindrome", b"x" * 5000, bytes(range(256)) * 1000]:
            reader, writer = await connection.create_stream()
            writer.write(octets)
            writer.write_eof()
            said = await reader.read()
            print(len(said), said == octets[::-1], hashlib.sha256(said).hexdigest()[:16])


asyncio.run({"server": server, "client": client}[sys.argv[1]](sys.argv[2]))
