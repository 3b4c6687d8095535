import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Carries out locks for bin/locks: a line of JSON on standard input is a request, a line on standard
 * output its answer. systems/cmd/locks/child.go has the other side.
 */
final class Locks {
    /** within_ms is for how long the answer is waited for; 0: for ever. */
    record Request(long id, String op, int client, String name, String attempt, long within_ms) {}

    record Answer(long id, boolean done, long token, String holder, String error) {
        static Answer of(boolean done) {
            return new Answer(0, done, 0, null, null);
        }

        static Answer granted(long token) {
            return new Answer(0, true, token, null, null);
        }

        static Answer held(String holder) {
            return new Answer(0, true, 0, holder, null);
        }

        static Answer failed(Exception e) {
            return new Answer(0, false, 0, null, e.toString());
        }

        Answer to(Request r) {
            return new Answer(r.id, done, token, holder, error);
        }
    }

    /** A Curator lock belongs to the thread that took it: each client has one. */
    private record Client(CuratorLock lock, ExecutorService thread) {}

    private static final Gson JSON = new Gson();

    public static void main(String[] args) throws Exception {
        if (args.length != 3) {
            System.err.println("usage: Locks ADDRESSES PREFIX SESSION_MS; bin/locks starts it");
            System.exit(64);
        }
        Map<Integer, Client> clients = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            Request r = JSON.fromJson(line, Request.class);
            long read = System.nanoTime();
            Client c = clients.computeIfAbsent(r.client, n -> new Client(
                    new CuratorLock(args[0], args[1], Integer.parseInt(args[2])),
                    Executors.newSingleThreadExecutor(task -> {
                        Thread t = new Thread(task, "client " + n);
                        t.setDaemon(true);
                        return t;
                    })));
            c.thread.execute(() -> answer(r, carryOut(c.lock, r, read)));
            if (r.op.equals("close")) {
                clients.remove(r.client);
                c.thread.shutdown();
            }
        }
        // A session that has not been closed lives on until it expires, as that of a killed process does.
    }

    private static Answer carryOut(CuratorLock lock, Request r, long read) {
        // Nobody waits for it any more, and what has not begun has not been done.
        if (r.within_ms > 0 && System.nanoTime() - read > r.within_ms * 1_000_000) {
            return Answer.failed(new Exception("an earlier request has not ended"));
        }
        try {
            return switch (r.op) {
                case "open" -> Answer.of(true);
                case "acquire" -> lock.acquire(r.name, r.attempt);
                case "renew" -> Answer.of(lock.renew(r.name, r.attempt));
                case "release" -> Answer.of(lock.release(r.name, r.attempt));
                case "holder" -> Answer.held(lock.holder(r.name));
                case "seal" -> Answer.of(lock.seal(r.name, r.attempt));
                case "close" -> Answer.of(lock.close());
                default -> Answer.failed(new Exception("there is no " + r.op));
            };
        } catch (Exception e) {
            return Answer.failed(e);
        }
    }

    private static synchronized void answer(Request r, Answer a) {
        System.out.println(JSON.toJson(a.to(r)));
        System.out.flush();
    }
}
