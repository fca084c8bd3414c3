# Debian's /bin/sh.
dash -euc '
# When a shell says "Terminated" is a matter of time.
(set -m; sleep 60 & kill $!; wait $! || echo "killed $?") 2>/dev/null
x=$(seq 3 | while read n; do echo "<$n>"; done); echo "$x"
trap "echo bye" EXIT
mkfifo f; (echo through >f) & read line <f; echo "$line"
exec 7>out; echo seven >&7; exec 7>&-; cat out
(ulimit -n 64; for i in 1 2 3; do (cat out) & done; wait)
timeout 0.2 dash -c "while :; do :; done" || echo "status $?"
echo | { read x || :; echo "${x:-empty}"; }
sh -c "kill -TERM \$\$" || echo "term $?"
'
