# The same with processes that inherit the listener.
MASTER=' ' WORKERS=2
. "$PROGRAMS/tcp_nginx.sh"
