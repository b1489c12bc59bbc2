package bench;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.CompletionStage;

/** The client of the Java runtime, {@code java.net.http}. */
final class JavaCaller implements Caller {
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final HttpRequest request;

    JavaCaller(String url, String body) {
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(url));
        request = body == null
            ? builder.build()
            : builder.header("content-type", "text/plain").POST(HttpRequest.BodyPublishers.ofString(body)).build();
    }

    @Override
    public CompletionStage<String> call() {
        return client.sendAsync(request, HttpResponse.BodyHandlers.ofString()).thenApply(JavaCaller::text);
    }

    @Override
    public String callAndWait() throws Exception {
        return text(client.send(request, HttpResponse.BodyHandlers.ofString()));
    }

    private static String text(HttpResponse<String> response) {
        if (response.statusCode() != 200) {
            throw new IllegalStateException("status " + response.statusCode());
        }
        return response.body();
    }
}
