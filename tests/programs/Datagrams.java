import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;

class Datagrams {
    static final SocketAddress ECHO = new InetSocketAddress(System.getenv("PEER"), 7);

    public static void main(String[] arguments) throws Exception {
        try (var channel = DatagramChannel.open(StandardProtocolFamily.INET)) {
            channel.bind(new InetSocketAddress(System.getenv("SELF"), 0));
            for (int n = 1; n <= 5; n++) {
                channel.send(ByteBuffer.wrap(("datagram " + n).getBytes()), ECHO);
                var buffer = ByteBuffer.allocate(100);
                var from = channel.receive(buffer);
                System.out.println(text(buffer) + " from " + from);
            }
            channel.configureBlocking(false);
            System.out.println(channel.receive(ByteBuffer.allocate(10)));
        }
        select();
        try (var socket = new DatagramSocket()) {
            socket.setSoTimeout(50);
            try {
                socket.receive(new DatagramPacket(new byte[10], 10));
            } catch (SocketTimeoutException error) {
                System.out.println(error.getMessage());
            }
            socket.setSoTimeout(30000);
            socket.send(new DatagramPacket("old".getBytes(), 3, ECHO));
            var packet = new DatagramPacket(new byte[10], 10);
            socket.receive(packet);
            System.out.println(packet.getLength() + " " + packet.getPort());
        }
        closeWhileReceiving();
        var pool = Executors.newFixedThreadPool(8);
        var futures = IntStream.range(0, 50).mapToObj(n -> pool.submit(() -> connected(n))).toList();
        int sum = 0;
        for (var future : futures)
            sum += future.get();
        pool.shutdown();
        System.out.println(sum);
        try (var listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());
             var client = new Socket(listener.getInetAddress(), listener.getLocalPort());
             var server = listener.accept()) {
            client.getOutputStream().write("over tcp".getBytes());
            client.shutdownOutput();
            System.out.println(new String(server.getInputStream().readAllBytes()));
        }
        var child = new ProcessBuilder("sh", "-c", "cat; exit 3").start();
        child.getOutputStream().write("through cat".getBytes());
        child.getOutputStream().close();
        System.out.println(new String(child.getInputStream().readAllBytes()) + " " + child.waitFor());
        System.out.println(NetworkInterface.getByName("vb").getMTU());
    }

    static String text(ByteBuffer buffer) {
        return new String(buffer.array(), 0, buffer.position());
    }

    static void select() throws Exception {
        try (var selector = Selector.open()) {
            var channels = new ArrayList<DatagramChannel>();
            for (int n = 0; n < 5; n++) {
                var channel = DatagramChannel.open(StandardProtocolFamily.INET).connect(ECHO);
                channel.configureBlocking(false);
                channel.register(selector, SelectionKey.OP_READ, n);
                channel.write(ByteBuffer.wrap(new byte[] {(byte) n}));
                channels.add(channel);
            }
            var seen = new TreeSet<Integer>();
            while (seen.size() < 5 && selector.select(30000) > 0) {
                for (var key : selector.selectedKeys()) {
                    var buffer = ByteBuffer.allocate(10);
                    ((DatagramChannel) key.channel()).read(buffer);
                    if (buffer.get(0) == (int) key.attachment())
                        seen.add((int) buffer.get(0));
                }
                selector.selectedKeys().clear();
            }
            System.out.println(seen + " " + selector.select(20));
            var waker = new Thread(selector::wakeup);
            waker.start();
            System.out.println(selector.select());
            for (var channel : channels)
                channel.close();
            System.out.println(selector.selectNow() + " " + selector.keys().size());
        }
    }

    /** A close ends the receive of another thread. */
    static void closeWhileReceiving() throws Exception {
        var socket = DatagramChannel.open(StandardProtocolFamily.INET).bind(new InetSocketAddress(System.getenv("SELF"), 0));
        var receiver = CompletableFuture.supplyAsync(() -> {
            try {
                return "received " + socket.receive(ByteBuffer.allocate(10));
            } catch (Exception error) {
                // AsynchronousCloseException, or its superclass if the thread was not in the call yet.
                return error instanceof ClosedChannelException ? "closed" : error.toString();
            }
        });
        Thread.sleep(100);
        socket.close();
        System.out.println(receiver.get(30, TimeUnit.SECONDS));
    }

    static int connected(int n) throws Exception {
        try (var channel = DatagramChannel.open(StandardProtocolFamily.INET).connect(ECHO)) {
            channel.write(ByteBuffer.wrap(new byte[n + 1]));
            return channel.read(ByteBuffer.allocate(100));
        }
    }
}
