// SPDX-License-Identifier: Apache-2.0

// A Go program whose stacks tell by their functions' names what they must look like (tests/agent/go.test.sh): SECONDS KIND.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"time"
)

var sink int
var kept [][]byte

//go:noinline
func workLeaf(n int) {
	for i := 0; i < n; i++ {
		sink = sink*3 + i
	}
}

//go:noinline
func workMiddle(n int) { workLeaf(n); sink++ }

//go:noinline
func settle(n int) {
	for i := 0; i < n; i++ {
		sink = sink*5 + i
	}
}

// Allocates, so that the runtime is on the scheduler's stack.
//
//go:noinline
func allocLeaf(n int) {
	for i := 0; i < n; i++ {
		kept[i%len(kept)] = make([]byte, 64+i*37%8000)
	}
}

//go:noinline
func allocMiddle(n int) { allocLeaf(n); sink++ }

// Frames of 400 bytes or so: the stack grows, and is copied, time and again.
//
//go:noinline
func growStack(depth int) int {
	var room [48]int
	room[depth%48] = depth
	if depth > 0 {
		room[0] += growStack(depth - 1)
	}
	return room[0] + room[depth%48]
}

//go:noinline
func growRoot(done chan int) { done <- growStack(2000) }

//go:noinline
func clockMiddle(n int) {
	for i := 0; i < n; i++ {
		sink += int(time.Now().UnixNano() & 1)
	}
}

//go:noinline
func jsonMiddle(n int) {
	values := map[string][]int{}
	for i := 0; i < 40; i++ {
		values[strconv.Itoa(i*n)] = []int{i, n, i * n}
	}
	text, _ := json.Marshal(values)
	var back map[string][]int
	_ = json.Unmarshal(text, &back)
	numbers := make([]int, 1000)
	for i := range numbers {
		numbers[i] = i * 7919 % 1009
	}
	sort.Ints(numbers)
	sink += len(back)
}

//go:noinline
func gcMiddle(n int) { runtime.GC(); sink += n }

//go:noinline
func pingMiddle(in, out chan int) {
	for value := range in {
		out <- value + 1
	}
	close(out)
}

//go:noinline
func pongMiddle(in, out chan int, until time.Time) {
	for time.Now().Before(until) {
		for i := 0; i < 1000; i++ {
			out <- i
			sink += <-in
		}
	}
	close(out)
}

func channels(until time.Time) {
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		there, back := make(chan int, i), make(chan int)
		go pingMiddle(there, back)
		all.Add(1)
		go func() { defer all.Done(); pongMiddle(back, there, until) }()
	}
	all.Wait()
}

//go:noinline
func run(kind string, until time.Time) bool {
	for time.Now().Before(until) {
		switch kind {
		case "work":
			workMiddle(1000000)
		case "alloc":
			allocMiddle(1000)
		case "grow":
			done := make(chan int)
			go growRoot(done)
			sink += <-done
		case "clock":
			clockMiddle(1000)
		case "json":
			jsonMiddle(10)
		case "gc":
			gcMiddle(1)
		case "channels":
			channels(until)
		default:
			if !runMore(kind) {
				return false
			}
		}
	}
	return true
}

func main() {
	kept = make([][]byte, 20000)
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	// What the agent learns of a new process takes a moment: here, where it does not count.
	for settled := time.Now().Add(300 * time.Millisecond); time.Now().Before(settled); {
		settle(1000000)
	}
	if !run(os.Args[2], time.Now().Add(time.Duration(seconds*1e9))) {
		fmt.Fprintln(os.Stderr, "unknown kind")
		os.Exit(2)
	}
}
