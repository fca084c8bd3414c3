# uvicorn on uvloop (Debian's, and the newest of PyPI, whose epoll_ctl goes through io_uring), asyncio's own streams, gunicorn with two workers of its usual kind. As www-data, with the rights that docs/deployment.md gives.
prepare() {
    cp "$PROGRAMS/everyday/server.py" /run/everyday/; chmod 755 /run/everyday
    # Where every user may read them.
    if [ "$VARIANT" = uvloop ]; then cp -r "$PYTHONPATH" /run/everyday/modules; fi
}
serve() {
    cd /run/everyday
    case $VARIANT in
    uvloop) start_as www-data env PYTHONPATH=/run/everyday/modules /usr/bin/python3 -m uvicorn --host "$SELF" --port 8000 --loop uvloop --log-level warning server:asgi ;;
    uvicorn) start_as www-data uvicorn --host "$SELF" --port 8000 --loop uvloop --log-level warning server:asgi ;;
    asyncio) start_as www-data /usr/bin/python3 server.py "$SELF" ;;
    gunicorn) start_as www-data gunicorn --bind "$SELF:8000" --workers 2 server:wsgi ;;
    esac
}
until_served() { until_listening tcp 8000; }
load() { web_load "$1" "http://$SELF:8000/" 32; }
