package main

import (
	"fmt"
	"io"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"
)

// clock tells the goroutines of a job whether to run another query.
type clock struct {
	start    time.Time
	deadline time.Time
	// left is how many queries may still start; unbounded when the job has no count.
	left    atomic.Int64
	bounded bool
}

func startClock(job job) *clock {
	now := time.Now()
	c := &clock{start: now, deadline: now.Add(job.duration), bounded: job.count > 0}
	c.left.Store(job.count)
	return c
}

func (c *clock) next() bool {
	return time.Now().Before(c.deadline) && (!c.bounded || c.left.Add(-1) >= 0)
}

func (c *clock) elapsed() time.Duration {
	return time.Since(c.start)
}

// subBits is the histogram's precision: 16 buckets per power of two, an error of at most 6 %.
const subBits = 4

// result is what one goroutine measured, or a whole job.
type result struct {
	queries int64
	rows    int64
	sum     time.Duration
	max     time.Duration
	elapsed time.Duration
	buckets [64 << subBits]int64
}

func (r *result) measure(query func() (int64, error)) error {
	start := time.Now()
	rows, err := query()
	if err != nil {
		return err
	}
	latency := time.Since(start)
	r.queries++
	r.rows += rows
	r.sum += latency
	r.max = max(r.max, latency)
	r.buckets[bucketOf(latency)]++
	return nil
}

func (r *result) merge(other *result) {
	r.queries += other.queries
	r.rows += other.rows
	r.sum += other.sum
	r.max = max(r.max, other.max)
	for bucket, count := range other.buckets {
		r.buckets[bucket] += count
	}
}

func bucketOf(latency time.Duration) int {
	nanos := uint64(latency)
	if nanos < 1<<subBits {
		return int(nanos)
	}
	shift := bits.Len64(nanos) - subBits - 1
	return (shift+1)<<subBits + int(nanos>>shift) - 1<<subBits
}

// lowerOf is the shortest latency that belongs to a bucket.
func lowerOf(bucket int) time.Duration {
	if bucket < 1<<subBits {
		return time.Duration(bucket)
	}
	shift := bucket>>subBits - 1
	return time.Duration((bucket&(1<<subBits-1) + 1<<subBits) << shift)
}

func (r *result) quantile(share float64) time.Duration {
	var seen int64
	for bucket, count := range r.buckets {
		seen += count
		if seen > 0 && float64(seen) >= share*float64(r.queries) {
			return lowerOf(bucket + 1)
		}
	}
	return r.max
}

// print writes one line of totals, one of quantiles, and a bar per power of two.
func (r *result) print(out io.Writer, name string) {
	fmt.Fprintf(out, "%s: %.0f QPS (%d queries, %d rows in %.2fs)\n",
		name, float64(r.queries)/r.elapsed.Seconds(), r.queries, r.rows, r.elapsed.Seconds())
	if r.queries == 0 {
		return
	}
	fmt.Fprintf(out, "  latency mean %v p50 %v p99 %v p99.9 %v max %v\n",
		round(r.sum/time.Duration(r.queries)), round(r.quantile(0.5)), round(r.quantile(0.99)),
		round(r.quantile(0.999)), round(r.max))
	octaves := len(r.buckets) >> subBits
	counts := make([]int64, octaves)
	var most int64
	for bucket, count := range r.buckets {
		counts[bucket>>subBits] += count
		most = max(most, counts[bucket>>subBits])
	}
	for octave, count := range counts {
		if count == 0 {
			continue
		}
		bar := strings.Repeat("#", int(count*50/most))
		from, to := lowerOf(octave<<subBits), lowerOf((octave+1)<<subBits)
		fmt.Fprintf(out, "  %10v - %10v %10d %s\n", round(from), round(to), count, bar)
	}
	fmt.Fprintln(out)
}

func round(latency time.Duration) time.Duration {
	return latency.Round(100 * time.Nanosecond)
}
