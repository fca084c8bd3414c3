# Changed: the address, a table and a user. As the unit's user, with the rights that docs/deployment.md gives.
as_mysql() { setpriv --reuid=mysql --regid=mysql --init-groups "$@"; }
# The data are made once for all runs.
prepare() {
    mkdir /run/mysqld /var/log/mysql
    chown mysql:mysql /run/mysqld /var/log/mysql
    cover mysql:mysql /var/lib/mysql
    if [ ! -e "$PREPARED/db.tar" ]; then
        as_mysql mariadb-install-db --datadir=/var/lib/mysql --skip-test-db >/dev/null 2>&1
        as_mysql mariadbd --skip-networking --socket=/run/mysqld/setup.sock >/dev/null 2>&1 &
        until_true mariadb-admin --socket=/run/mysqld/setup.sock -u root ping
        mariadb --socket=/run/mysqld/setup.sock -u root -e "create user t identified by ''; create database t; grant all on t.* to t"
        sysbench --mysql-socket=/run/mysqld/setup.sock "${tables[@]}" prepare >/dev/null
        mariadb-admin --socket=/run/mysqld/setup.sock -u root shutdown
        wait
        tar -C /var/lib -cf "$PREPARED/db.tar.new" mysql
        mv "$PREPARED/db.tar.new" "$PREPARED/db.tar"
    else
        tar -C /var/lib -xf "$PREPARED/db.tar"
    fi
}
tables=(--mysql-user=t --mysql-db=t --tables=1 --table-size=10000 --percentile=99 oltp_point_select)
serve() { start_as mysql mariadbd --bind-address="$SELF"; }
until_served() { until_listening tcp 3306; }
load() {
    client sysbench --mysql-host="$SELF" --threads=8 --time="$1" "${tables[@]}" run >sysbench.log 2>&1
    awk -F'[(: ]+' '/transactions:/ { print "rate", $4 } /99th percentile:/ { print "p99_us", $4 * 1000 } /ignored errors:/ { print "errors", $4 }' sysbench.log
}
