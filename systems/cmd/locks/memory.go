package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"fencepost/systems/drive"
)

// memory is a lock in this program's memory: what a benchmark's orders take by themselves. It is of no
// use to anybody else, and does not let go of a lease that is over.
type memory struct {
	mu   sync.Mutex
	held map[string]string // id by name
}

// inMemory is that of all clients.
var inMemory = &memory{held: map[string]string{}}

func openMemory(context.Context, drive.Place) (drive.Locker, error) { return inMemory, nil }

func (m *memory) Acquire(_ context.Context, name, id string, _ time.Duration) (int64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.held[name]; taken {
		return 0, false, nil
	}
	m.held[name] = id
	return 0, true, nil
}

func (m *memory) Release(_ context.Context, name, id string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[name] != id {
		return false, nil
	}
	delete(m.held, name)
	return true, nil
}

func (m *memory) Renew(context.Context, string, string, time.Duration) (bool, error) {
	return false, errors.ErrUnsupported
}

func (m *memory) Holder(_ context.Context, name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[name], nil
}

func (m *memory) Seal(context.Context, string, string) (bool, error) {
	return false, errors.ErrUnsupported
}

func (m *memory) Close() error { return nil }
