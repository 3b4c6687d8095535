import java.time.Clock;
import java.time.Duration;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider.Configuration;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/**
 * Takes a lock of ShedLock for two minutes and prints whether it has it. Its arguments are the server's address, by how
 * many minutes its clock is ahead, and "db" for the database's time.
 */
final class OneLock {
    public static void main(String[] args) throws Exception {
        JdbcTemplate database = new JdbcTemplate(new DriverManagerDataSource("jdbc:postgresql://" + args[0] + "/fencepost?sslmode=disable", "fencepost", ""));
        database.execute("CREATE TABLE IF NOT EXISTS shedlock (name text PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by text NOT NULL)");
        Configuration.Builder configuration = Configuration.builder().withJdbcTemplate(database);
        if (args[2].equals("db")) {
            configuration.usingDbTime();
        }
        LockProvider locks = new JdbcTemplateLockProvider(configuration.build());
        ClockProvider.setClock(Clock.offset(Clock.systemUTC(), Duration.ofMinutes(Long.parseLong(args[1]))));
        LockConfiguration report = new LockConfiguration(ClockProvider.now(), "report", Duration.ofMinutes(2), Duration.ZERO);
        System.out.println(locks.lock(report).isPresent());
        while (System.in.read() >= 0) {
        }
        System.exit(0);
    }
}
