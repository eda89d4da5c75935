// SPDX-License-Identifier: Apache-2.0

// The work of tests/clients/clients.inc, in Go: heavy and light, 7 : 3, for so many seconds of CPU time, with allocations, contention and labels that are
// known. With -push URL it sends by Pyroscope's SDK, else it serves net/http/pprof and godeltaprof on an address that it prints.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/grafana/pyroscope-go"
	_ "github.com/grafana/pyroscope-go/godeltaprof/http/pprof"
)

var sink uint64
var kept [][]byte
var lock sync.Mutex

//go:noinline
func spin(rounds int) {
	x := sink
	for i := 0; i < rounds*20000; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

//go:noinline
func heavy() { spin(7) }

//go:noinline
func light() { spin(3) }

// Sizes of many classes, so that Go's heap profile has samples with many values of its label `bytes`.
//
//go:noinline
func allocate() {
	for size := 16; size <= 32768; size *= 2 {
		kept = append(kept, make([]byte, size))
	}
	if len(kept) > 4096 {
		kept = nil
	}
}

//go:noinline
func contend() {
	var done sync.WaitGroup
	lock.Lock()
	done.Add(1)
	go func() {
		lock.Lock()
		lock.Unlock()
		done.Done()
	}()
	time.Sleep(2 * time.Millisecond)
	lock.Unlock()
	done.Wait()
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func work(seconds float64) {
	until := cpu() + time.Duration(seconds*float64(time.Second))
	for turn := 0; cpu() < until; turn++ {
		pyroscope.TagWrapper(context.Background(), pyroscope.Labels("vehicle", "bike"), func(context.Context) {
			for i := 0; i < 200; i++ {
				heavy()
				light()
			}
		})
		allocate()
		if turn%10 == 0 {
			contend()
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	push := flag.String("push", "", "address of the server")
	seconds := flag.Float64("seconds", 5, "CPU time")
	flag.Parse()
	runtime.MemProfileRate = 4096
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	if *push == "" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(err)
		fmt.Println(listener.Addr())
		go func() { must(http.Serve(listener, nil)) }()
		work(*seconds)
		return
	}
	profiler, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: "shop.go",
		ServerAddress:   *push,
		Logger:          pyroscope.StandardLogger,
		Tags:            map[string]string{"region": "eu"},
		ProfileTypes: []pyroscope.ProfileType{
			pyroscope.ProfileCPU, pyroscope.ProfileAllocObjects, pyroscope.ProfileAllocSpace, pyroscope.ProfileInuseObjects,
			pyroscope.ProfileInuseSpace, pyroscope.ProfileGoroutines, pyroscope.ProfileMutexCount, pyroscope.ProfileMutexDuration,
			pyroscope.ProfileBlockCount, pyroscope.ProfileBlockDuration,
		},
	})
	must(err)
	begun := cpu()
	work(*seconds)
	used := cpu() - begun // what comes then is not sampled any more
	must(profiler.Stop())
	fmt.Printf("cpu_ns %d\n", used.Nanoseconds())
}
