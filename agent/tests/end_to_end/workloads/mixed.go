// Goroutines that sort, fill maps, allocate and hand things to each other.

package main

import (
	"fmt"
	"sort"
	"strings"
)

func work(seed int, out chan<- int) {
	for {
		numbers := map[int]string{}
		for n := 0; n < 500; n++ {
			numbers[(n*seed)%701] = strings.Repeat("x", n%40)
		}
		keys := make([]int, 0, len(numbers))
		for key := range numbers {
			keys = append(keys, key)
		}
		sort.Slice(keys, func(a, b int) bool { return len(numbers[keys[a]]) < len(numbers[keys[b]]) })
		out <- keys[0]
	}
}

func main() {
	out := make(chan int)
	for seed := 1; seed < 4; seed++ {
		go work(seed, out)
	}
	fmt.Println("ready")
	for range out {
	}
}
