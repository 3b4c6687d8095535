package runlog

// AtWork is how many ownerships have runs that are not settled.
func (l *Log) AtWork() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.reigns)
}
