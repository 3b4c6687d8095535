package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fencepost/harness/env/cluster"
)

const (
	natsPort     = 4222
	natsPeerPort = 6222
	natsHTTPPort = 8222
)

var nats = Kind{
	Name: "nats", About: "three NATS servers with JetStream", Servers: 3, Spare: 1, Port: natsPort, Peers: []Peer{{Port: natsPeerPort}},
	Find: built("nats"), Fetch: fetch("nats"),
	Files: func(s Site, i int) map[string]string {
		var routes []string
		for k := range s.IPs {
			if k != i {
				routes = append(routes, "nats-route://"+s.at(k, natsPeerPort))
			}
		}
		// The usual interval of two minutes acknowledges what a killed server forgets. Clients are
		// given no other addresses, as these would lead past the links.
		return map[string]string{natsConf: fmt.Sprintf(`server_name: %s
listen: "%s"
http: "%s"
jetstream { store_dir: "%s", sync_interval: always, max_mem: 64MB, max_file: 1GB }
cluster { name: fencepost, listen: "%s", no_advertise: true, routes: [%s] }
`, cluster.NodeName(i), s.Addr(i), s.at(i, natsHTTPPort), s.DataDir(i), s.at(i, natsPeerPort), strings.Join(routes, ", "))}
	},
	Args:   func(Site, int) []string { return []string{"-c", natsConf} },
	Cannot: Cannot{ServerClock: inGo, Promote: elects},
	Hello:  hello("PING\r\n"), SpeaksFirst: true,
	Ready: func(ctx context.Context, s Site, i int) error {
		var health struct{ Status string }
		err := asJSON(ctx, http.MethodGet, "http://"+s.at(i, natsHTTPPort)+"/healthz", "", &health)
		if err == nil && health.Status != "ok" {
			err = fmt.Errorf("its health is %q", health.Status)
		}
		return err
	},
	Read: natsRead, ReadAs: "an acknowledged write",
	NoQuorum: func(err error) bool {
		var said *answerError
		return errors.As(err, &said) && said.status == natsUnavailable
	},
	Leader: natsLeader,
}

const natsConf = "nats.conf"

// natsTimeout bounds one request, which a server without a leader may leave without an answer.
const natsTimeout = 5 * time.Second

// natsUnavailable is the status of a request that no leader could be found for.
const natsUnavailable = 503

// natsProbe is the stream that Read writes to: a write is acknowledged by a quorum, and reads of
// a stream may be stale.
const natsProbe = `{"name":"FENCEPOST","subjects":["fencepost.probe"],"num_replicas":3,"storage":"file","max_msgs":1,"max_bytes":1024,"discard":"old"}`

func natsRead(ctx context.Context, s Site, i int) error {
	if err := natsAsk(ctx, s.Addr(i), "$JS.API.STREAM.CREATE.FENCEPOST", natsProbe); err != nil {
		return err
	}
	return natsAsk(ctx, s.Addr(i), "fencepost.probe", "{}")
}

// natsAsk makes a request by NATS' own protocol. An answer that is an error is an *answerError.
func natsAsk(ctx context.Context, addr, subject, body string) error {
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	conn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	const inbox = "_INBOX.fencepost"
	_, err = fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB %s 1\r\nPUB %s %s %d\r\n%s\r\n", inbox, subject, inbox, len(body), body)
	if err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "INFO" || words[0] == "+OK":
		case words[0] == "PING":
			if _, err := fmt.Fprint(conn, "PONG\r\n"); err != nil {
				return err
			}
		case words[0] == "-ERR":
			return errors.New(strings.TrimSpace(line))
		case words[0] == "MSG" || words[0] == "HMSG":
			return natsAnswer(in, words)
		}
	}
}

func natsAnswer(in io.Reader, words []string) error {
	n, err := strconv.Atoi(words[len(words)-1])
	if err != nil || n > longestAnswer {
		return fmt.Errorf("an answer of %q bytes", words[len(words)-1])
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(in, text); err != nil {
		return err
	}
	if words[0] == "HMSG" { // with a status instead of an answer
		line, _, _ := strings.Cut(string(text), "\r\n")
		if strings.Contains(line, strconv.Itoa(natsUnavailable)) {
			return &answerError{natsUnavailable, line}
		}
		return errors.New(line)
	}
	var answer struct {
		Error *struct {
			Code        int
			Description string
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return &answerError{answer.Error.Code, answer.Error.Description}
	}
	return nil
}

// natsLeader is the leader of the run's bucket of keys, or of the servers while there is none.
func natsLeader(ctx context.Context, s Site, run string) (int, error) {
	return askAll(ctx, s, func(ctx context.Context, i int) (int, bool, error) {
		var all struct {
			Meta     struct{ Leader string } `json:"meta_cluster"`
			Accounts []struct {
				Streams []struct {
					Name    string
					Cluster struct{ Leader string }
				} `json:"stream_detail"`
			} `json:"account_details"`
		}
		err := asJSON(ctx, http.MethodGet, "http://"+s.at(i, natsHTTPPort)+"/jsz?accounts=true&streams=true", "", &all)
		leader := all.Meta.Leader
		for _, a := range all.Accounts {
			for _, st := range a.Streams {
				if st.Name == "KV_"+run && st.Cluster.Leader != "" {
					leader = st.Cluster.Leader
				}
			}
		}
		at := slices.IndexFunc(s.IPs, func(ip string) bool { return leader == cluster.NodeName(slices.Index(s.IPs, ip)) })
		return at, at >= 0, err
	})
}
