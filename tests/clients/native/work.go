// SPDX-License-Identifier: Apache-2.0
// The work of tests/clients/clients.inc, in Go of any version, without a module: work SECONDS.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

var sink uint32

//go:noinline
func heavy() {
	for i := uint32(0); i < 700000; i++ {
		sink = sink*31 + i
	}
}

//go:noinline
func light() {
	for i := uint32(0); i < 300000; i++ {
		sink = sink*31 + i
	}
}

func cpuNs() int64 {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Utime.Nano() + used.Stime.Nano()
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		panic(err)
	}
	for cpuNs() < int64(seconds*1e9) {
		heavy()
		light()
	}
	fmt.Println("cpu_ns", cpuNs())
}
