package servers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
)

const (
	temporalPort     = 7233
	temporalHTTPPort = 7243
	temporalConf     = "temporal.yaml"
)

var temporal = Kind{
	Name: "temporal", About: "one Temporal server, with all of its services and SQLite in one process", Servers: 1, Port: temporalPort,
	Find: built("temporal"), Fetch: fetch("temporal"),
	Files: func(s Site, i int) map[string]string {
		return map[string]string{temporalConf: strings.NewReplacer("{ip}", s.IPs[i], "{file}", filepath.Join(s.DataDir(i), "temporal.db")).Replace(temporalYAML)}
	},
	Args:   func(Site, int) []string { return []string{"-config-file", temporalConf} },
	Cannot: Cannot{LoseData: "a run's namespace is in its data, and is registered once", ServerClock: inGo, Promote: noReplicas},
	// The preface of HTTP/2, and a frame of settings without any.
	Hello: hello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"), SpeaksFirst: true,
	Ready: temporalRead, Read: temporalRead, ReadAs: "a look for a workflow",
	Leader: first,
}

// temporalYAML: what is acknowledged is on the disk (synchronous: 2 is FULL). The plugin shares one connection between
// the two stores, as SQLite has one writer at a time. The number of history shards is that of the server's own
// configuration for development.
const temporalYAML = `log: {stdout: true, level: warn}
persistence:
  defaultStore: sqlite
  visibilityStore: sqlite
  numHistoryShards: 4
  datastores:
    sqlite:
      sql:
        pluginName: sqlite
        databaseName: "{file}"
        connectAddr: localhost
        connectProtocol: tcp
        connectAttributes: {cache: private, setup: "true", journal_mode: wal, synchronous: "2"}
        maxConns: 1
        maxIdleConns: 1
global:
  membership: {maxJoinDuration: 30s, broadcastAddress: "{ip}"}
services:
  frontend: {rpc: {grpcPort: 7233, membershipPort: 6933, httpPort: 7243, bindOnIP: "{ip}"}}
  history: {rpc: {grpcPort: 7234, membershipPort: 6934, bindOnIP: "{ip}"}}
  matching: {rpc: {grpcPort: 7235, membershipPort: 6935, bindOnIP: "{ip}"}}
  worker: {rpc: {grpcPort: 7239, membershipPort: 6939, bindOnIP: "{ip}"}}
clusterMetadata:
  enableGlobalNamespace: false
  failoverVersionIncrement: 10
  masterClusterName: active
  currentClusterName: active
  clusterInformation:
    active: {enabled: true, initialFailoverVersion: 1, rpcName: frontend, rpcAddress: "{ip}:7233"}
dcRedirectionPolicy: {policy: noop}
archival: {history: {state: disabled}, visibility: {state: disabled}}
namespaceDefaults: {archival: {history: {state: disabled}, visibility: {state: disabled}}}
publicClient: {hostPort: "{ip}:7233"}
`

// temporalRead looks for a workflow that is not there, in a namespace that the server makes itself. It is the history
// service that says so, by what it has stored.
func temporalRead(ctx context.Context, s Site, i int) error {
	err := asJSON(ctx, http.MethodGet, "http://"+s.at(i, temporalHTTPPort)+"/api/v1/namespaces/temporal-system/workflows/fencepost", "", &struct{}{})
	var said *answerError
	switch {
	case err == nil:
		return errors.New("it knows a workflow that nobody started")
	case errors.As(err, &said) && said.status == http.StatusNotFound && strings.Contains(said.text, "orkflow"):
		return nil
	}
	return fmt.Errorf("it does not look for a workflow: %w", err)
}
