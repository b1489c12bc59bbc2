package bench;

import java.util.concurrent.CompletionStage;

/** A client that makes one kind of call: what the loads of {@link Main} are made of. */
interface Caller {
    /** Starts a call. The stage fails unless the status is 200; its value is the body. */
    CompletionStage<String> call();

    /** Makes a call and waits for it, in the way that the client has for that. */
    String callAndWait() throws Exception;
}
