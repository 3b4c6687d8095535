package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"fencepost/harness/env/cluster"
)

const (
	etcdPort     = 2379
	etcdPeerPort = 2380
)

var etcd = Kind{
	Name: "etcd", About: "three servers of etcd", Servers: 3, Spare: 1, Port: etcdPort, Peers: []Peer{{Port: etcdPeerPort}},
	Find: built("etcd"), Fetch: fetch("etcd"),
	Args: func(s Site, i int) []string {
		var all []string
		for k := range s.IPs {
			all = append(all, cluster.NodeName(k)+"=http://"+s.at(k, etcdPeerPort))
		}
		// With the usual 100 ms and 1 s a machine of two busy cores loses its leader now and then.
		return []string{
			"--name", cluster.NodeName(i), "--data-dir", s.DataDir(i),
			"--listen-client-urls", "http://" + s.Addr(i), "--advertise-client-urls", "http://" + s.Addr(i),
			"--listen-peer-urls", "http://" + s.at(i, etcdPeerPort), "--initial-advertise-peer-urls", "http://" + s.at(i, etcdPeerPort),
			"--initial-cluster", strings.Join(all, ","), "--initial-cluster-state", "new",
			"--heartbeat-interval", "250", "--election-timeout", "2500",
		}
	},
	Cannot: Cannot{LoseData: "a member without its data has to be removed, and added again", ServerClock: inGo, Promote: elects},
	Hello:  hello("GET /version HTTP/1.1\r\nHost: fencepost\r\n\r\n"),
	Ready: func(ctx context.Context, s Site, i int) error {
		var health struct{ Health, Reason string }
		if err := asJSON(ctx, http.MethodGet, "http://"+s.Addr(i)+"/health", "", &health); err != nil {
			return err
		}
		if health.Health != "true" {
			return fmt.Errorf("it is not healthy: %s", health.Reason)
		}
		return nil
	},
	ReadAs: "a linearizable read",
	Read: func(ctx context.Context, s Site, i int) error {
		// Any key: a range is linearizable unless it says otherwise. With hasleader a server that
		// knows no leader says so at once.
		return asJSON(ctx, http.MethodPost, "http://"+s.Addr(i)+"/v3/kv/range", `{"key":"ZmVuY2Vwb3N0"}`, &struct{}{}, "Grpc-Metadata-hasleader", "true")
	},
	NoQuorum: func(err error) bool {
		var said *answerError
		return errors.As(err, &said) && strings.Contains(said.text, "no leader")
	},
	Leader: func(ctx context.Context, s Site, _ string) (int, error) {
		return askAll(ctx, s, func(ctx context.Context, i int) (int, bool, error) {
			var status struct {
				Header struct {
					MemberID string `json:"member_id"`
				}
				Leader string
			}
			err := asJSON(ctx, http.MethodPost, "http://"+s.Addr(i)+"/v3/maintenance/status", "{}", &status)
			return i, status.Leader != "" && status.Leader == status.Header.MemberID, err
		})
	},
}

// answerError is an answer by which a server refuses; its status is 0 in a protocol without one.
type answerError struct {
	status int
	text   string
}

func (e *answerError) Error() string {
	if e.status == 0 {
		return e.text
	}
	return fmt.Sprintf("status %d: %s", e.status, e.text)
}

// longestAnswer bounds what is read of one.
const longestAnswer = 1 << 20

// direct is a client of servers in the sandbox: whatever proxy the environment names is not there.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// asJSON makes a request, with headers by name and value, and reads its answer into out. One with
// another status than 200 is an *answerError.
func asJSON(ctx context.Context, method, url, body string, out any, headers ...string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	for h := range slices.Chunk(headers, 2) {
		req.Header.Set(h[0], h[1])
	}
	res, err := direct.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, longestAnswer))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return &answerError{res.StatusCode, strings.TrimSpace(string(text))}
	}
	return json.Unmarshal(text, out)
}
