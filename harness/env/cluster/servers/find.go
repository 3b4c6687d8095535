package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"fencepost/harness/env/cluster"
	"fencepost/scripts"
)

// built finds a server that scripts/fetch-store has built from its Go module.
func built(name string) func(context.Context, string) (Program, error) {
	return func(_ context.Context, cacheDir string) (Program, error) {
		version := scripts.StoreVersions[name]
		p := Program{Path: filepath.Join(fetched(cacheDir, name, version), name), Version: version}
		if _, err := os.Stat(p.Path); err != nil {
			return p, err
		}
		return p, nil
	}
}

// fetched is where scripts/fetch-store puts a store's servers.
func fetched(cacheDir, name, version string) string {
	return filepath.Join(cacheDir, "stores", name+"-"+version)
}

var redisVersion = regexp.MustCompile(` v=(\S+)`)

// findRedis finds a Redis server in PATH, or that of Debian in the cache.
func findRedis(ctx context.Context, cacheDir string) (Program, error) {
	const name = "redis-server"
	var p Program
	var err error
	if p.Path, err = exec.LookPath(name); err != nil {
		root := fetched(cacheDir, "redis", scripts.StoreVersions["redis"])
		p.Path = filepath.Join(root, "usr", "bin", name)
		if _, err := os.Stat(p.Path); err != nil {
			return p, err
		}
		libraries, err := filepath.Glob(filepath.Join(root, "usr", "lib", "*-linux-*"))
		if err != nil {
			return p, err
		}
		p.Env = []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}
	}
	cmd := exec.CommandContext(ctx, p.Path, "--version")
	cmd.Env = append(cluster.NodeEnv(), p.Env...)
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("%s --version: %w", p.Path, err)
	}
	m := redisVersion.FindStringSubmatch(string(out))
	if m == nil {
		return p, fmt.Errorf("%s --version says %q", p.Path, out)
	}
	p.Version = m[1]
	return p, nil
}
