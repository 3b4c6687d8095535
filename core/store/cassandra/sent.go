package cassandra

// Sent counts the requests that were handed to the driver, whatever became of them.
type Sent struct {
	Conditional int64 // conditional statements and batches
	Serial      int64 // SERIAL reads
	Plain       int64 // the rest
}

// Sent returns what was sent so far.
func (db *DB) Sent() Sent {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.sent
}

func (db *DB) count(info StatementInfo) {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case info.SerialConsistency != "":
		db.sent.Conditional++
	case info.Consistency == db.cfg.Serial:
		db.sent.Serial++
	default:
		db.sent.Plain++
	}
}
