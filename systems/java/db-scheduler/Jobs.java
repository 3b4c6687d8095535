import com.github.kagkarlsson.scheduler.CurrentlyExecuting;
import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.SchedulerName;
import com.github.kagkarlsson.scheduler.event.AbstractSchedulerListener;
import com.github.kagkarlsson.scheduler.logging.LogLevel;
import com.github.kagkarlsson.scheduler.task.CompletionHandler;
import com.github.kagkarlsson.scheduler.task.ExecutionContext;
import com.github.kagkarlsson.scheduler.task.FailureHandler;
import com.github.kagkarlsson.scheduler.task.Task;
import com.github.kagkarlsson.scheduler.task.TaskInstance;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.google.gson.Gson;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import javax.sql.DataSource;

/**
 * db-scheduler, a job scheduler in a table, as a child of the schedulers' program
 * (systems/cmd/schedulers/child.go): lines of JSON on standard input and output. The argument is the
 * number of jobs at once; with 0 it only puts some.
 */
final class Jobs {
    record Message(String op, long id, String lock, long n, long token, String error) {
        static Message answer(long id, String error) {
            return new Message("answer", id, null, 0, 0, error);
        }

        static Message cancel(long id) {
            return new Message("cancel", id, null, 0, 0, null);
        }

        /**
         * Jobs of a lock are numbered, and a row's version rises when it is picked, and when it is
         * revived: the token rises with each run of the lock's jobs.
         */
        static Message run(long id, String job, long version) {
            int end = job.lastIndexOf('#');
            long n = Long.parseLong(job.substring(end + 1));
            return new Message("run", id, job.substring(0, end), n, n * 1000 + version, null);
        }

        String job() {
            return lock + "#" + n;
        }
    }

    /** A run that the parent has not ended; done has its error, or null. */
    private record Run(long id, CurrentlyExecuting execution, CompletableFuture<String> done) {}

    private static final Gson JSON = new Gson();
    /** When a job is due that is done: its row is kept, as one that is removed could be put again. */
    private static final Instant NEVER = Instant.parse("9999-01-01T00:00:00Z");

    private static final Map<Long, Run> runs = new ConcurrentHashMap<>();
    private static final AtomicLong last = new AtomicLong();

    private static final Task<Void> steps = Tasks.custom("step", Void.class)
            .onFailure(new FailureHandler.OnFailureRetryLater<>(Duration.ofMillis(100)))
            .execute(Jobs::run);

    public static void main(String[] args) throws Exception {
        int slots = Integer.parseInt(args[args.length - 1]);
        int ttl = Integer.parseInt(System.getenv("FENCEPOST_TTL_MS"));
        DataSource database = connect(slots, ttl);
        Scheduler scheduler = slots == 0 ? null : start(database, slots, ttl);
        SchedulerClient client = slots == 0 ? SchedulerClient.Builder.create(database, steps).build() : scheduler;
        ExecutorService puts = Executors.newCachedThreadPool(); // one that is not answered holds up nothing else
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say(new Message("ready", 0, null, 0, 0, null));
        for (String line; (line = in.readLine()) != null; ) {
            Message m = JSON.fromJson(line, Message.class);
            switch (m.op) {
                case "put" -> puts.execute(() -> put(client, m));
                case "done" -> runs.remove(m.id).done.complete(m.error);
                case "stop" -> new Thread(() -> stop(scheduler)).start(); // meanwhile runs end
                default -> throw new IllegalArgumentException(line);
            }
        }
        Runtime.getRuntime().halt(1); // the parent is gone
    }

    private static DataSource connect(int slots, int ttl) {
        System.setProperty("org.postgresql.pgpassfile", System.getenv("FENCEPOST_SECRET"));
        HikariConfig c = new HikariConfig();
        c.setJdbcUrl("jdbc:postgresql://" + System.getenv("FENCEPOST_NODES") + "/fencepost");
        c.setUsername("fencepost");
        c.addDataSourceProperty("sslmode", "disable");
        c.addDataSourceProperty("currentSchema", System.getenv("FENCEPOST_KEYSPACE"));
        c.addDataSourceProperty("connectTimeout", "2");
        // An execution whose connection is silent for a ttl is lost anyway.
        c.addDataSourceProperty("socketTimeout", String.valueOf(Math.max(1, ttl / 1000)));
        c.setMaximumPoolSize(2 * slots + 4); // a run and what it puts, and what the library does
        c.setConnectionTimeout(2000);
        c.setInitializationFailTimeout(30_000);
        return new HikariDataSource(c);
    }

    /** An execution is dead after a ttl. */
    private static Scheduler start(DataSource database, int slots, int ttl) {
        int missed = 6; // as by default
        Scheduler s = Scheduler.create(database, steps)
                .schedulerName(new SchedulerName.Fixed(System.getenv("FENCEPOST_LIFE")))
                .threads(slots)
                .pollingInterval(Duration.ofMillis(100))
                .heartbeatInterval(Duration.ofMillis(ttl / missed))
                .missedHeartbeatsLimit(missed)
                .failureLogging(LogLevel.WARN, false)
                .addSchedulerListener(new AbstractSchedulerListener() {
                    @Override
                    public void onExecutionFailedHeartbeat(CurrentlyExecuting execution) {
                        runs.values().stream().filter(r -> r.execution == execution).forEach(r -> say(Message.cancel(r.id)));
                    }
                })
                .build();
        s.start();
        return s;
    }

    /** Hands a run of a job to the parent. */
    private static CompletionHandler<Void> run(TaskInstance<Void> job, ExecutionContext context) {
        Run r = new Run(last.incrementAndGet(), context.getCurrentlyExecuting(), new CompletableFuture<>());
        runs.put(r.id, r);
        say(Message.run(r.id, job.getId(), context.getExecution().version));
        String error = r.done.join();
        if (error != null) {
            throw new RuntimeException(error);
        }
        return (complete, operations) -> operations.reschedule(complete, NEVER);
    }

    private static void put(SchedulerClient client, Message m) {
        try {
            client.scheduleIfNotExists(steps.instance(m.job()), Instant.now());
            say(Message.answer(m.id, null));
        } catch (RuntimeException e) {
            say(Message.answer(m.id, e.toString()));
        }
    }

    /** Takes no more jobs, and waits for those that run. */
    private static void stop(Scheduler scheduler) {
        if (scheduler != null) {
            scheduler.stop();
        }
        System.exit(0);
    }

    private static synchronized void say(Message m) {
        System.out.println(JSON.toJson(m));
        System.out.flush();
    }
}
