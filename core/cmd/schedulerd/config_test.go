package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"fencepost/core/job"
)

// parse reads a configuration from flags and an environment.
func parse(t *testing.T, env map[string]string, args ...string) (checked, error) {
	t.Helper()
	var c config
	s := &settings{flags: pflag.NewFlagSet("test", pflag.ContinueOnError)}
	c.define(s)
	if err := s.flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := s.read(func(name string) string { return env[name] })
	if err != nil {
		return checked{}, err
	}
	return c.check(s.flags.Changed("name"))
}

func TestSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("sesam\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parse(t, map[string]string{
		"WORKER_HTTP_PORT": "1234", "WORKER_BUCKETS": "3", "WORKER_QUEUES": "mail=5,slow", "CASSANDRA_CONTACT_POINT": "10.0.0.1,db", "CASS_LOCAL_DC": "dc1",
		"WORKER_BACKOFF_BASE_MS": "100", "WORKER_BACKOFF_MAX_MS": "1000", "WORKER_API_TOKEN_FILE": file, "WORKER_HTTP_HOSTS": "Example.com",
		"CASSANDRA_USERNAME": "u", "CASSANDRA_PASSWORD": "p", "WORKER_NAME": "w", "CASSANDRA_TLS": "true",
	}, "--http-port=80", "--peer-port=0")
	if err != nil {
		t.Fatal(err)
	}
	if c.httpPort != 80 || fmt.Sprint(c.queueList) != "[{mail 5} {slow 3}]" || len(c.contact) != 2 || c.token != "sesam" || c.hosts[0] != "example.com" || c.name != "w" || c.tlsConfig == nil {
		t.Errorf("%+v", c)
	}
	if got := c.retry.Delay(9, 0.5); got != time.Second {
		t.Errorf("the ninth wait is %s", got)
	}
	cfg, err := c.session(t.Context(), nil)
	if err != nil || cfg.Serial != "LOCAL_SERIAL" || cfg.Consistency != "LOCAL_QUORUM" || cfg.Username != "u" || cfg.Password != "p" {
		t.Errorf("%v", err)
	}
	if cql, err := c.replication().CQL(); err != nil || cql != "{'class': 'NetworkTopologyStrategy', 'dc1': 3}" {
		t.Errorf("%s, %v", cql, err)
	}
	c, err = parse(t, nil)
	if err != nil || !strings.HasSuffix(c.name, "-8080") || c.pprofAddr != "" || !isDefault(c.retry) {
		t.Errorf("%+v, %v", c, err)
	}
}

func isDefault(p job.RetryPolicy) bool { return len(p.Delays) == 0 && p.Base == 0 }

// TestEachSetting: every one can be given by the environment and by a flag, both mean
// the same, the flag wins, and an empty variable is none.
func TestEachSetting(t *testing.T) {
	t.Parallel()
	read := func(env map[string]string, args ...string) config {
		t.Helper()
		var c config
		s := &settings{flags: pflag.NewFlagSet("test", pflag.ContinueOnError)}
		c.define(s)
		if err := errors.Join(s.flags.Parse(args), s.read(func(name string) string { return env[name] })); err != nil {
			t.Fatal(err)
		}
		return c
	}
	values := map[string][2]string{"string": {"one", "two"}, "int": {"41", "42"}, "int64": {"41", "42"}, "float64": {"0.5", "1.5"}, "bool": {"true", "false"}, "stringSlice": {"a,b", "c"}}
	none := read(nil)
	var c config
	s := &settings{flags: pflag.NewFlagSet("test", pflag.ContinueOnError)}
	c.define(s)
	for _, x := range s.all {
		kind := "string"
		if x.flag != "" {
			kind = s.flags.Lookup(x.flag).Value.Type()
		}
		v, ok := values[kind]
		if !ok {
			t.Fatalf("%s is of type %s", x.env, kind)
		}
		byEnv := read(map[string]string{x.env: v[0]})
		if reflect.DeepEqual(byEnv, none) || !reflect.DeepEqual(read(map[string]string{x.env: ""}), none) {
			t.Errorf("%s=%s changes nothing, or an empty one does", x.env, v[0])
		}
		if x.flag == "" {
			continue
		}
		byFlag := read(nil, "--"+x.flag+"="+v[0])
		both := read(map[string]string{x.env: v[1]}, "--"+x.flag+"="+v[0])
		if !reflect.DeepEqual(byFlag, byEnv) || !reflect.DeepEqual(both, byFlag) {
			t.Errorf("%s: by the environment %+v, by the flag %+v, by both %+v", x.env, byEnv, byFlag, both)
		}
	}
}

