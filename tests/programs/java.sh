# Channels, a selector, threads and a process.
java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto "$PROGRAMS/Datagrams.java"
