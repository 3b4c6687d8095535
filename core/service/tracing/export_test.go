package tracing

// AtWork is how many runs are remembered.
func (t *Tracer) AtWork() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.atWork)
}
