use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX ":sys_wait_h";
use Socket;

$| = 1;
my $udp = IO::Socket::INET->new(Proto => "udp", PeerAddr => $ENV{PEER}, PeerPort => 7) or die "udp: $!";
my $select = IO::Select->new($udp);
for my $n (1 .. 5) {
    $udp->send("datagram $n") or die "send: $!";
    die "nothing came" unless $select->can_read(30);
    $udp->recv(my $answer, 100);
    print "$answer\n";
}
print "nothing more\n" unless $select->can_read(0.02);
$udp->blocking(0);
print "would block\n" if !defined $udp->recv(my $none, 100) && $!{EAGAIN};
$udp->blocking(1);
my $pid = fork;
if ($pid == 0) {
    $udp->send("of the child"); $udp->recv(my $answer, 100); print "$answer\n"; POSIX::_exit(4);
}
waitpid $pid, 0;
print "child ", $? >> 8, "\n";
$udp->send("of the parent"); $udp->recv(my $answer, 100); print "$answer\n";
socket my $raw, PF_INET, SOCK_DGRAM, getprotobyname "udp" or die;
send $raw, "a raw one", 0, pack_sockaddr_in(7, inet_aton $ENV{PEER}) or die;
my $from = recv $raw, $answer, 100, 0;
print "$answer from ", (unpack_sockaddr_in $from)[0], "\n";
eval {
    local $SIG{ALRM} = sub { die "alarm\n" };
    alarm 1; recv $raw, $answer, 100, 0; alarm 0;
};
print "died of $@";
my $listener = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1") or die;
if (!fork) {
    my $client = IO::Socket::INET->new($listener->sockhost . ":" . $listener->sockport) or die;
    print $client "over tcp\n"; print scalar <$client>; POSIX::_exit(0);
}
my $connection = $listener->accept; print {$connection} uc <$connection>; close $connection; wait;
open my $pipe, "-|", "echo", "through a pipe" or die; print <$pipe>; close $pipe;
print `printf backticks; exit 2`, " ", $? >> 8, "\n";
socketpair my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC or die; syswrite $a, "pair"; sysread $b, $answer, 10; print "$answer\n";
open my $saved, ">&", \*STDOUT or die; open STDOUT, ">", "out" or die; system "echo to the file"; close STDOUT;
open STDOUT, ">&", $saved or die; open my $file, "<", "out" or die; print <$file>;
exec "echo", "the end";
