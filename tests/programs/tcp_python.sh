# A server of an event loop, over both families, and one with threads, and their clients.
. "$PROGRAMS/tcp.bash"
cat >server.py <<'END'
import asyncio, socket
async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write(b"bye")
    writer.write_eof()
    writer.close()
async def main():
    both = socket.create_server(("", 7000), family=socket.AF_INET6, dualstack_ipv6=True)
    async with await asyncio.start_server(echo, sock=both) as server:
        await server.serve_forever()
asyncio.run(main())
END
cat >client.py <<'END'
import asyncio, os
async def one(n):
    reader, writer = await asyncio.open_connection(os.environ["SELF"], 7000)
    data = os.urandom(200000)
    async def send():
        for i in range(0, len(data), 7777):
            writer.write(data[i:i + 7777])
            await writer.drain()
        writer.write_eof()
    sender = asyncio.create_task(send())
    got = await reader.read()
    await sender
    writer.close()
    await writer.wait_closed()
    return got == data + b"bye"
async def main():
    print(sum(await asyncio.gather(*[one(n) for n in range(20)])))
asyncio.run(main())
END
serve /usr/bin/python3 server.py & server=$!
until_listening tcp 7000; client /usr/bin/python3 client.py; end $server
mkdir www; seq 1 100000 >www/numbers
serve /usr/bin/python3 -m http.server --bind "$SELF" --directory www 8000 2>log & server=$!
until_listening tcp 8000
client curl -s "http://$SELF:8000/numbers" | md5sum
client /usr/bin/python3 -c 'import sys, urllib.request; print(len(urllib.request.urlopen(sys.argv[1]).read()))' "http://$SELF:8000/numbers"
end $server; grep -c Traceback log || :
