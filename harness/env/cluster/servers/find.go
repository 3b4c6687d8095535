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

// Faketime is the library that sets the clocks of servers, by the name that scripts/fetch-store knows.
const Faketime = "libfaketime"

// FindFaketime finds the machine's own, or that of Debian in the cache.
func FindFaketime(cacheDir string) (string, error) {
	for _, root := range []string{"/", fetched(cacheDir, Faketime, scripts.StoreVersions[Faketime])} {
		for _, lib := range []string{"lib/*-linux-*", "lib64", "lib"} {
			// That for programs with threads.
			found, err := filepath.Glob(filepath.Join(root, "usr", lib, "faketime", "libfaketimeMT.so.1"))
			if err != nil {
				return "", err
			}
			if len(found) > 0 {
				return found[0], nil
			}
		}
	}
	return "", fmt.Errorf("%s, which sets the clocks of servers, is not here: run %s", Faketime, fetch(Faketime))
}

// findFaketime finds the library for a store whose servers ask it.
func findFaketime(k Kind, cacheDir string) (string, error) {
	if why := k.Cannot.ServerClock; why != "" {
		return "", fmt.Errorf("clocks of %s's servers cannot be set: %s", k.Name, why)
	}
	return FindFaketime(cacheDir)
}
