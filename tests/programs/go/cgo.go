// SPDX-License-Identifier: Apache-2.0

//go:build cgo
// +build cgo

package main

/*
#include <pthread.h>

extern void goBack(int depth);

static volatile unsigned sink;
static __attribute__((noinline)) void c_leaf(unsigned n) { for (unsigned i = 0; i < n; i++) sink = sink * 3 + i; }
static __attribute__((noinline)) void c_middle(unsigned n) { c_leaf(n); sink++; }

// With a frame whose size is known only at run time: the frame pointer leads out of it.
static __attribute__((noinline)) void c_variable(int depth, unsigned n)
{
	volatile char room[n % 64 + 16];
	room[0] = 1;
	goBack(depth);
	sink += room[0];
}
static __attribute__((noinline)) void c_back(int depth) { c_variable(depth, sink); sink++; }
static void *c_thread(void *unused) { (void)unused; c_back(0); return 0; }
static __attribute__((noinline)) void c_run_thread(void)
{
	pthread_t thread;
	if (pthread_create(&thread, 0, c_thread, 0) == 0)
		pthread_join(thread, 0);
}
*/
import "C"

// Called by C, on the goroutine's stack again; then once more into C and back, `depth` times.
//
//export goBack
func goBack(depth C.int) {
	if depth > 0 {
		goAgain(depth - 1)
	} else {
		workMiddle(3000)
		allocMiddle(20)
	}
	sink++
}

//go:noinline
func goAgain(depth C.int) { C.c_back(depth); sink++ }

//go:noinline
func callMiddle() { C.c_middle(30000); sink++ }

//go:noinline
func runMore(kind string) bool {
	switch kind {
	case "call":
		callMiddle()
	case "callback":
		goAgain(2)
	case "thread":
		C.c_run_thread()
	default:
		return false
	}
	return true
}