// TestBadSettings: everything that is wrong is said at once, each with its name.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	bad := map[string]string{
		"http-port": "70000", "peer-port": "-1", "cassandra-port": "0", "buckets": "0", "max-in-progress": "0", "max-attempts": "1001", "rate-limit": "-1", "rate-burst": "0",
		"max-body-bytes": "99999999", "backoff-max-ms": "5", "poll-interval-ms": "0", "lease-ttl-ms": "1", "drain-ms": "0", "dedupe-window-ms": "1", "queues": "a=0",
		"advertise": "nowhere", "http-target": "ftp://x", "http-hosts": "http://x/", "log-level": "loud", "api-token-file": "/does/not/exist",
		"cassandra-password-file": "/does/not/exist", "cassandra-tls-ca": "/does/not/exist", "replication-factor": "0",
		"otlp-endpoint": "collector:4317", "otlp-protocol": "grpc",
		"late-after-ms": "0", "late-webhook": "somewhere", "late-webhook-timeout-ms": "0",
	}
	var args []string
	for flag, v := range bad {
		args = append(args, "--"+flag+"="+v)
	}
	var out, errs bytes.Buffer
	if code := run(args, func(string) string { return "" }, &out, &errs); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	bad["cassandra-tls"] = ""
	delete(bad, "cassandra-tls-ca")
	for flag := range bad {
		if !strings.Contains(errs.String(), "--"+flag+" ") {
			t.Errorf("--%s is not complained of", flag)
		}
	}
	errs.Reset()
	env := map[string]string{"WORKER_HTTP_PORT": "x", "CASSANDRA_TLS": "perhaps", "WORKER_BUCKETS": "-1"}
	if code := run(nil, func(name string) string { return env[name] }, &out, &errs); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"WORKER_HTTP_PORT", "CASSANDRA_TLS", "--buckets"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%s is not complained of: %s", want, errs.String())
		}
	}
	if n := strings.Count(errs.String(), "http-port"); n > 0 {
		t.Errorf("one mistake, two complaints: %s", errs.String())
	}
	if code := run([]string{"--nonsense"}, os.Getenv, &out, &errs); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
}

// TestShown: each setting is in --help, and the table of all is in the documentation.
func TestShown(t *testing.T) {
	t.Parallel()
	var help, table, errs bytes.Buffer
	for args, out := range map[string]*bytes.Buffer{"--help": &help, "settings": &table} {
		if code := run([]string{args}, func(string) string { return "" }, out, &errs); code != 0 {
			t.Fatalf("%s: %d %s", args, code, errs.String())
		}
	}
	var c config
	s := &settings{flags: pflag.NewFlagSet("test", pflag.ContinueOnError)}
	c.define(s)
	for _, x := range s.all {
		if !strings.Contains(help.String(), x.env) || !strings.Contains(help.String(), "--"+x.flag) {
			t.Errorf("--help lacks %s", x.env)
		}
	}
	for _, env := range strings.Fields("WORKER_HTTP_PORT WORKER_POLL_INTERVAL_MS WORKER_BUCKETS WORKER_MAX_IN_PROGRESS WORKER_MAX_ATTEMPTS WORKER_BACKOFF_BASE_MS " +
		"WORKER_BACKOFF_MAX_MS CASSANDRA_CONTACT_POINT CASSANDRA_PORT CASSANDRA_KEYSPACE CASS_LOCAL_DC") {
		if !slices.ContainsFunc(s.all, func(x setting) bool { return x.env == env }) {
			t.Errorf("%s is no setting", env)
		}
	}
	doc, err := os.ReadFile("../../../docs/core.md")
	if err != nil || !bytes.Contains(doc, table.Bytes()) {
		t.Errorf("docs/core.md has another table of settings than `schedulerd settings` writes (%v)", err)
	}
	if got := s.unknown([]string{"WORKER_BUKETS=1", "WORKER_BUCKETS=1", "LOCK_SEQ_BLOCK_SIZE=5", "CASSANDRA_HOME=/"}); fmt.Sprint(got) != "[WORKER_BUKETS LOCK_SEQ_BLOCK_SIZE]" {
		t.Errorf("%q", got)
	}
}
