package bench;

import io.esastack.restclient.ExecutableRestRequest;
import io.esastack.restclient.RestClient;
import io.esastack.restclient.RestResponseBase;
import java.util.concurrent.CompletionStage;

/** ESA RestClient. */
final class RestClientCaller implements Caller {
    private final RestClient client;
    private final String url;
    private final String body;

    RestClientCaller(String url, String body, int waiting) {
        // Its default of 256 waiting calls would refuse some of the largest bursts.
        client = RestClient.create().connectionPoolSize(512).connectionPoolWaitingQueueLength(waiting).build();
        this.url = url;
        this.body = body;
    }

    @Override
    public CompletionStage<String> call() {
        ExecutableRestRequest request = body == null ? client.get(url) : client.post(url).entity(body);
        return request.execute().thenApply(RestClientCaller::text);
    }

    @Override
    public String callAndWait() throws Exception {
        return call().toCompletableFuture().get();
    }

    private static String text(RestResponseBase response) {
        if (response.status() != 200) {
            throw new IllegalStateException("status " + response.status());
        }
        try {
            return response.bodyToEntity(String.class);
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }
}
