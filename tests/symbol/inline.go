// SPDX-License-Identifier: Apache-2.0

// A Go program with inlined calls, generics, closures and methods, for go.test.sh.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
)

type number interface{ ~int | ~float64 }

type stack[T number] struct{ items []T }

func (s *stack[T]) push(item T) { s.items = append(s.items, item) }

func largest[T number](items []T) T {
	var found T
	for _, item := range items {
		found = max(found, item)
	}
	return found
}

func max[T number](a, b T) T {
	if a > b {
		return a
	}
	return b
}

func twice(x int) int { return once(x) + once(x+1) }
func once(x int) int  { return x*3 + len(os.Args) }
func parse(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return twice(n)
}

func main() {
	var numbers stack[int]
	for _, word := range strings.Fields("3 1 4 1 5 9 2 6") {
		numbers.push(parse(word))
	}
	sort.Slice(numbers.items, func(i, j int) bool { return numbers.items[i] < numbers.items[j] })
	fmt.Println(largest(numbers.items), largest([]float64{1.5, 2.5}))
}
