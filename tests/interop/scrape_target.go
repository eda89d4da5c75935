// SPDX-License-Identifier: Apache-2.0

// A program with Go's own profiling endpoints, whose allocations, waits and goroutines are known: scrape.test.sh has it scraped.
// Arguments: address to listen on. /work?n=N allocates N objects and waits N times for a lock that another holds.
package main

import (
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

func init() { runtime.MemProfileRate = 1 }

var sink []byte
var lock sync.Mutex

//go:noinline
func allocate(n int) {
	for i := 0; i < n; i++ {
		sink = make([]byte, 4096)
	}
}

//go:noinline
func contend(n int) {
	for i := 0; i < n; i++ {
		lock.Lock()
		done := make(chan bool)
		go func() {
			lock.Lock()
			lock.Unlock()
			done <- true
		}()
		time.Sleep(2 * time.Millisecond)
		unlockContended()
		<-done
	}
}

//go:noinline
func unlockContended() {
	lock.Unlock()
}

//go:noinline
func park(wait chan bool) {
	<-wait
}

//go:noinline
func burn() {
	for x := 0; ; x++ {
		if x%2000000 == 0 {
			time.Sleep(15 * time.Millisecond) // a quarter of a CPU: a second of it has 25 samples
		}
	}
}

func main() {
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	for i := 0; i < 7; i++ {
		go park(make(chan bool))
	}
	go burn()
	http.HandleFunc("/work", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		allocate(n)
		contend(n / 100)
		fmt.Fprintln(w, n)
	})
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(listener.Addr())
	http.Serve(listener, nil)
}
