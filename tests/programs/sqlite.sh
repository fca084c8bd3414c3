# A database used by several processes at once.
sqlite3 db 'pragma journal_mode=wal; create table t(n integer primary key, who text);'
for who in a b c; do
    (for i in {1..10}; do sqlite3 -cmd '.timeout 60000' db "insert into t(who) values ('$who')"; done) &
done; wait
sqlite3 db 'select who, count(*) from t group by who'
sqlite3 :memory: 'with recursive c(x) as (select 1 union all select x+1 from c where x<100000) select sum(x) from c'
printf '.mode json\nselect * from t where n < 2;\n.system echo shell\n' | sqlite3 db | sed 's/"who":"."/"who":"?"/'
sqlite3 db 'select nothing' 2>/dev/null || echo "sqlite3: $?"
