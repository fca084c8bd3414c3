# Changed: the address, directories, pg_hba trusts the test's network. As the package's user, with the rights that docs/deployment.md gives.
bin=$(echo /usr/lib/postgresql/*/bin)
conf=$(echo /etc/postgresql/*/main)
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
# The data are made once for all runs.
prepare() {
    mkdir /run/postgresql /var/log/postgresql
    chown postgres:postgres /run/postgresql /var/log/postgresql
    cover postgres:postgres /var/lib/postgresql
    if [ ! -e "$PREPARED/pg.tar" ]; then
        as_postgres "$bin/initdb" -D /var/lib/postgresql/db -A trust --no-sync >/dev/null
        as_postgres "$bin/pg_ctl" -D /var/lib/postgresql/db -o '-k /run/postgresql -h ""' -w start >/dev/null
        as_postgres "$bin/pgbench" -h /run/postgresql -i -q postgres >/dev/null 2>&1
        as_postgres "$bin/pg_ctl" -D /var/lib/postgresql/db -m fast -w stop >/dev/null
        tar -C /var/lib/postgresql -cf "$PREPARED/pg.tar.new" db
        mv "$PREPARED/pg.tar.new" "$PREPARED/pg.tar"
    else
        tar -C /var/lib/postgresql -xf "$PREPARED/pg.tar"
    fi
    chmod 700 /var/lib/postgresql/db
    (cat "$conf/pg_hba.conf"; echo 'host all all 10.77.0.0/24 trust') >/run/everyday/pg_hba.conf
    chmod 644 /run/everyday/pg_hba.conf
}
serve() {
    start_as postgres "$bin/postgres" -D /var/lib/postgresql/db -c config_file="$conf/postgresql.conf" \
        -c data_directory=/var/lib/postgresql/db -c hba_file=/run/everyday/pg_hba.conf -c listen_addresses="$SELF"
}
until_served() { until_true client "$bin/psql" -h "$SELF" -U postgres -c 'select 1' postgres; }
load() {
    local options=(-c 8 -j 1)
    [ "$VARIANT" != connect ] || options=(-C -c 2 -j 1)
    rm -f transactions.*
    client "$bin/pgbench" -h "$SELF" -U postgres -n -S "${options[@]}" -T "$1" -l --log-prefix=transactions postgres >pgbench.log 2>&1
    awk '/^tps/ { print "rate", $3 } /failed transactions/ { print "errors", $5 }' pgbench.log
    awk '{ print $3 }' transactions.* | sort -n | awk '{ all[NR] = $1 } END { print "p99_us", all[int(NR * 0.99)] }'
}
