package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/docker"
)

// flagsOf parses a command line of external clusters.
func flagsOf(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fl := pflag.NewFlagSet("test", pflag.ContinueOnError)
	addExternalFlags(fl)
	if err := fl.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fl
}

func TestExternalFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	password, empty, noPEM := file("password", "from-file\n"), file("empty", ""), file("ca.pem", "not PEM")
	const point = "--contact-points=10.0.0.1, db.example:9142"
	for name, c := range map[string]struct {
		env  string
		args []string
		want []string // in the error; none for none
	}{
		"plain":              {args: []string{point}},
		"login by file":      {args: []string{point, "--username=u", "--password-file=" + password}},
		"login by env":       {env: "from-env", args: []string{point, "--username=u"}},
		"env for others":     {env: "from-env", args: []string{point}},
		"TLS":                {args: []string{point, "--tls", "--tls-server-name=x"}},
		"TLS, insecure":      {args: []string{point, "--tls", "--tls-insecure"}},
		"nothing":            {want: []string{"--contact-points is missing"}},
		"bad points":         {args: []string{"--contact-points=a b,c:0,user@d"}, want: []string{`"a b" is not host`, `"0" is no port`, `"user@d" is not host`}},
		"no password":        {args: []string{point, "--username=u"}, want: []string{"--username without a password: set FENCEPOST_PASSWORD"}},
		"two passwords":      {env: "from-env", args: []string{point, "--username=u", "--password-file=" + password}, want: []string{"in FENCEPOST_PASSWORD and in --password-file"}},
		"no user":            {args: []string{point, "--password-file=" + password}, want: []string{"--password-file without --username"}},
		"empty file":         {args: []string{point, "--username=u", "--password-file=" + empty}, want: []string{"empty is empty"}},
		"no TLS":             {args: []string{point, "--tls-insecure", "--tls-server-name=x"}, want: []string{"--tls-insecure without --tls", "--tls-server-name without --tls"}},
		"half a pair":        {args: []string{point, "--tls", "--tls-cert=" + noPEM}, want: []string{"belong together"}},
		"no PEM":             {args: []string{point, "--tls", "--tls-ca=" + noPEM}, want: []string{"no certificate in the CA's file"}},
		"no pair":            {args: []string{point, "--tls", "--tls-cert=" + noPEM, "--tls-key=" + noPEM}, want: []string{"client certificate and key"}},
		"insecure and a CA":  {args: []string{point, "--tls", "--tls-insecure", "--tls-ca=" + noPEM}, want: []string{"verifies nothing"}},
		"everything at once": {args: []string{"--username=u", "--tls-key=/nope"}, want: []string{"5 problems", "--contact-points is missing", "without a password", "/nope", "--tls-key without --tls", "belong together"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := readExternalFlags(flagsOf(t, c.args...)).config(t.Context(), c.env)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
			var ee *exitError
			switch {
			case len(c.want) > 0:
				if !errors.As(err, &ee) || ee.code != exitUsage {
					t.Errorf("%v is not bad input", err)
				}
				if strings.Contains(err.Error(), "from-") {
					t.Errorf("the error shows the password: %v", err)
				}
			case err != nil:
				t.Error(err)
			case !slices.Equal(cfg.ContactPoints, []string{"10.0.0.1", "db.example:9142"}):
				t.Errorf("contact points %q", cfg.ContactPoints)
			case cfg.Login.Username == "" && cfg.Login.Password != "", cfg.Login.Username != "" && !strings.HasPrefix(cfg.Login.Password, "from-"), strings.HasSuffix(cfg.Login.Password, "\n"):
				t.Errorf("password %q of user %q", cfg.Login.Password, cfg.Login.Username)
			}
		})
	}
}

func TestExternalIsRepeated(t *testing.T) {
	t.Parallel()
	fl := flagsOf(t, "--contact-points=a,b:1", "--username=u", "--tls", "--tls-ca=ca.pem")
	if got, want := makeExternal(fl, clusterExternal), " CLUSTER=external CONTACT_POINTS=a,b:1 USERNAME=u TLS=1 TLS_CA=ca.pem"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := toolExternal(fl, clusterExternal), " --cluster=external --contact-points=a,b:1 --username=u --tls=true --tls-ca=ca.pem"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := makeExternal(flagsOf(t), "auto"); got != "" {
		t.Errorf("%q for another cluster", got)
	}
	// make has a variable for every flag.
	b, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range externalFlagTable {
		if !passed(string(b), f.name) {
			t.Errorf("the Makefile does not hand on --%s", f.name)
		}
	}
}

