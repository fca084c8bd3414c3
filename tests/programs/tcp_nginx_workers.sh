# The same with processes that inherit the listener.
MASTER=' ' WORKERS=2 LISTEN=$SELF:80
. "$PROGRAMS/tcp_nginx.sh"
