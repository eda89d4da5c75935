// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime/pprof"
)

// Go's own profile of the same time, into the file that WICK_GO_PROFILE names.
func startProfile() func() {
	name := os.Getenv("WICK_GO_PROFILE")
	if name == "" {
		return func() {}
	}
	file, err := os.Create(name)
	if err != nil || pprof.StartCPUProfile(file) != nil {
		os.Exit(1)
	}
	return func() { pprof.StopCPUProfile(); file.Close() }
}
