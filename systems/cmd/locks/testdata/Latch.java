import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryOneTime;

/** One participant of a LeaderLatch. It answers each line with its connection, whether it leads, and its node. */
final class Latch {
    public static void main(String[] args) throws Exception {
        CuratorFramework curator = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .ensembleTracker(false)
                .sessionTimeoutMs(Integer.parseInt(args[1]))
                .connectionTimeoutMs(1000)
                .retryPolicy(new RetryOneTime(100))
                .build();
        AtomicReference<ConnectionState> state = new AtomicReference<>();
        curator.getConnectionStateListenable().addListener((c, s) -> state.set(s));
        curator.start();
        LeaderLatch latch = new LeaderLatch(curator, "/latch");
        latch.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            System.out.println(state.get() + " " + latch.hasLeadership() + " " + latch.getOurPath());
        }
        System.exit(0);
    }
}
