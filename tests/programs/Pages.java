import com.sun.net.httpserver.HttpServer;
import java.net.*;
import java.net.http.*;
import java.util.concurrent.Executors;

/** A server of pages; or, of an address, a client of one. */
class Pages {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0)
            serve();
        else
            ask(arguments[0]);
    }

    static void serve() throws Exception {
        var server = HttpServer.create(new InetSocketAddress(8000), 0);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            var from = exchange.getRemoteAddress().getAddress().getHostAddress();
            var length = exchange.getRequestBody().readAllBytes().length;
            var page = (from + " sent " + length + "x".repeat(300000)).getBytes();
            exchange.sendResponseHeaders(200, page.length);
            try (var body = exchange.getResponseBody()) {
                body.write(page);
            }
        });
        server.start();
    }

    static void ask(String address) throws Exception {
        for (int n = 0; n < 3; n++) {
            var connection = (HttpURLConnection) new URL(address).openConnection();
            connection.setDoOutput(true);
            connection.getOutputStream().write(new byte[100000]);
            var page = connection.getInputStream().readAllBytes();
            System.out.println(page.length + " " + new String(page, 0, 30));
        }
        var request = HttpRequest.newBuilder(URI.create(address)).build();
        System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body().length());
    }
}
