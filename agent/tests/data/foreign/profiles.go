// Writes profiles of itself: CPU time, memory and waits for a lock.
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

var kept [][]byte

//go:noinline
func keep(n int) {
	for i := 0; i < n; i++ {
		kept = append(kept, make([]byte, 1<<16))
	}
}

//go:noinline
func drop(n int) {
	for i := 0; i < n; i++ {
		sink = make([]byte, 1<<18)
	}
}

var sink []byte
var total uint64

//go:noinline
func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := uint64(0); i < 1_000_000; i++ {
			total += i * i
		}
	}
}

func write(name, path string) {
	file, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	pprof.Lookup(name).WriteTo(file, 0)
	file.Close()
}

func main() {
	runtime.MemProfileRate = 1 << 16
	runtime.SetMutexProfileFraction(1)
	file, _ := os.Create("go_cpu.pb.gz")
	pprof.StartCPUProfile(file)
	spin(500 * time.Millisecond)
	pprof.StopCPUProfile()
	file.Close()
	keep(64)
	drop(64)
	runtime.GC()
	write("heap", "go_heap.pb.gz")
	var lock sync.Mutex
	var group sync.WaitGroup
	for i := 0; i < 2; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for j := 0; j < 20; j++ {
				lock.Lock()
				spin(2 * time.Millisecond)
				lock.Unlock()
			}
		}()
	}
	group.Wait()
	write("mutex", "go_mutex.pb.gz")
}
