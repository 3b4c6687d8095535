package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/external"
	"fencepost/harness/env/login"
	"fencepost/harness/scenario"
)

// externalUsage follows clusterUsage where a cluster of somebody else will do.
const externalUsage = ", external (your own: docs/external-cluster.md)"

// clusterExternal is the value of --cluster for a cluster that somebody else runs.
const clusterExternal = "external"

// externalFlags say where it is and what is shown to it.
type externalFlags struct {
	points                             []string
	datacenter, username, passwordFile string
	tls, insecure                      bool
	ca, cert, key, serverName          string
}

// externalFlag is a flag of external clusters.
type externalFlag struct {
	name, about string
	toggle      bool
}

var externalFlagTable = []externalFlag{
	{name: "contact-points", about: "nodes, as host or host:port with commas between; the others are found by them"},
	{name: "datacenter", about: "data centre of the run's keyspace and clients (default: the only one)"},
	{name: "username", about: "log in as; the password is in $" + external.PasswordEnv + " or --password-file, never on the command line"},
	{name: "password-file", about: "file with the password"},
	{name: "tls", about: "speak TLS to the nodes", toggle: true},
	{name: "tls-ca", about: "authority that signed the nodes' certificates, PEM (default: the system's)"},
	{name: "tls-cert", about: "client certificate, PEM"},
	{name: "tls-key", about: "key of the client certificate, PEM"},
	{name: "tls-server-name", about: "name in the nodes' certificates (default: each node's contact point or IP)"},
	{name: "tls-insecure", about: "do not verify certificates: anybody on the path can read and change everything", toggle: true},
}

// addExternalFlags adds them to a command that can run on an external cluster.
func addExternalFlags(fl *pflag.FlagSet) {
	for _, f := range externalFlagTable {
		about := "--cluster=external: " + f.about
		if f.toggle {
			fl.Bool(f.name, false, about)
		} else {
			fl.String(f.name, "", about)
		}
	}
}

// givenExternal are those that were given, as flags and as make's variables; none of
// them is secret.
func givenExternal(fl *pflag.FlagSet) (flags, variables []string) {
	for _, f := range externalFlagTable {
		if !fl.Changed(f.name) {
			continue
		}
		value := fl.Lookup(f.name).Value.String()
		flags = append(flags, "--"+f.name+"="+value)
		if f.toggle {
			value = "1"
		}
		variables = append(variables, strings.ToUpper(strings.ReplaceAll(f.name, "-", "_"))+"="+value)
	}
	return flags, variables
}

// makeExternal is what make needs to go to the same cluster again, toolExternal what
// the tool does; "" for clusters of the harness's own.
func makeExternal(fl *pflag.FlagSet, where string) string {
	_, variables := givenExternal(fl)
	return again(where, "CLUSTER=external", variables)
}

func toolExternal(fl *pflag.FlagSet, where string) string {
	flags, _ := givenExternal(fl)
	return again(where, "--cluster=external", flags)
}

func again(where, first string, more []string) string {
	if where != clusterExternal {
		return ""
	}
	return " " + strings.Join(append([]string{first}, more...), " ")
}

func readExternalFlags(fl *pflag.FlagSet) externalFlags {
	text := func(name string) string { return fl.Lookup(name).Value.String() }
	var f externalFlags
	for p := range strings.SplitSeq(text("contact-points"), ",") {
		if p = strings.TrimSpace(p); p != "" {
			f.points = append(f.points, p)
		}
	}
	f.datacenter, f.username, f.passwordFile = text("datacenter"), text("username"), text("password-file")
	f.tls, f.insecure = text("tls") == "true", text("tls-insecure") == "true"
	f.ca, f.cert, f.key, f.serverName = text("tls-ca"), text("tls-cert"), text("tls-key"), text("tls-server-name")
	return f
}

