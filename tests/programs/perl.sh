# IO::Socket, IO::Select, processes.
perl "$PROGRAMS/perl.pl"
