package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/service/tracing"
)

// report takes what is wrong with the setting of a flag.
type report func(flag, format string, args ...any)

// check completes the options, and reports everything that is wrong with settings beside
// each other, at once. Named: there is a name that is not the machine's.
func (c *config) check(named bool) error {
	var errs []error
	bad := report(func(flag, format string, args ...any) { errs = append(errs, fmt.Errorf("--"+flag+" "+format, args...)) })
	if c.web.peerPort == c.web.port {
		bad("peer-port", "is the same as --http-port: use two")
	}
	if c.scheduler.Name == "" {
		bad("name", "is empty, and this machine has no name either")
	}
	if !named {
		c.scheduler.Name += "-" + strconv.Itoa(c.web.port)
	}
	c.scheduler.Listen, c.scheduler.NoPeers = net.JoinHostPort("", strconv.Itoa(c.web.peerPort)), c.web.peerPort == 0
	c.readBackoff(bad)
	c.scheduler.Engine.Queues = c.parseQueues(bad)
	for n, h := range c.http.Hosts {
		c.http.Hosts[n] = strings.ToLower(h)
	}
	if err := c.log.level.UnmarshalText([]byte(c.log.name)); err != nil {
		bad("log-level", "is %q: want debug, info, warn or error", c.log.name)
	}
	if c.traces.Endpoint != "" {
		if err := tracing.CheckEndpoint(c.traces.Endpoint); err != nil {
			bad("otlp-endpoint", "%v", err)
		}
		if c.log.otlpProtocol != otlpProtocol {
			bad("otlp-protocol", "is %q: want %s, at a port of the collector that takes it (4318 as a rule)", c.log.otlpProtocol, otlpProtocol)
		}
	}
	c.api.Token = secret(bad, "api-token-file", c.web.tokenFile, c.api.Token)
	db := &c.scheduler.Database
	db.Password = secret(bad, "cassandra-password-file", c.login.passwordFile, db.Password)
	if db.Username == "" && db.Password != "" {
		bad("cassandra-username", "is missing: there is a password")
	}
	c.readTLS(bad)
	return errors.Join(errs...)
}

// readBackoff makes the waits between attempts of jobs that do not say.
func (c *config) readBackoff(bad report) {
	base, longest := c.jobs.base, c.jobs.longest
	switch {
	case base < 0 || longest < 0:
		bad("backoff-base-ms", "and --backoff-max-ms are %d and %d: want at least 0", base.Milliseconds(), longest.Milliseconds())
	case base == 0 && longest > 0:
		bad("backoff-max-ms", "needs --backoff-base-ms")
	case base > 0:
		if longest == 0 {
			longest = 30 * time.Minute
		}
		if longest < base {
			bad("backoff-max-ms", "is less than --backoff-base-ms")
		}
		c.api.Retry = job.Exponential(base, 2, longest)
	}
}

func (c *config) parseQueues(bad report) (out []engine.Queue) {
	seen := map[string]bool{}
	for _, q := range c.jobs.queues {
		if q == "*" {
			c.scheduler.Engine.AllQueues = true
			continue
		}
		name, number, given := strings.Cut(q, "=")
		n := c.jobs.buckets
		if given {
			var err error
			if n, err = strconv.Atoi(number); err != nil || n < 1 {
				bad("queues", "has %q: want name or name=shards", q)
				continue
			}
		}
		if name == "" || seen[name] {
			bad("queues", "has the empty or duplicate queue name %q", q)
		}
		seen[name] = true
		out = append(out, engine.Queue{Name: name, Shards: n})
	}
	if len(out) == 0 && (len(c.jobs.queues) == 0 || c.scheduler.Engine.AllQueues) {
		bad("queues", "names no queue: the first is the default one")
	}
	return out
}

// secret is the text of a file, or the value itself.
func secret(bad report, flag, file, value string) string {
	if file == "" {
		return value
	}
	if value != "" {
		bad(flag, "and the secret itself are both given: use one of them")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		bad(flag, "cannot be read: %v", err)
		return ""
	}
	got := strings.TrimRight(string(text), "\r\n")
	if got == "" {
		bad(flag, "names %s, which is empty", file)
	}
	return got
}

// readTLS makes the configuration of TLS, nil without.
func (c *config) readTLS(bad report) {
	t := c.login
	if !t.tls {
		if t.ca != "" || t.cert != "" || t.key != "" || t.serverName != "" || t.insecure {
			bad("cassandra-tls", "is missing, and there are other settings of TLS")
		}
		return
	}
	out := &tls.Config{ServerName: t.serverName, InsecureSkipVerify: t.insecure, MinVersion: tls.VersionTLS12}
	if t.ca != "" {
		text, err := os.ReadFile(t.ca)
		out.RootCAs = x509.NewCertPool()
		if err != nil {
			bad("cassandra-tls-ca", "cannot be read: %v", err)
		} else if !out.RootCAs.AppendCertsFromPEM(text) {
			bad("cassandra-tls-ca", "names %s, which has no certificate (PEM)", t.ca)
		}
	}
	if t.cert != "" || t.key != "" {
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		if err != nil {
			bad("cassandra-tls-cert", "and --cassandra-tls-key: %v", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	c.scheduler.Database.TLS = out
}