// TestExternalCommands: what cannot be is refused before anything is tried.
func TestExternalCommands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"flags of another cluster": {[]string{"chaos", "steady", "--contact-points=a"}, "--contact-points=a: for --cluster=external only, not auto"},
		"no contact points":        {[]string{"chaos", "steady", "--cluster=external"}, "--contact-points is missing"},
		"a fault of nodes":         {[]string{"chaos", "steady,pause-node", "--cluster=external"}, "pause-node: its fault pause-node is one of nodes\n  these run there: all-workers-restart"},
		"a drill":                  {[]string{"chaos", "paxos-lease", "--cluster=external"}, "cuts nodes off"},
		"another store":            {[]string{"chaos", "steady", "--cluster=external", "--store=etcd", "--system=exec:true"}, "an external cluster is one of Cassandra"},
		"a release":                {[]string{"chaos", "steady", "--cluster=external", "--cassandra=5.0.9"}, "its own affair"},
		"a Paxos variant":          {[]string{"chaos", "steady", "--cluster=external", "--paxos=v1"}, "its own affair"},
		"bench":                    {[]string{"bench", "--cluster=external"}, "--contact-points is missing"},
		"another command":          {[]string{"power", "--cluster=external"}, "power does not run on an external cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRootCmd()
			var out bytes.Buffer
			root.SetArgs(c.args)
			root.SetOut(&out)
			root.SetErr(&out)
			err := root.Execute()
			var ee *exitError
			if !errors.As(err, &ee) || ee.code != exitUsage || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q with exit code 64", err, c.want)
			}
		})
	}
}

func TestAllWithoutControl(t *testing.T) {
	t.Parallel()
	jobs, err := chaosFlags{}.jobs("all", ".")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	can, err := withoutControl(jobs, true, &out)
	if err != nil || len(can) == 0 || len(can) == len(jobs) {
		t.Fatalf("%d of %d, %v", len(can), len(jobs), err)
	}
	for _, j := range jobs {
		name := j.plan.Spec.Name
		runs := slices.ContainsFunc(can, func(c job) bool { return c.plan.Spec.Name == name })
		if told := strings.Contains(out.String()+",", " "+name+",") || strings.Contains(out.String(), " "+name+"\n"); runs == told {
			t.Errorf("%s: it runs: %t, it is told to be left out: %t\n%s", name, runs, told, out.String())
		}
	}
}

// Without a daemon, auto says what it tried and what to do about each.
func TestNeitherLocalNorDocker(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
	cannot := errors.New("no user namespaces\nremedy: as root")
	_, _, err := insteadOfLocal(t.Context(), "auto", cannot)
	if err == nil || !errors.Is(err, cannot) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"no user namespaces", "remedy: as root", "unix:///nowhere/docker.sock", "install Docker"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if _, _, err := insteadOfLocal(t.Context(), "local", cannot); !errors.Is(err, cannot) || strings.Contains(err.Error(), "nowhere") {
		t.Errorf("who asked for local gets: %v", err)
	}
	f := checkDocker(t.Context())
	if !strings.Contains(f.detail, "no such socket") || !strings.Contains(f.remedy, "install Docker") || f.needed {
		t.Errorf("doctor says: %+v", f)
	}
	_, _, err = startDocker(t.Context(), docker.Config{}, io.Discard)
	var de *docker.DaemonError
	if !errors.As(err, &de) {
		t.Errorf("a run on containers: %v", err)
	}
}

func TestDockerChosen(t *testing.T) {
	where, why, err := chooseCluster(t.Context(), "docker")
	if where != "docker" || why != "as asked" || err != nil {
		t.Errorf("%s, %s, %v", where, why, err)
	}
}

func TestUpRefusesUnknownCluster(t *testing.T) {
	for _, args := range [][]string{
		{"up", "--cluster=podman"}, {"up", "--cluster=up"},
		{"up", "--datacenters=3,x"}, {"up", "--datacenters=3,0"}, {"up", "--datacenters=3,1", "--cluster=docker"}, {"up", "--datacenters=3,1", "--schedulers=3"},
	} {
		cmd := newRootCmd()
		cmd.SetArgs(args)
		if code := exitCode(cmd.ExecuteContext(t.Context()), io.Discard); code != exitUsage {
			t.Errorf("%v: exit code %d, want %d", args, code, exitUsage)
		}
	}
}

// A kept cluster that is started in the background is the one that was asked for.
func TestUpArgs(t *testing.T) {
	o := upOptions{nodes: nodeChoice{paxos: "v2"}, heapMiB: 512, seed: 3, cluster: "docker", image: "x:1", layout: cluster.Plain()}
	got, want := strings.Join(o.args(), " "), "up --cassandra= --paxos=v2 --heap=512 --seed=3 --cluster=docker --image=x:1"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	o.layout = cluster.Layout{3, 1}
	if got = strings.Join(o.args(), " "); got != want+" --datacenters=3,1" {
		t.Errorf("%s\nwant %s --datacenters=3,1", got, want)
	}
}

type withInfo struct {
	cluster.Cluster
	image string
}

func (w withInfo) Info() map[string]string { return map[string]string{"image": w.image} }

func TestDockerAgain(t *testing.T) {
	for image, want := range map[string]string{docker.DefaultImage: " CLUSTER=docker", "own:1": " CLUSTER=docker IMAGE=own:1"} {
		if got := dockerAgain(withInfo{image: image}); got != want {
			t.Errorf("%s: %q", image, got)
		}
	}
}

func TestStartDockerInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := startDocker(ctx, docker.Config{}, io.Discard); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("%v", err)
	}
}
