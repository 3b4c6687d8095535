import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.LockInternals;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * Curator's InterProcessMutex on a session of each client: below a lock's node each attempt has an
 * ephemeral sequential node, and the lowest has the lock. All calls come from one thread.
 */
final class CuratorLock {
    private final CuratorFramework curator;
    private final String prefix;
    private Attempt attempt; // whose node may be there

    /** A mutex whose node contains the attempt's id: what it contains is nothing to Curator. */
    private static final class Attempt extends InterProcessMutex {
        private final String name;
        private final String id;

        Attempt(CuratorFramework curator, String path, String name, String id) {
            super(curator, path);
            this.name = name;
            this.id = id;
        }

        @Override
        protected byte[] getLockNodeBytes() {
            return bytes(id);
        }

        /** Null: this thread does not have the mutex, as far as Curator knows. */
        String node() {
            return getLockPath();
        }
    }

    CuratorLock(String addresses, String prefix, int sessionMs) {
        this.prefix = prefix;
        curator = CuratorFrameworkFactory.builder()
                .connectString(addresses)
                // Else it goes to the addresses that the servers have of each other, which are not the client's.
                .ensembleTracker(false)
                .sessionTimeoutMs(sessionMs)
                .connectionTimeoutMs(sessionMs / 3)
                .retryPolicy(new ExponentialBackoffRetry(100, 3))
                .build();
        curator.start();
    }

    /** Tries once. A mutex that a copy of the request has taken is only looked at. */
    Locks.Answer acquire(String name, String id) throws Exception {
        if (!isOpen(name, id)) {
            giveUp();
            attempt = new Attempt(curator, prefix + name, name, id);
        }
        if (attempt.node() == null && !attempt.acquire(0, TimeUnit.MILLISECONDS)) {
            attempt = null; // Curator has removed its node
            return Locks.Answer.of(false);
        }
        Stat stat = mine(curator.checkExists().forPath(attempt.node()));
        if (stat == null) {
            throw new Exception("the mutex was acquired and its node is gone: the session has ended");
        }
        return Locks.Answer.granted(stat.getCzxid());
    }

    /**
     * Writes the id into the node again. Curator itself still takes a mutex for acquired when its
     * session has ended. The write is refused if the node is gone, and is a sign of life of the session.
     */
    boolean renew(String name, String id) throws Exception {
        if (!isOpen(name, id) || attempt.node() == null) {
            return false;
        }
        try {
            return mine(curator.setData().forPath(attempt.node(), bytes(id))) != null;
        } catch (KeeperException.NoNodeException e) {
            return false;
        }
    }

    /** Curator does not say whether there was a node: it is asked for right before, in the same session. */
    boolean release(String name, String id) throws Exception {
        if (!isOpen(name, id) || attempt.node() == null) {
            return false;
        }
        CompletableFuture<Stat> before = new CompletableFuture<>();
        curator.checkExists().inBackground((c, event) -> before.complete(event.getStat())).forPath(attempt.node());
        giveUp();
        return mine(before.get(1, TimeUnit.SECONDS)) != null;
    }

    /** What release could not remove, Curator removes when it is connected again. */
    private void giveUp() throws Exception {
        Attempt last = attempt;
        attempt = null;
        if (last != null && last.node() != null) {
            last.release();
        }
    }

    private boolean isOpen(String name, String id) {
        return attempt != null && attempt.name.equals(name) && attempt.id.equals(id);
    }

    /** Null if there is no node, or it is of a session that has ended. */
    private Stat mine(Stat stat) throws Exception {
        return stat != null && stat.getEphemeralOwner() == curator.getZookeeperClient().getZooKeeper().getSessionId() ? stat : null;
    }

    /** The id in the lowest node, "" if there is none. */
    String holder(String name) throws Exception {
        String path = prefix + name;
        CompletableFuture<Integer> synced = new CompletableFuture<>();
        curator.sync().inBackground((c, event) -> synced.complete(event.getResultCode())).forPath(path);
        KeeperException.Code code = KeeperException.Code.get(synced.get(1, TimeUnit.SECONDS));
        if (code != KeeperException.Code.OK) {
            throw KeeperException.create(code, path);
        }
        while (true) {
            try {
                StandardLockInternalsDriver driver = new StandardLockInternalsDriver();
                List<String> nodes = LockInternals.getSortedChildren("lock-", driver, curator.getChildren().forPath(path));
                return nodes.isEmpty() ? "" : new String(curator.getData().forPath(path + "/" + nodes.get(0)), StandardCharsets.UTF_8);
            } catch (KeeperException.NoNodeException e) {
                if (curator.checkExists().forPath(path) == null) {
                    return "";
                }
                // The lowest has gone in between.
            }
        }
    }

    /** Adds a node without a session if there is none, and removes it if another was faster. */
    boolean seal(String name, String id) throws Exception {
        String holder = holder(name);
        if (!holder.isEmpty()) {
            return holder.equals(id);
        }
        String node = curator.create().creatingParentContainersIfNeeded().withProtection()
                .withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(prefix + name + "/lock-", bytes(id));
        if (holder(name).equals(id)) {
            return true;
        }
        curator.delete().forPath(node);
        return false;
    }

    boolean close() {
        curator.close();
        return true;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
