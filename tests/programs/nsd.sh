# A server of a zone.
. "$PROGRAMS/services/nsd.bash"
(serve) >/dev/null 2>&1 & server=$!
until_served
ask_for_names
end $server
