// Package pace keeps a program busy for a share of one processor.
package pace

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Check ends the program when err is an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Run calls work with 0, 1, 2 … for the seconds of the first argument, and sleeps so that the
// process uses the percentage of a processor of the second.
func Run(work func(turn int)) {
	runtime.GOMAXPROCS(2)
	share := float64(number(2, 3)) / 100
	end := time.Now().Add(time.Duration(number(1, 600)) * time.Second)
	for turn := 0; time.Now().Before(end); turn++ {
		began, before := time.Now(), used()
		work(turn)
		busy := (used() - before).Seconds()
		pause := time.Duration(busy/share*1e9) - time.Since(began)
		time.Sleep(max(pause, time.Millisecond))
	}
}

func number(index, missing int) int {
	if len(os.Args) <= index {
		return missing
	}
	value, err := strconv.Atoi(os.Args[index])
	Check(err)
	return value
}

// CPU time of this process.
func used() time.Duration {
	var usage syscall.Rusage
	Check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
