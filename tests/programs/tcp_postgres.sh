# A server that forks for each connection. It refuses to run as root.
. "$PROGRAMS/tcp.bash"
bin=$(echo /usr/lib/postgresql/*/bin); as="setpriv --reuid=65534 --regid=65534 --clear-groups"
mkdir -m 777 p; cd p
$as "$bin/initdb" -D data -A trust -U owner --no-sync --no-instructions >/dev/null
echo "host all all $SELF/24 trust" >>data/pg_hba.conf
serve $as "$bin/postgres" -D data -k "$PWD" -c listen_addresses="$SELF" -c fsync=off -c shared_buffers=16MB -c log_min_messages=fatal 2>log & server=$!
until_true psql -h "$PWD" -U owner postgres -c 'select 1'
sql() { client psql -h "$SELF" -U owner -At postgres "$@"; }
sql -c 'create table t as select n, md5(n::text) m from generate_series(1, 20000) n' -c 'select count(*), max(m) from t'
sql -c 'select * from t order by n' | md5sum
client pgbench -h "$SELF" -U owner -i -q postgres 2>/dev/null
client pgbench -h "$SELF" -U owner -c 4 -j 2 -t 20 postgres 2>/dev/null | grep processed
client pgbench -h "$SELF" -U owner -c 4 -j 2 -t 5 -C -S postgres 2>/dev/null | grep processed
end $server
