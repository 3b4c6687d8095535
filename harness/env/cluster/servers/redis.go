package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
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
			if i == 0 {
				return args(s, i)
			}
			return append(args(s, i), "--replicaof", s.IPs[0]+" "+strconv.Itoa(redisPort))
		}
		k.Leader = redisPrimary
		k.Ready = func(ctx context.Context, s Site, i int) error {
			answer, err := ask(ctx, s.Addr(i), "INFO replication")
			if err == nil && i > 0 && !strings.Contains(answer, "master_link_status:up") && !strings.Contains(answer, "role:master") {
				err = errors.New("it has no link to its primary yet")
			}
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
				"--bind", s.IPs[i], "--port", strconv.Itoa(redisPort), "--protected-mode", "no", "--dir", s.DataDir(i),
				"--save", "", "--appendonly", "yes", "--appendfsync", "always",
			}
		},
		Hello: []byte("PING\r\n"),
		Ready: func(ctx context.Context, s Site, i int) error {
			answer, err := ask(ctx, s.Addr(i), "PING")
			if err == nil && answer != "+PONG" {
				err = fmt.Errorf("it says %s", answer)
			}
			return err
		},
		Read: func(ctx context.Context, s Site, i int) error {
			answer, err := ask(ctx, s.Addr(i), "GET fencepost")
			if err == nil && !strings.HasPrefix(answer, "$") {
				err = fmt.Errorf("it says %s", answer)
			}
			return err
		},
		Leader: first,
	}
}

// redisPrimary is the server that says that it is one.
func redisPrimary(ctx context.Context, s Site, _ string) (int, error) {
	return askAll(ctx, s, func(ctx context.Context, i int) (int, bool, error) {
		answer, err := ask(ctx, s.Addr(i), "INFO replication")
		return i, strings.Contains(answer, "role:master"), err
	})
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
