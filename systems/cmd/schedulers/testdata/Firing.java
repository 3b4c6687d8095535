import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Date;
import java.util.Properties;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

/**
 * A node of a cluster of Quartz. Its arguments are the server's address, whether triggers are acquired within
 * a lock, and for the first of all nodes "schedule": it makes the tables and an hourly job, and ends. Others print
 * a line when they have started, and the time at which a firing was due.
 */
final class Firing {
    public static void main(String[] args) throws Exception {
        String url = "jdbc:postgresql://" + args[0] + "/fencepost?sslmode=disable";
        Properties p = new Properties();
        p.setProperty("org.quartz.scheduler.instanceName", "firing");
        p.setProperty("org.quartz.scheduler.instanceId", "AUTO");
        p.setProperty("org.quartz.threadPool.threadCount", "1");
        p.setProperty("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
        p.setProperty("org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate");
        p.setProperty("org.quartz.jobStore.isClustered", "true");
        p.setProperty("org.quartz.jobStore.acquireTriggersWithinLock", args[1]);
        p.setProperty("org.quartz.jobStore.dataSource", "db");
        p.setProperty("org.quartz.dataSource.db.provider", "hikaricp");
        p.setProperty("org.quartz.dataSource.db.driver", "org.postgresql.Driver");
        p.setProperty("org.quartz.dataSource.db.URL", url);
        p.setProperty("org.quartz.dataSource.db.user", "fencepost");
        p.setProperty("org.quartz.dataSource.db.maxConnections", "5");
        if (args.length > 2) {
            tables(url);
        }
        Scheduler scheduler = new StdSchedulerFactory(p).getScheduler();
        if (args.length > 2) {
            scheduler.scheduleJob(JobBuilder.newJob(Job.class).build(), TriggerBuilder.newTrigger()
                    .startAt(new Date())
                    .withSchedule(SimpleScheduleBuilder.repeatHourlyForever())
                    .build());
            System.exit(0);
        }
        scheduler.setJobFactory((firing, s) -> context -> System.out.println(context.getScheduledFireTime().getTime()));
        scheduler.start();
        System.out.println("started");
        while (System.in.read() >= 0) {
        }
        System.exit(0);
    }

    /** The script is in Quartz's jar. */
    private static void tables(String url) throws Exception {
        try (InputStream script = Scheduler.class.getResourceAsStream("/org/quartz/impl/jdbcjobstore/tables_postgres.sql");
                Connection db = DriverManager.getConnection(url, "fencepost", "");
                Statement s = db.createStatement()) {
            s.execute(new String(script.readAllBytes(), StandardCharsets.UTF_8));
        }
    }
}
