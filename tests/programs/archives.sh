# tar with its compressors, and the tools by themselves.
mkdir many; for i in {1..30}; do seq 1 $((i * 50)) >many/$i; done; touch -d @0 many/* many
for how in gzip bzip2 xz; do
    tar --sort=name --owner=0 --group=0 -c many --use-compress-program=$how | tar -x --to-stdout --$how | md5sum
done
tar -cf - many | (mkdir out; cd out; tar -xf -); diff -r many out/many && echo same
seq 1 100000 | gzip -9n | tee >(md5sum >sum) | gunzip | md5sum; until_true test -s sum; cat sum
seq 1 100000 | xz -T2 | xz -dc | md5sum
gzip -t many/1 2>/dev/null || echo "gzip: $?"
