# A cluster, its processes, and the benchmark. Its server refuses to run as root.
bin=$(echo /usr/lib/postgresql/*/bin); as="setpriv --reuid=65534 --regid=65534 --clear-groups"
mkdir -m 777 p; cd p
$as "$bin/initdb" -D data -A trust -U owner --no-sync --no-instructions >/dev/null
echo "host all all $SELF/24 trust" >>data/pg_hba.conf
$as "$bin/postgres" -D data -k "$PWD" -c listen_addresses="$SELF" -c fsync=off -c shared_buffers=16MB \
    -c autovacuum_naptime=1 -c max_worker_processes=2 -c log_min_messages=fatal 2>log & server=$!
until_true psql -h "$PWD" -U owner postgres -c 'select 1'
sql() { psql -h "$SELF" -U owner -At postgres "$@"; }
sql -c 'create table t as select n, md5(n::text) m from generate_series(1, 20000) n' -c 'select count(*), max(m) from t'
sql -c "copy t to program 'md5sum >$PWD/sum; chmod a+r $PWD/sum'"; cut -c -32 sum
psql -h "$PWD" -U owner -At postgres -c 'set max_parallel_workers_per_gather=2' -c 'select sum(n) from t'
sql -c 'create table listens (n int)' -c 'create table told (n int)'
(sql -c 'listen news' -c 'insert into listens values (1)' -c 'do $$ begin while not exists (select from told) loop perform pg_sleep(0.1); end loop; end $$' \
    -c 'select 1' | cut -d ' ' -f 1-4) & listener=$!
until_true sql -c 'select 1 / count(*) from listens'; sql -c 'notify news' -c 'insert into told values (1)' >/dev/null; wait $listener
pgbench -h "$SELF" -U owner -i -q postgres 2>/dev/null
pgbench -h "$SELF" -U owner -c 4 -j 2 -t 20 postgres 2>/dev/null | grep processed
end $server
