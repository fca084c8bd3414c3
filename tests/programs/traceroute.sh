# Datagrams with a lifetime, and the errors that come back.
traceroute.db -n -q 1 -m 3 "$PEER" | tail -n 1 | awk '{ print $1, $2 }'
traceroute.db -n -q 3 -N 3 --sport=4000 -U -p 4001 -m 2 "$PEER" | awk 'NR > 1 { print $1, $2 }'
