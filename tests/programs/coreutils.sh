# Files, pipes and processes of the small tools.
seq 1 20000 | sort -R --random-source=<(yes) | sort -n | sha256sum
seq 1 1000 | tee copy | wc
split -n 4 copy part. && cat part.* | cmp - copy && ls part.*
head -c 300000 /dev/zero | dd bs=4096 status=none | md5sum
printf 'b 2\na 1\n' | sort | join - <(printf 'a x\nb y\n')
cp -a copy other && mv other moved && ln -s moved link && readlink link && stat -c '%n %s %F' moved link
mkfifo fifo && (cat copy >fifo &) && tail -n 1 fifo
timeout 0.1 sleep 60 || echo "timeout: $?"
env -i A=1 printenv A
nice -n 3 nohup echo nohup 2>/dev/null
(echo first; sleep 0.2; echo second) | stdbuf -oL cat | tr a-z A-Z
tail -f copy --pid=$$ >followed & follower=$!; until_true grep -q 1000 followed; end $follower; cat followed; rm followed
mktemp -u XXXX | wc -c
factor 1234567890123
ls /nonexistent || echo "ls: $?"
find . -type f -print0 | xargs -0 -n 1 -P 4 wc -c | sort
sync copy; df . >/dev/null; du -b copy; id -u; date -u -d @0; uname -s; nproc >/dev/null
