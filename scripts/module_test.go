package scripts

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// elsewhere is where the module is published, in this test alone.
var elsewhere = module.Version{Path: "example.org/x/fencepost", Version: "v0.0.1"}

// copyTree copies what git tracks, as it is now.
func copyTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range tracked(t) {
		b, err := os.ReadFile(filepath.Join("..", name))
		if os.IsNotExist(err) {
			continue
		}
		st, statErr := os.Stat(filepath.Join("..", name))
		if err != nil || statErr != nil {
			t.Fatal(err, statErr)
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, st.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// in runs a command and returns what it prints.
func in(t *testing.T, dir string, env []string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, &stdout, &stderr)
	}
	return strings.TrimSpace(stdout.String())
}

// publish writes a tree as a proxy of modules has it, and returns the proxy's address.
func publish(t *testing.T, tree string) string {
	t.Helper()
	proxy := t.TempDir()
	dir := filepath.Join(proxy, filepath.FromSlash(elsewhere.Path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	if err := modzip.CreateFromDir(&packed, elsewhere, tree); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for ending, b := range map[string][]byte{
		".zip": packed.Bytes(), ".mod": mod, ".info": []byte(`{"Version":"` + elsewhere.Version + `"}`),
	} {
		if err := os.WriteFile(filepath.Join(dir, elsewhere.Version+ending), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + proxy
}

// ofTheHarness are parts of modules' paths that no user of the core gets.
var ofTheHarness = []string{
	"docker", "moby", "testcontainers", "compose-spec", "toxiproxy", "chromedp", "netlink", "netns", "nftables",
	"cobra", "porcupine", "honnef.co",
}

// TestModulePath: after make module, which may be done again, somebody else's module fetches
// this one by its path and builds all of the core. It gets nothing that only the harness needs.
func TestModulePath(t *testing.T) {
	t.Parallel()
	tree := copyTree(t)
	in(t, tree, nil, "make", "--no-print-directory", "module", "PATH="+elsewhere.Path)
	if got := in(t, tree, nil, "go", "list", "-m"); got != elsewhere.Path {
		t.Errorf("the module is %s", got)
	}
	if again := in(t, tree, nil, "make", "--no-print-directory", "module", "PATH="+elsewhere.Path); again != "" {
		t.Errorf("done again it says %q", again)
	}
	if left := in(t, tree, nil, "gofmt", "-l", "core", "harness", "reports"); left != "" {
		t.Errorf("not formatted:\n%s", left)
	}

	var imports strings.Builder
	for pkg := range strings.Lines(in(t, tree, nil, "go", "list", "-f", `{{if ne .Name "main"}}{{.ImportPath}}{{end}}`, "./core/...")) {
		if pkg = strings.TrimSpace(pkg); pkg != "" {
			fmt.Fprintf(&imports, "\t_ %q\n", pkg)
		}
	}
	user := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.com/user\n\ngo 1.26.0\n",
		"main.go": "package main\n\nimport (\n" + imports.String() + ")\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(user, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cache := t.TempDir()
	env := []string{ // what others publish comes from this machine's cache
		"GOPROXY=" + publish(t, tree) + ",file://" + filepath.Join(in(t, ".", nil, "go", "env", "GOMODCACHE"), "cache", "download") + "," + in(t, ".", nil, "go", "env", "GOPROXY"),
		"GONOSUMDB=*", "GOFLAGS=-mod=mod -modcacherw -trimpath -buildvcs=false", "GOMODCACHE=" + cache, "CGO_ENABLED=0",
	}
	in(t, user, env, "go", "get", elsewhere.String())
	in(t, user, env, "go", "build", "-o", os.DevNull, ".")
	in(t, user, env, "go", "build", elsewhere.Path+"/core/...")
	if _, err := fs.Stat(os.DirFS(cache), elsewhere.String()); err != nil {
		t.Errorf("it was not fetched: %v", err)
	}

	in(t, user, env, "go", "mod", "tidy", "-e") // -e: what tests of others need may be missing here
	required, err := os.ReadFile(filepath.Join(user, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	built := in(t, user, env, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	for where, names := range map[string]string{"go.mod": string(required), "go list -deps": built} {
		if !strings.Contains(names, "github.com/gocql/gocql") {
			t.Errorf("%s lacks the driver:\n%s", where, names)
		}
		for _, name := range ofTheHarness {
			if strings.Contains(names, name) {
				t.Errorf("%s of the user names %s:\n%s", where, name, names)
			}
		}
	}
}

func TestModuleRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"../x"}, {"a b"}, {"example.org/x", "example.org/y"}} {
		out, err := exec.Command("./module", args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "usage: scripts/module PATH") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
}
