package bench;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;

/**
 * Makes one load, and prints what it did as JSON for each part of it, a line each.
 *
 * <p>{@code Main CLIENT in-flight URL LENGTH WARM_UP DURATION CALLS} keeps so many calls in flight.
 * {@code Main CLIENT bursts URL LENGTH WARM_UP DURATION N,N,..} makes N calls at once, then one that it waits for, again
 * and again. CLIENT is {@code restclient} or {@code java}, LENGTH that of each body that comes, times are in seconds.
 */
public final class Main {
    private final Caller caller;
    private final int length;
    private final LongAdder answers = new LongAdder();
    private final LongAdder errors = new LongAdder();
    private final AtomicInteger complaints = new AtomicInteger();
    private long begun;
    private final long[] latencies = new long[1 << 22];
    private final AtomicInteger measured = new AtomicInteger();

    private Main(Caller caller, int length) {
        this.caller = caller;
        this.length = length;
    }

    public static void main(String[] arguments) throws Exception {
        String load = arguments[1];
        String url = arguments[2];
        double warmUp = Double.parseDouble(arguments[4]);
        double duration = Double.parseDouble(arguments[5]);
        int[] counts = Arrays.stream(arguments[6].split(",")).mapToInt(Integer::parseInt).toArray();
        boolean bursts = load.equals("bursts");
        String body = bursts ? "OK" : null;
        Caller caller = arguments[0].equals("restclient") ? new RestClientCaller(url, body, 2048) : new JavaCaller(url, body);
        Main main = new Main(caller, Integer.parseInt(arguments[3]));
        if (bursts) {
            main.bursts(warmUp, 300);
            for (int count : counts) {
                main.print(() -> main.bursts(duration, count));
            }
        } else {
            for (int call = 0; call < counts[0]; call++) {
                main.repeat();
            }
            Thread.sleep((long) (warmUp * 1000));
            main.print(() -> Thread.sleep((long) (duration * 1000)));
        }
        System.exit(0);
    }

    private interface Load {
        void run() throws Exception;
    }

    private void print(Load load) throws Exception {
        measured.set(0);
        long before = answers.sum();
        long errorsBefore = errors.sum();
        double[] cpu = cpuMicros();
        long start = System.nanoTime();
        load.run();
        double seconds = (System.nanoTime() - start) / 1e9;
        double[] cpuAfter = cpuMicros();
        int count = Math.min(measured.get(), latencies.length);
        Arrays.sort(latencies, 0, count);
        double p99 = count == 0 ? 0 : latencies[(int) Math.ceil(count * 0.99) - 1] / 1e3;
        System.out.printf(
            java.util.Locale.ROOT,
            "{\"requests\":%d,\"errors\":%d,\"seconds\":%f,\"user_us\":%f,\"system_us\":%f,\"p99_us\":%f}%n",
            answers.sum() - before, errors.sum() - errorsBefore, seconds, cpuAfter[0] - cpu[0], cpuAfter[1] - cpu[1], p99);
    }

    /** The next call begins when one has ended. */
    private void repeat() {
        caller.call().whenComplete((body, failure) -> {
            ended(body, failure);
            repeat();
        });
    }

    private void bursts(double seconds, int count) throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        while (System.nanoTime() < end) {
            for (int call = 0; call < count; call++) {
                long start = System.nanoTime();
                caller.call().whenComplete((body, failure) -> {
                    ended(body, failure);
                    took(System.nanoTime() - start);
                });
            }
            long start = System.nanoTime();
            try {
                ended(caller.callAndWait(), null);
            } catch (Exception failure) {
                ended(null, failure);
            }
            took(System.nanoTime() - start);
            begun += count + 1;
        }
        // What is left shall not be in the figures of what comes next.
        long patience = System.nanoTime() + 10_000_000_000L;
        while (answers.sum() + errors.sum() < begun && System.nanoTime() < patience) {
            Thread.sleep(1);
        }
        // A call that never ends is an error.
        errors.add(begun - answers.sum() - errors.sum());
    }

    private void took(long nanos) {
        int at = measured.getAndIncrement();
        if (at < latencies.length) {
            latencies[at] = nanos;
        }
    }

    private void ended(String body, Throwable failure) {
        if (failure == null && body.length() == length) {
            answers.increment();
            return;
        }
        errors.increment();
        if (complaints.getAndIncrement() == 0) {
            System.err.println("the first request that failed: " + (failure == null ? body : failure));
        }
    }

    /** CPU time of the process, all its threads: user and system, microseconds. */
    private static double[] cpuMicros() throws Exception {
        String stat = Files.readString(Path.of("/proc/self/stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        // A tick is 1/100 s on every Linux that Java runs on here.
        return new double[] {Double.parseDouble(fields[11]) * 1e4, Double.parseDouble(fields[12]) * 1e4};
    }
}
