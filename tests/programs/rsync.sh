# Two directories, a daemon, and deletions.
mkdir -p from/deep; for i in 1 2 3; do seq $i 1000 >from/file$i; echo $i >from/deep/$i; done
touch -d @0 from/* from/deep/*
rsync -a from/ to/; diff -r from to && echo same
printf 'uid = root\ngid = root\nuse chroot = no\n[files]\npath = %s\nread only = no\n' "$HOME/from" >conf
rsync --daemon --no-detach --config=conf --port=8730 --address="$SELF" --log-file=daemon.log & daemon=$!
until_listening tcp 8730
rsync -a --itemize-changes "rsync://$SELF:8730/files/" fetched/ | LC_ALL=C sort; diff -r from fetched && echo same
echo more >fetched/more; rm fetched/file1
rsync -rc --delete --itemize-changes fetched/ "rsync://$SELF:8730/files/"; ls from
rsync "rsync://$SELF:8730/absent" 2>/dev/null || echo "rsync: $?"
end $daemon
