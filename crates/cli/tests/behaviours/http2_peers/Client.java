import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Arrays;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * Asks for HTTP/2, which this client can do in clear text only by an upgrade. Its arguments are the URL of a server and, over TLS,
 * the file of its certificate.
 */
class Client {
    public static void main(String[] arguments) throws Exception {
        var builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2);
        if (arguments.length > 1) builder.sslContext(trusting(Path.of(arguments[1])));
        var client = builder.build();
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

    static SSLContext trusting(Path certificate) throws Exception {
        var store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (var file = Files.newInputStream(certificate)) {
            store.setCertificateEntry("it", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        var context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }
}
