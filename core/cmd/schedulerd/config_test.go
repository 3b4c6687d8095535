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

// defined are all settings, and where they go.
func defined() (*config, *settings) {
	c, s := &config{}, newSettings(pflag.NewFlagSet("test", pflag.ContinueOnError))
	c.define(s)
	return c, s
}

// parse reads a configuration from flags and an environment.
func parse(t *testing.T, env map[string]string, args ...string) (*config, error) {
	t.Helper()
	c, s := defined()
	if err := s.flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := s.read(func(name string) string { return env[name] })
	return c, errors.Join(err, c.check(s.flags.Changed("name")))
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
	if c.web.port != 80 || fmt.Sprint(c.scheduler.Engine.Queues) != "[{mail 5} {slow 3}]" || len(c.scheduler.Database.ContactPoints) != 2 || c.api.Token != "sesam" ||
		c.http.Hosts[0] != "example.com" || c.scheduler.Name != "w" || c.scheduler.Database.TLS == nil || !c.scheduler.NoPeers {
		t.Errorf("%+v", c)
	}
	if got := c.api.Retry.Delay(9, 0.5); got != time.Second {
		t.Errorf("the ninth wait is %s", got)
	}
	if db := c.scheduler.Database; db.LocalDC != "dc1" || db.Username != "u" || db.Password != "p" {
		t.Errorf("%+v", db)
	}
	c, err = parse(t, nil)
	if err != nil || !strings.HasSuffix(c.scheduler.Name, "-8080") || c.web.pprof != "" || !isDefault(c.api.Retry) {
		t.Errorf("%+v, %v", c, err)
	}
}

func isDefault(p job.RetryPolicy) bool { return len(p.Delays) == 0 && p.Base == 0 }

// TestEachSetting: every one can be given by the environment and by a flag, both mean
// the same, the flag wins, and an empty variable is none.
func TestEachSetting(t *testing.T) {
	t.Parallel()
	read := func(env map[string]string, args ...string) *config {
		t.Helper()
		c, s := defined()
		if err := s.flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		_ = s.read(func(name string) string { return env[name] }) // rules may be broken
		return c
	}
	values := map[string][2]string{"string": {"one", "two"}, "int": {"41", "42"}, "int64": {"41", "42"}, "float64": {"0.5", "1.5"}, "bool": {"true", "false"}, "stringSlice": {"a,b", "c"}}
	none := read(nil)
	_, s := defined()
	for _, x := range s.all {
		v, ok := values[x.Value.Type()]
		if !ok {
			t.Fatalf("%s is of type %s", x.env, x.Value.Type())
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
		"http-port": "70000", "max-attempts": "1001", "max-body-bytes": "99999999", "backoff-max-ms": "5", "queues": "a=0", "log-level": "loud",
		"api-token-file": "/does/not/exist", "cassandra-password-file": "/does/not/exist", "cassandra-tls-ca": "/does/not/exist",
		"otlp-endpoint": "collector:4317", "otlp-protocol": "grpc",
	}
	_, s := defined()
	for _, x := range s.all { // no number may be negative, and nothing that has a rule may be this text
		if len(x.wants) > 0 && bad[x.flag] == "" {
			bad[x.flag] = "-1"
			if strings.HasPrefix(x.Value.Type(), "string") {
				bad[x.flag] = "/ /"
			}
		}
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

// TestShown: each setting is in --help, and docs/settings.md lists them all.
func TestShown(t *testing.T) {
	t.Parallel()
	var help, table, errs bytes.Buffer
	for args, out := range map[string]*bytes.Buffer{"--help": &help, "settings": &table} {
		if code := run([]string{args}, func(string) string { return "" }, out, &errs); code != 0 {
			t.Fatalf("%s: %d %s", args, code, errs.String())
		}
	}
	_, s := defined()
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
	doc, err := os.ReadFile("../../../docs/settings.md")
	if err != nil || !bytes.Equal(doc, table.Bytes()) {
		t.Errorf("docs/settings.md is not what `schedulerd settings` writes (%v): make docs", err)
	}
	if got := s.unknown([]string{"WORKER_BUKETS=1", "WORKER_BUCKETS=1", "LOCK_SEQ_BLOCK_SIZE=5", "CASSANDRA_HOME=/"}); fmt.Sprint(got) != "[WORKER_BUKETS LOCK_SEQ_BLOCK_SIZE]" {
		t.Errorf("%q", got)
	}
}
