# selectors, socketserver, asyncio and plain sockets.
/usr/bin/python3 "$PROGRAMS/python_sockets.py"
