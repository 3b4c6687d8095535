package checker
import ("testing";"runtime";"runtime/debug";"context";"os";"strings")
func TestTmpMem(t *testing.T) {
	dir := os.Getenv("MEMDIR")
	if dir == "" { t.Skip() }
	debug.SetGCPercent(40)
	rss := func(tag string){ b,_:=os.ReadFile("/proc/self/status"); var m runtime.MemStats; runtime.ReadMemStats(&m)
		for l := range strings.Lines(string(b)) { if strings.HasPrefix(l,"VmHWM")||strings.HasPrefix(l,"VmRSS") { t.Log(tag, strings.TrimSpace(l)) } }
		t.Logf("%s heapalloc %d sys %d", tag, m.HeapAlloc>>20, m.HeapSys>>20)
		os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }
	h, err := Read(dir); if err != nil { t.Fatal(err) }
	rss("read")
	debug.FreeOSMemory(); rss("freed")
	a := analyse(h, Options{}.withDefaults()); rss("analysed"); runtime.GC(); rss("analysed gc"); _ = a
	r := Check(context.Background(), h, Options{}); rss("checked"); runtime.GC(); rss("gc"); _ = r
}
func TestTmpWrite(t *testing.T) {
	dir := os.Getenv("WDIR"); if dir == "" { t.Skip() }
	cfg := simConfig{seed: 1, workers: 8, clients: 8, locks: 10, ttl: 600e6, length: 3600e9, maxEvents: 900000, noise: 0.01, pause: 0.01, crash: 0.2}
	writeFiles(t, simulate(cfg), dir)
}
