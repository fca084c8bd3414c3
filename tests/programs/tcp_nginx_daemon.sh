# As packages start it: the process that opens the listener ends, a master and one worker have it then, and the worker alone accepts.
# It keeps its privileges.
DAEMON=on MASTER=' ' WORKERS_USER=root
. "$PROGRAMS/tcp_nginx.sh"
