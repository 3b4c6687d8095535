//go:build integration

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// startZooKeeper starts a server and returns its address.
func startZooKeeper(t *testing.T) string {
	t.Helper()
	jars, addr, dir := fetched(t, "zookeeper"), freeAddr(t), t.TempDir()
	_, port, err := net.SplitHostPort(addr)
	must(t, err)
	conf := filepath.Join(dir, "zoo.cfg")
	must(t, os.WriteFile(conf, fmt.Appendf(nil, "dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n", dir, port), 0o600))
	serve(t, exec.Command("java", "-Xmx128M", "-XX:+UseSerialGC", "-cp", filepath.Join(jars, "*"), "org.apache.zookeeper.server.ZooKeeperServerMain", conf))
	return addr
}

func TestZooKeeperUnanswered(t *testing.T) { testUnanswered(t, openZooKeeper, startZooKeeper(t)) }
