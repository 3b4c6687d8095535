package lock

// Remembered is the number of resources whose rows a client remembers.
func Remembered(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.resources)
}
