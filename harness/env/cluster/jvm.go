package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
)

// addOpens and addExports are what Cassandra 5.0 needs of Java 17's modules
// (its conf/jvm17-server.options).
var (
	addOpens = []string{
		"java.base/java.io", "java.base/java.lang", "java.base/java.lang.module", "java.base/java.lang.reflect",
		"java.base/java.math", "java.base/java.net", "java.base/java.nio", "java.base/java.nio.charset",
		"java.base/java.nio.file.spi", "java.base/java.util", "java.base/java.util.concurrent",
		"java.base/java.util.concurrent.atomic", "java.base/java.util.concurrent.locks",
		"java.base/jdk.internal.loader", "java.base/jdk.internal.ref", "java.base/jdk.internal.reflect",
		"java.base/jdk.internal.math", "java.base/jdk.internal.module", "java.base/jdk.internal.util.jar",
		"java.base/sun.nio.ch", "java.logging/java.util.logging",
		"jdk.management/com.sun.management.internal",
	}
	addExports = []string{
		"java.base/jdk.internal.misc", "java.base/java.lang.ref", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
		"java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.management/com.sun.jmx.remote.security",
		"java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server", "java.rmi/sun.rmi.transport",
		"java.rmi/sun.rmi.transport.tcp", "jdk.unsupported/sun.misc",
	}
)

// cds says what to do about the class data sharing archive.
type cds struct {
	use  string // path of an archive to map, "" for none
	dump string // path of an archive to write at exit, "" for none
}

// jvmArgs is a node's command line after "java".
func jvmArgs(jars []string, heapMiB int, dir string, archive cds) ([]string, error) {
	var jamm string
	for _, j := range jars {
		if strings.HasPrefix(filepath.Base(j), "jamm-") {
			jamm = j
		}
	}
	if jamm == "" {
		return nil, fmt.Errorf("cluster: jamm, the memory meter, is not among the jars")
	}
	args := []string{
		fmt.Sprintf("-Xms%dM", heapMiB), fmt.Sprintf("-Xmx%dM", heapMiB),
		"-XX:+UseSerialGC", "-Xss512k", "-XX:ReservedCodeCacheSize=128m",
		// No files in /tmp/hsperfdata_USER, which a SIGKILL would leave behind.
		"-XX:-UsePerfData",
		"-XX:+ExitOnOutOfMemoryError",
		"-XX:ErrorFile=" + filepath.Join(dir, "hs_err.log"),
		// The agent is allowed beside the archive only with a diagnostic flag.
		"-XX:+UnlockDiagnosticVMOptions", "-XX:+AllowArchivingWithJavaAgent",
	}
	switch {
	case archive.dump != "":
		args = append(args, "-XX:ArchiveClassesAtExit="+archive.dump)
	case archive.use != "":
		args = append(args, "-XX:SharedArchiveFile="+archive.use, "-Xshare:auto")
	}
	tmp := filepath.Join(dir, "tmp")
	args = append(args,
		"-javaagent:"+jamm,
		"-Djdk.attach.allowAttachSelf=true",
		"-Djava.io.tmpdir="+tmp, "-Djna.tmpdir="+tmp,
		"-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true", "-Dfile.encoding=UTF-8",
		"-Dcassandra-foreground=yes",
		"-Dcassandra.config=file://"+filepath.Join(dir, "cassandra.yaml"),
		"-Dcassandra.storagedir="+filepath.Join(dir, "data"),
		"-Dcassandra.logdir="+dir,
		"-Dlogback.configurationFile=file://"+filepath.Join(dir, "logback.xml"),
		fmt.Sprintf("-Dcassandra.jmx.local.port=%d", jmxPort),
		// Else every start measures this again, for two seconds at full load.
		"-Dcassandra.memtable.row_overhead_size=180",
		// What makes a start take seconds instead of minutes.
		"-Dcassandra.ring_delay_ms=2000", "-Dcassandra.skip_wait_for_gossip_to_settle=0",
	)
	for _, m := range addOpens {
		args = append(args, "--add-opens", m+"=ALL-UNNAMED")
	}
	for _, m := range addExports {
		args = append(args, "--add-exports", m+"=ALL-UNNAMED")
	}
	// Jars only: a directory in the class path would rule out the archive.
	return append(args, "-cp", strings.Join(jars, ":"), "org.apache.cassandra.service.CassandraDaemon"), nil
}
