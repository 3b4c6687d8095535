package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// as is the user that the harness's own appears as to the server: one that is not root
// and has a name, without which initdb does not work.
const as = "nobody"

// namespaces are those of a server; see the package comment.
func namespaces() (*syscall.SysProcAttr, error) {
	u, err := user.Lookup(as)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL runs as the user %s: %w", as, err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("the numbers of the user %s: %w", as, err)
	}
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}, nil
}

// environ is the environment of a server: a person's own settings of PostgreSQL and
// locale must not reach it.
func environ() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "PG") || strings.HasPrefix(e, "LC_") || strings.HasPrefix(e, "LANG") || strings.HasPrefix(e, "TZ=") {
			continue
		}
		env = append(env, e)
	}
	return env
}
