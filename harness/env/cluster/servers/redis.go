package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const redisPort = 6379

// The rows of Redis: one server; one with a replica; five that know nothing of each other.
var (
	redis = redisKind("redis", "one Redis server", 1)

	redisReplica = func() Kind {
		k := redisKind("redis-replica", "a Redis server with a replica", 2)
		// The replica connects to the port of clients.
		k.Peers = []Peer{{Port: redisPort}}
		args := k.Args
		k.Args = func(s Site, i int) []string {
			if i == s.Primary {
				return args(s, i)
			}
			return append(args(s, i), "--replicaof", s.IPs[s.Primary]+" "+strconv.Itoa(redisPort))
		}
		k.Leader = primaryBy(redisRole)
		k.Cannot.Promote, k.Role, k.Promote = "", redisRole, redisPromote
		k.Ready = func(ctx context.Context, s Site, i int) error {
			_, err := linked(ctx, s, i, redisRole)
			return err
		}
		return k
	}()

	redisFive = func() Kind {
		k := redisKind("redis-5", "five Redis servers that know nothing of each other, as Redlock wants them", 5)
		k.Spare = 2
		return k
	}()
)

func redisKind(name, about string, servers int) Kind {
	return Kind{
		Name: name, About: about, Servers: servers, Port: redisPort,
		Find: findRedis, Fetch: fetch("redis"),
		Args: func(s Site, i int) []string {
			// What is acknowledged is on the disk: a killed server forgets nothing.
			return []string{
				"--bind", s.IPs[i], "--port", strconv.Itoa(s.Port), "--protected-mode", "no", "--dir", s.DataDir(i),
				"--save", "", "--appendonly", "yes", "--appendfsync", "always",
			}
		},
		Hello: hello("PING\r\n"),
		Ready: func(ctx context.Context, s Site, i int) error {
			answer, err := ask(ctx, s.Addr(i), "PING")
			if err == nil && answer != "+PONG" {
				err = fmt.Errorf("it says %s", answer)
			}
			return err
		},
		ReadAs: "a read",
		Read: func(ctx context.Context, s Site, i int) error {
			answer, err := ask(ctx, s.Addr(i), "GET fencepost")
			if err == nil && !strings.HasPrefix(answer, "$") {
				err = fmt.Errorf("it says %s", answer)
			}
			return err
		},
		Leader: first,
		Cannot: Cannot{Promote: noReplicas},
		Mark: func(ctx context.Context, s Site, i int, key string) (bool, error) {
			answer, err := ask(ctx, s.Addr(i), "SET "+key+" 1")
			if err == nil && answer != "+OK" && !strings.HasPrefix(answer, "-READONLY") {
				err = fmt.Errorf("it says %s", answer)
			}
			return answer == "+OK", err
		},
		Marked: func(ctx context.Context, s Site, i int, key string) (bool, error) {
			answer, err := ask(ctx, s.Addr(i), "EXISTS "+key)
			if err == nil && answer != ":0" && answer != ":1" {
				err = fmt.Errorf("it says %s", answer)
			}
			return answer == ":1", err
		},
		Now: redisTime,
	}
}

// redisRole is what a server says that it is. One that waits for its first copy has a link that is down.
func redisRole(ctx context.Context, s Site, i int) (r Role, err error) {
	answer, err := ask(ctx, s.Addr(i), "INFO replication")
	if err != nil {
		return r, err
	}
	for line := range strings.Lines(answer) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "role:"), strings.HasPrefix(line, "master_link_status:"):
			r.Text = strings.TrimSpace(r.Text + " " + line)
			r.Primary = r.Primary || line == "role:master"
			r.InSync = r.InSync || line == "master_link_status:up"
		}
	}
	if r.Text == "" {
		err = fmt.Errorf("it says %q", answer)
	}
	return r, err
}

func redisPromote(ctx context.Context, s Site, i int) error {
	answer, err := ask(ctx, s.Addr(i), "REPLICAOF NO ONE")
	if err == nil && !strings.HasPrefix(answer, "+OK") {
		err = fmt.Errorf("it says %s", answer)
	}
	return err
}

// redisTime asks for the time: an array of two texts, seconds and microseconds.
func redisTime(ctx context.Context, s Site, i int) (now time.Time, err error) {
	conn, err := dial(ctx, s.Addr(i))
	if err != nil {
		return now, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "TIME\r\n"); err != nil {
		return now, err
	}
	in := bufio.NewReader(conn)
	var lines [5]string // *2, the length of the first, the first, and so on
	for n := range lines {
		line, err := in.ReadString('\n')
		if lines[n] = strings.TrimSpace(line); err != nil || n == 0 && lines[n] != "*2" {
			return now, errors.Join(fmt.Errorf("it says %q", lines[n]), err)
		}
	}
	seconds, err := strconv.ParseInt(lines[2], 10, 64)
	micros, err2 := strconv.ParseInt(lines[4], 10, 64)
	return time.Unix(seconds, micros*int64(time.Microsecond)), errors.Join(err, err2)
}

// ask sends an inline command and returns the first line of the answer; of INFO what it holds.
func ask(ctx context.Context, addr, command string) (string, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	length, isBulk := strings.CutPrefix(line, "$")
	n, err := strconv.Atoi(length)
	if !isBulk || err != nil || n < 0 || n > longestAnswer || !strings.HasPrefix(command, "INFO") {
		return line, nil
	}
	text := make([]byte, n)
	_, err = io.ReadFull(in, text)
	return string(text), err
}
