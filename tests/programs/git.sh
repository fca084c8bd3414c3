# A repository, cloned from a directory and from a daemon.
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git config --global user.email a@example.org; git config --global user.name A
git config --global init.defaultBranch main; git config --global --add safe.directory '*'
git init --quiet origin; cd origin
for i in 1 2 3; do echo "$i" >"file$i"; git add .; git commit --quiet -m "commit $i"; done
git log --oneline; git gc --quiet; git fsck; cd ..
git clone --quiet "file://$HOME/origin" copy; git -C copy log --format=%H -1
git daemon --base-path="$HOME" --export-all --reuseaddr --listen=127.0.0.1 --port=9418 & daemon=$!
until_listening tcp 9418
git clone --quiet git://127.0.0.1/origin remote; git -C remote log --format=%T -1
echo 4 >origin/file4; git -C origin add .; git -C origin commit --quiet -m "commit 4"
git -C remote pull --quiet; cat remote/file4
git -C remote ls-remote; git -C remote archive HEAD | tar -t; git -C copy fetch --quiet; git -C copy status -sb
git bisect 2>/dev/null || echo "bisect: $?"
end $daemon
