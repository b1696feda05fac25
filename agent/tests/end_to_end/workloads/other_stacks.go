// Goroutines that sort in C and read the clock, both on the stacks of the scheduler.

package main

/*
#include <stdlib.h>

static int compare(const void *a, const void *b) {
	return *(const int *)a - *(const int *)b;
}

static int sort(int count) {
	int *numbers = malloc(count * sizeof(int));
	for (int n = 0; n < count; n++)
		numbers[n] = n * 7919 % count;
	qsort(numbers, count, sizeof(int), compare);
	int middle = numbers[count / 2];
	free(numbers);
	return middle;
}
*/
import "C"

import (
	"fmt"
	"time"
)

func sortInC(out chan<- int64) {
	for {
		out <- int64(C.sort(1000))
	}
}

func readTheClock(out chan<- int64) {
	for {
		var sum int64
		for n := 0; n < 1000; n++ {
			sum += time.Now().UnixNano()
		}
		out <- sum
	}
}

func main() {
	out := make(chan int64)
	for n := 0; n < 2; n++ {
		go sortInC(out)
		go readTheClock(out)
	}
	fmt.Println("ready")
	for range out {
	}
}