// config reads the files and finds everything that is wrong at once. password is the
// environment's.
func (f externalFlags) config(ctx context.Context, password string) (external.Config, error) {
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	read := func(flag, path string) []byte {
		if path == "" {
			return nil
		}
		b, err := os.ReadFile(within(ctx, path))
		switch {
		case err != nil:
			problem("--%s: %v", flag, err)
		case len(b) == 0:
			problem("--%s: %s is empty", flag, path)
		}
		return b
	}
	if len(f.points) == 0 {
		problem("--contact-points is missing: host or host:port of one node or more")
	}
	for _, p := range f.points {
		if _, _, err := external.ParseContactPoint(p); err != nil {
			problem("--contact-points: %v", err)
		}
	}
	l := login.Login{LocalDC: f.datacenter, Username: f.username}
	file := strings.TrimRight(string(read("password-file", f.passwordFile)), "\r\n")
	switch l.Password = password; {
	case f.passwordFile != "" && password != "":
		problem("the password is in %s and in --password-file: which one?", external.PasswordEnv)
	case f.passwordFile != "":
		l.Password = file
	}
	switch {
	case f.username != "" && f.passwordFile == "" && password == "":
		problem("--username without a password: set %s, or name a file by --password-file", external.PasswordEnv)
	case f.username == "" && f.passwordFile != "":
		problem("--password-file without --username")
	case f.username == "":
		l.Password = "" // the environment may have it for another command
	}
	ca, cert, key := read("tls-ca", f.ca), read("tls-cert", f.cert), read("tls-key", f.key)
	for _, given := range []struct {
		flag string
		set  bool
	}{{"tls-ca", f.ca != ""}, {"tls-cert", f.cert != ""}, {"tls-key", f.key != ""}, {"tls-server-name", f.serverName != ""}, {"tls-insecure", f.insecure}} {
		if given.set && !f.tls {
			problem("--%s without --tls", given.flag)
		}
	}
	switch {
	case (f.cert == "") != (f.key == ""):
		problem("--tls-cert and --tls-key belong together")
	case f.insecure && (f.ca != "" || f.serverName != ""):
		problem("--tls-insecure verifies nothing, so --tls-ca and --tls-server-name have no effect")
	}
	if f.tls {
		l.TLS = &login.TLS{CA: ca, Cert: cert, Key: key, ServerName: f.serverName, Insecure: f.insecure}
		if len(problems) == 0 {
			if _, err := l.Config(); err != nil {
				problem("%v", err)
			}
		}
	}
	switch len(problems) {
	case 0:
		return external.Config{ContactPoints: f.points, Login: l}, nil
	case 1:
		return external.Config{}, usageError(errors.New(problems[0]))
	}
	return external.Config{}, usageError(fmt.Errorf("%d problems:\n  %s", len(problems), strings.Join(problems, "\n  ")))
}

// startExternal connects to the cluster. The function that is returned ends the
// connection and leaves nothing there.
func startExternal(ctx context.Context, cfg external.Config, progress io.Writer) (cluster.Cluster, func() error, error) {
	cfg.Progress = func(s string) { fmt.Fprintln(progress, "  "+s) }
	if cfg.Login.Username != "" && cfg.Login.TLS == nil {
		cfg.Progress("! without --tls the password and all data cross the network as they are")
	}
	if cfg.Login.TLS != nil && cfg.Login.TLS.Insecure {
		cfg.Progress("! --tls-insecure: certificates are not verified; anybody on the path can read and change everything, also the password")
	}
	c, err := external.Connect(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range cluster.AccessTo(c).Notes {
		cfg.Progress("note: " + n)
	}
	return c, func() error { return c.Close(ctx) }, nil
}

// onExternal does work on an external cluster, in this process.
func onExternal(cmd *cobra.Command, nodes nodeChoice, work func(*site) error) error {
	ctx := cmd.Context()
	if cmd.Flags().Lookup("contact-points") == nil {
		return usageError(fmt.Errorf("%s does not run on an external cluster; chaos, bench and replay do", cmd.Name()))
	}
	if cmd.Flags().Changed("paxos") {
		return usageError(fmt.Errorf("--paxos=%s: the Paxos variant of an external cluster is its own affair", nodes.paxos))
	}
	if nodes.store != "" {
		return usageError(fmt.Errorf("--store=%s: an external cluster is one of Cassandra", nodes.store))
	}
	if cmd.Flags().Changed("cassandra") {
		return usageError(fmt.Errorf("--cassandra=%s: the release of an external cluster is its own affair", nodes.release))
	}
	// Workers and all other processes from here on shall not inherit it.
	password := os.Getenv(external.PasswordEnv)
	if err := os.Unsetenv(external.PasswordEnv); err != nil {
		return err
	}
	cfg, err := readExternalFlags(cmd.Flags()).config(ctx, password)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "cluster: external (as asked)\n")
	c, end, err := startExternal(ctx, cfg, cmd.OutOrStdout())
	if err != nil {
		return err
	}
	return (&site{backend: clusterExternal, cluster: c, end: end}).do(work)
}

// noExternalFlags refuses flags that would mean nothing on another cluster.
func noExternalFlags(cmd *cobra.Command, want string) error {
	if given, _ := givenExternal(cmd.Flags()); len(given) > 0 {
		return usageError(fmt.Errorf("%s: for --cluster=external only, not %s", strings.Join(given, ", "), want))
	}
	return nil
}

// withoutControl refuses jobs whose faults need more than an external cluster lets
// anybody do; of all jobs it leaves those out, and says so.
func withoutControl(jobs []job, all bool, out io.Writer) ([]job, error) {
	var can []job
	var left, why []string
	for _, j := range jobs {
		if reason := j.plan.Spec.NeedsControl(); reason != "" {
			left, why = append(left, j.plan.Spec.Name), append(why, j.plan.Spec.Name+": "+reason)
			continue
		}
		can = append(can, j)
	}
	switch {
	case len(left) == 0:
		return can, nil
	case all:
		fmt.Fprintf(out, "left out, as the nodes of an external cluster are not to be broken: %s\n", strings.Join(left, ", "))
		return can, nil
	}
	names, err := scenario.WithoutControl()
	if err != nil {
		return nil, err
	}
	return nil, usageError(fmt.Errorf("the nodes of an external cluster are not to be broken: %s\n  these run there: %s", strings.Join(why, "; "), strings.Join(names, ", ")))
}
