# awk, sed, find, xargs, ps, script, less common system calls.
find "$PROGRAMS" -name '*.sh' -exec grep -l . {} + | xargs -n 5 -P 3 wc -l | awk '{ n++ } END { print n > 0 }'
awk 'BEGIN { "echo piped" | getline x; print x; close("echo piped"); print "to sort" | "sort"; system("exit 4") }'
script -qec 'tty -s; echo $?' /dev/null </dev/null | tr -d '\r'
ps -o comm= -p $$; pgrep -P $$ -x absent || echo "pgrep: $?"
sed -n '1p;$p' <(seq 10); (sleep 0.1 & wait); { time -p :; } 2>&1 | cut -d ' ' -f 1
lsof -p $$ 2>/dev/null | grep -c cwd || :; prlimit --nofile=512 sh -c 'ulimit -n'; ldd /bin/ls | grep -c libc.so
