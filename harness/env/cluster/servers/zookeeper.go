package servers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"fencepost/harness/env/cluster"
	"fencepost/scripts"
)

const (
	zooPort         = 2181
	zooPeerPort     = 2888
	zooElectionPort = 3888
	zooConf         = "zoo.cfg"
)

// zooListens is for how long a server may be about to listen that the others have elected. Refused, a follower asks
// five times, 100 ms apart; reset, it elects again, while the leader waits for it in vain.
const zooListens = time.Second

var zookeeper = Kind{
	Name: "zookeeper", About: "three servers of ZooKeeper", Servers: 3, Spare: 1,
	Port: zooPort, Peers: []Peer{{Port: zooPeerPort, Patience: zooListens}, {Purpose: "election", Port: zooElectionPort}},
	Find: findZooKeeper, Fetch: fetch("zookeeper"),
	Files: func(s Site, i int) map[string]string {
		var all strings.Builder
		for k, ip := range s.IPs {
			fmt.Fprintf(&all, "server.%d=%s:%d:%d\n", k+1, ip, zooPeerPort, zooElectionPort)
		}
		return map[string]string{
			filepath.Join(filepath.Base(s.DataDir(i)), "myid"): strconv.Itoa(i+1) + "\n",
			zooConf: fmt.Sprintf(`tickTime=1000
initLimit=20
syncLimit=5
maxSessionTimeout=600000
dataDir=%s
clientPort=%d
clientPortAddress=%s
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr
%s`, s.DataDir(i), zooPort, s.IPs[i], all.String()),
		}
	},
	Args: func(Site, int) []string {
		return []string{"org.apache.zookeeper.server.quorum.QuorumPeerMain", zooConf}
	},
	Cannot: Cannot{ServerClock: "its sessions end by a clock that nobody sets", Promote: elects},
	Hello:  hello("ruok"),
	Ready:  func(ctx context.Context, s Site, i int) error { _, err := zooMode(ctx, s, i); return err },
	Read:   zooSession,
	ReadAs: "a request for a session",
	NoQuorum: func(err error) bool {
		var said *answerError
		return errors.As(err, &said) && strings.Contains(said.text, "not currently serving requests")
	},
	Leader: func(ctx context.Context, s Site, _ string) (int, error) {
		return askAll(ctx, s, func(ctx context.Context, i int) (int, bool, error) {
			mode, err := zooMode(ctx, s, i)
			return i, mode == "leader", err
		})
	},
}

// zooMode is what a server that serves says that it is: leader or follower. From one that does
// not serve it is an *answerError.
func zooMode(ctx context.Context, s Site, i int) (string, error) {
	conn, err := dial(ctx, s.Addr(i))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, longestAnswer))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode), nil
		}
	}
	return "", &answerError{text: strings.TrimSpace(string(text))}
}

// zooTimeout bounds the wait for a session, which a server without a quorum leaves without an answer.
const zooTimeout = 3 * time.Second

// zooSession opens a session through a server: that is a transaction, on which a quorum agrees,
// where a read is answered by the server alone. It ends by itself. Without an answer the server
// is asked whether it serves.
func zooSession(ctx context.Context, s Site, i int) error {
	once, cancel := context.WithTimeout(ctx, zooTimeout)
	defer cancel()
	err := zooConnect(once, s, i)
	if err == nil {
		return nil
	}
	look, cancelLook := context.WithTimeout(ctx, zooTimeout)
	defer cancelLook()
	if _, said := zooMode(look, s, i); said != nil {
		return said
	}
	return err
}

// zooConnect makes a ConnectRequest of the client protocol: version, last transaction seen, time
// limit in ms, session and password (none: a new one).
func zooConnect(ctx context.Context, s Site, i int) error {
	conn, err := dial(ctx, s.Addr(i))
	if err != nil {
		return err
	}
	defer conn.Close()
	var ask []byte
	ask = binary.BigEndian.AppendUint32(ask, 0)
	ask = binary.BigEndian.AppendUint64(ask, 0)
	ask = binary.BigEndian.AppendUint32(ask, 2000)
	ask = binary.BigEndian.AppendUint64(ask, 0)
	ask = binary.BigEndian.AppendUint32(ask, 16)
	ask = append(ask, make([]byte, 16)...)
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(ask))), ask...)); err != nil {
		return err
	}
	answer := make([]byte, 4+4+4) // its length, the version, the time limit
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(answer[8:]) == 0 {
		return errors.New("it opens no session")
	}
	return nil
}

// zooHeapMiB is a server's heap.
const zooHeapMiB = 128

// findZooKeeper finds the jars that scripts/fetch-store has fetched, and Java.
func findZooKeeper(ctx context.Context, cacheDir string) (Program, error) {
	const name = "zookeeper"
	p := Program{Version: scripts.StoreVersions[name]}
	jars, err := filepath.Glob(filepath.Join(fetched(cacheDir, name, p.Version), "*.jar"))
	if err != nil {
		return p, err
	}
	if len(jars) == 0 {
		return p, fmt.Errorf("no jars in %s", fetched(cacheDir, name, p.Version))
	}
	java, err := cluster.FindJava(ctx)
	if err != nil {
		return p, err
	}
	slices.Sort(jars)
	p.Path = java.Path
	p.Args = []string{
		fmt.Sprintf("-Xmx%dM", zooHeapMiB), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError",
		"-Djava.net.preferIPv4Stack=true", "-Dzookeeper.jmx.log4j.disable=true", "-cp", strings.Join(jars, ":"),
	}
	return p, nil
}
