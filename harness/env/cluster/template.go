package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fencepost/harness/env/sandbox"
	"fencepost/scripts"
)

const (
	// templateFormat is part of a template's key; raise it when what is put into
	// a template changes otherwise than by configuration.
	templateFormat = "1"
	// templatesKept is how many templates stay in the cache.
	templatesKept = 8
	// logDirsKept is how many default log directories stay in the cache.
	logDirsKept = 10

	archiveName = "classes.jsa"
	// making ends the name of a template that is not finished.
	making = ".making"

	stopTimeout = 60 * time.Second
	lockPoll    = 100 * time.Millisecond
)

// dataTemplate is a bootstrapped empty cluster in the cache.
type dataTemplate struct {
	dir     string
	archive string // class data sharing archive, "" if Java made none
}

func (t *dataTemplate) data(node string) string { return filepath.Join(t.dir, node) }

// templateKey names everything that a template depends on.
func templateKey(config LocalConfig, java Java, jars []string) (string, error) {
	h := sha256.New()
	neutral := config.neutral()
	fmt.Fprint(h, templateFormat, config.Layout, java.Path, java.Runtime, strings.TrimSpace(scripts.CassandraSums(config.Release)), Logback)
	for i := range config.Layout.Nodes() {
		yaml, err := neutral.yamlFor(i, "DATA")
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, yaml, config.Layout.rackdc(i))
	}
	args, err := config.line.jvmArgs(jars, config.HeapMiB, "DIR", cds{})
	if err != nil {
		return "", err
	}
	statements, err := furniture(config.Layout)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(h, args, statements)
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// ensureTemplate returns the template for config, made now if need be. Several
// processes may ask at once: one makes it, the others wait.
func ensureTemplate(ctx context.Context, network *sandbox.Network, config LocalConfig, java Java, jars []string) (*dataTemplate, error) {
	key, err := templateKey(config, java, jars)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(config.CacheDir, "templates")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("cluster: templates: %w", err)
	}
	lock, err := lockTemplates(ctx, root, config.Progress)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	dir := filepath.Join(root, key)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		config.Progress("first start with this configuration: bootstrapping an empty cluster as a template (once, about a minute) …")
		if err := makeTemplate(ctx, network, config, java, jars, dir); err != nil {
			return nil, fmt.Errorf("cluster: bootstrap the template: %w", err)
		}
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil {
		return nil, fmt.Errorf("cluster: templates: %w", err)
	}
	if err := keepNewest(root, templatesKept, func(string) bool { return false }); err != nil {
		return nil, err
	}
	t := &dataTemplate{dir: dir, archive: filepath.Join(dir, archiveName)}
	if _, err := os.Stat(t.archive); err != nil {
		t.archive = ""
		config.Progress("Java made no class archive with the template: starts take longer")
	}
	return t, nil
}

// lockTemplates waits until no other process makes a template, and removes what
// one that died has left.
func lockTemplates(ctx context.Context, root string, progress func(string)) (*os.File, error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for told := false; ; told = true {
		lock, err := LockFile(filepath.Join(root, "guard"), false)
		if err == nil {
			return lock, removeUnfinished(root)
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("cluster: templates: %w", err)
		}
		if !told {
			progress("another process is making a template: waiting for it …")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("cluster: waiting for another process that is making a template: %w", context.Cause(ctx))
		}
	}
}

func removeUnfinished(root string) error {
	found, err := filepath.Glob(filepath.Join(root, "*"+making))
	if err != nil {
		return fmt.Errorf("cluster: templates: %w", err)
	}
	for _, dir := range found {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("cluster: templates: %w", err)
		}
	}
	return nil
}

// makeTemplate bootstraps a cluster, ends it in good order, and keeps its data
// and the class archive under dir.
func makeTemplate(ctx context.Context, network *sandbox.Network, config LocalConfig, java Java, jars []string, dir string) (err error) {
	config = config.neutral()
	config.LogDir = ""
	began := time.Now()
	// In the templates' own directory, so that the final rename stays on one file system.
	unfinished := dir + making
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(unfinished))
		}
	}()
	l, err := newLocal(network, config, java, jars, nil, cds{dump: filepath.Join(unfinished, archiveName)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close(context.WithoutCancel(ctx))) }()
	startCtx, cancelStart := context.WithTimeoutCause(ctx, config.StartTimeout, errStartTimeout)
	defer cancelStart()
	if err := l.startAll(startCtx); err != nil {
		return err
	}
	if err := l.furnish(startCtx); err != nil {
		return err
	}
	// In good order: memtables are flushed, and Java writes the archive.
	stopCtx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := l.nodes.Each(func(n *localNode) error { return n.Stop(stopCtx) }); err != nil {
		return err
	}
	for _, n := range l.nodes {
		if err := CopyTree(filepath.Join(n.dir, "data"), filepath.Join(unfinished, n.Name())); err != nil {
			return err
		}
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return err
	}
	config.Progress(fmt.Sprintf("the template is ready after %.1f s", time.Since(began).Seconds()))
	return nil
}

// CopyTree copies directories and plain files.
func CopyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case d.Type().IsRegular():
			return copyFile(path, target)
		default:
			return fmt.Errorf("%s is neither a file nor a directory", path)
		}
	})
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// MakeLogDir makes LogDir, or else a directory in the cache, from which the oldest go. id is
// the name of the scratch directory of those whose logs these are: while it is there, their logs
// stay, however many have been started since.
func (c LocalConfig) MakeLogDir(id string) (string, error) {
	root := filepath.Join(c.CacheDir, "logs")
	dir := cmp.Or(c.LogDir, filepath.Join(root, id))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cluster: logs: %w", err)
	}
	if c.LogDir != "" {
		return dir, nil
	}
	return dir, keepNewest(root, logDirsKept, func(id string) bool {
		_, err := os.Stat(filepath.Join(c.CacheDir, scratchName, id))
		return err == nil
	})
}

// keepNewest removes all but the most recently changed subdirectories of root, and those that
// are in use.
func keepNewest(root string, keep int, used func(name string) bool) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	type dir struct {
		path string
		time time.Time
	}
	var dirs []dir
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || strings.HasSuffix(e.Name(), making) || used(e.Name()) {
			continue
		}
		dirs = append(dirs, dir{filepath.Join(root, e.Name()), info.ModTime()})
	}
	slices.SortFunc(dirs, func(a, b dir) int { return b.time.Compare(a.time) })
	for _, d := range dirs[min(keep, len(dirs)):] {
		if err := os.RemoveAll(d.path); err != nil {
			return fmt.Errorf("cluster: %w", err)
		}
	}
	return nil
}
