//! The program of a script: makes the calls that it is told of over its standard input, a socket.
//! Preloads what is under test.

fn main() {
    packetdrill::obey();
}
