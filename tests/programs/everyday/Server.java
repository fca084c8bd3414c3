import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.concurrent.Executors;

/** Server ADDRESS pool|nio: says hello to each request, by a thread for each connection or by a selector. */
class Server {
    static final byte[] ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n".getBytes();

    public static void main(String[] arguments) throws Exception {
        var address = new InetSocketAddress(arguments[0], 8000);
        if (arguments[1].equals("pool"))
            pool(address);
        else
            select(address);
    }

    static void pool(InetSocketAddress address) throws IOException {
        var threads = Executors.newFixedThreadPool(50);
        var listener = new ServerSocket();
        listener.bind(address, 511);
        for (;;) {
            var socket = listener.accept();
            threads.submit(() -> converse(socket));
        }
    }

    static void converse(Socket socket) {
        try (socket) {
            socket.setTcpNoDelay(true);
            var in = socket.getInputStream();
            var buffer = new byte[8192];
            // A request of the load generator comes whole.
            while (in.read(buffer) > 0)
                socket.getOutputStream().write(ANSWER);
        } catch (IOException error) {
            // The client has gone.
        }
    }

    static void select(InetSocketAddress address) throws IOException {
        var selector = Selector.open();
        var listener = ServerSocketChannel.open().bind(address, 511);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        var buffer = ByteBuffer.allocateDirect(8192);
        var answer = ByteBuffer.allocateDirect(ANSWER.length).put(ANSWER);
        for (;;) {
            selector.select(key -> {
                try {
                    if (key.isAcceptable()) {
                        var channel = listener.accept();
                        channel.configureBlocking(false);
                        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
                        channel.register(selector, SelectionKey.OP_READ);
                        return;
                    }
                    var channel = (SocketChannel) key.channel();
                    if (channel.read(buffer.clear()) < 0)
                        channel.close();
                    else
                        channel.write(answer.flip());
                } catch (IOException error) {
                    key.cancel();
                }
            });
        }
    }
}
