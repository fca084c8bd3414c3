# Says hello: to uvicorn as `asgi`, to gunicorn as `wsgi`, and by asyncio's streams: server.py <address>.
import asyncio
import sys


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
    await send({"type": "http.response.body", "body": b"hello\n"})


def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Length", "6")])
    return [b"hello\n"]


async def answer(reader, writer):
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve(address):
    server = await asyncio.start_server(answer, address, 8000)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
