# A resolver that answers from its own data.
. "$PROGRAMS/services/unbound.bash"
(serve) >/dev/null 2>&1 & server=$!
until_served
ask_for_names
end $server
