import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Arrays;

/** Asks for HTTP/2 in clear text, which this client can do only by an upgrade. Its argument is the URL of a server. */
class Client {
    public static void main(String[] arguments) throws Exception {
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).build();
        var body = new byte[1_000_000];
        for (int at = 0; at < body.length; at++) body[at] = (byte) (at * 31 % 251);
        for (int turn = 0; turn < 3; turn++) {
            var small = client.send(
                HttpRequest.newBuilder(URI.create(arguments[0] + "/")).build(), HttpResponse.BodyHandlers.ofString());
            if (small.statusCode() != 200 || !small.body().equals("Hello, World!")) throw new Error(small.body());
            var echo = client.send(
                HttpRequest.newBuilder(URI.create(arguments[0] + "/echo"))
                    .POST(HttpRequest.BodyPublishers.ofByteArray(body)).build(),
                HttpResponse.BodyHandlers.ofByteArray());
            if (!Arrays.equals(echo.body(), body)) throw new Error("the body differs");
            System.out.println(small.version() + " " + echo.version());
        }
    }
}
