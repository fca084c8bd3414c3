# uvicorn on uvloop as PyPI ships them: the event loop changes its epoll set through io_uring.
. "$PROGRAMS/tcp.bash"
cat >app.py <<'END'
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for what in "startup", "shutdown":
            await receive()
            await send({"type": f"lifespan.{what}.complete"})
        return
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"got %d " % len(body) + b"x" * 300000})
END
serve /usr/bin/python3 -m uvicorn --loop uvloop --host "$SELF" --port 8000 --no-access-log app:app 2>log & server=$!
until_listening tcp 8000; seq 1 50000 >body
for i in {1..5}; do client curl -s --data-binary "@$HOME/body" "http://$SELF:8000/" | md5sum; done
client curl -s "http://$SELF:8000/[1-20]" | md5sum
end $server; grep -c Traceback log || :
