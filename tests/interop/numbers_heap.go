// SPDX-License-Identifier: Apache-2.0

// Writes its own heap profile, with objects of several sizes allocated at the same places: numbers.mjs stores it.
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

func init() { runtime.MemProfileRate = 1 }

var kept [][]byte

//go:noinline
func allocate(size int) []byte { return make([]byte, size) }

//go:noinline
func keep(size int) { kept = append(kept, allocate(size)) }

func main() {
	for i := 0; i < 100; i++ {
		for _, size := range []int{16, 100, 512, 1000, 4096, 70000} {
			keep(size)
			allocate(2 * size)
		}
	}
	runtime.GC()
	file, err := os.Create(os.Args[1])
	if err == nil {
		err = pprof.Lookup("heap").WriteTo(file, 0)
	}
	if err != nil {
		panic(err)
	}
	runtime.KeepAlive(kept)
}
