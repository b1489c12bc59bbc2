import com.sun.management.OperatingSystemMXBean;
import io.netty.bootstrap.Bootstrap;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.FixedRecvByteBufAllocator;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.epoll.EpollDatagramChannel;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.epoll.EpollChannelOption;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.DatagramChannel;
import io.netty.channel.socket.DatagramPacket;
import io.netty.channel.socket.nio.NioDatagramChannel;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;

/**
 * Counts datagrams, and prints at SIGTERM how many each channel had and what CPU time the process took.
 *
 * <p>{@code UdpSink nio PORT}: one NIO channel on one event loop. {@code UdpSink epoll PORT N}: N epoll channels with
 * SO_REUSEPORT, each on an event loop of its own.
 */
public final class UdpSink {
    private static final int RECEIVE_BUFFER = 4 << 20;
    private static final int DATAGRAM_BYTES_MAX = 2048;

    /** The counter of one channel: written by its event loop alone. */
    private static final class Counter extends SimpleChannelInboundHandler<DatagramPacket> {
        private volatile long datagrams;

        @Override
        @SuppressWarnings("NonAtomicOperationOnVolatileField")
        protected void channelRead0(ChannelHandlerContext context, DatagramPacket packet) {
            datagrams++;
        }
    }

    public static void main(String[] args) throws InterruptedException {
        boolean nio = args[0].equals("nio");
        int port = Integer.parseInt(args[1]);
        int channels = nio ? 1 : Integer.parseInt(args[2]);
        EventLoopGroup loops = nio ? new NioEventLoopGroup(1) : new EpollEventLoopGroup(channels);
        List<Counter> counters = new ArrayList<>();
        Bootstrap bootstrap = new Bootstrap()
            .group(loops)
            .channel(nio ? NioDatagramChannel.class : EpollDatagramChannel.class)
            .option(ChannelOption.SO_RCVBUF, RECEIVE_BUFFER)
            .option(ChannelOption.RCVBUF_ALLOCATOR, new FixedRecvByteBufAllocator(DATAGRAM_BYTES_MAX))
            .handler(new ChannelInitializer<DatagramChannel>() {
                @Override
                protected void initChannel(DatagramChannel channel) {
                    Counter counter = new Counter();
                    synchronized (counters) {
                        counters.add(counter);
                    }
                    channel.pipeline().addLast(counter);
                }
            });
        if (!nio) {
            bootstrap.option(EpollChannelOption.SO_REUSEPORT, true);
        }
        for (int index = 0; index < channels; index++) {
            bootstrap.bind("127.0.0.1", port).sync();
        }
        var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            synchronized (counters) {
                StringBuilder each = new StringBuilder();
                long sum = 0;
                for (Counter counter : counters) {
                    each.append(' ').append(counter.datagrams);
                    sum += counter.datagrams;
                }
                System.out.printf("datagrams %d; by channel:%s; CPU %.2f s%n", sum, each, system.getProcessCpuTime() / 1e9);
            }
        }));
        System.out.println("receiving");
        Thread.currentThread().join();
    }
}
