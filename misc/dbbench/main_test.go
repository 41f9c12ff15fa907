package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.ini")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEveryCheckedInFileIsValid(t *testing.T) {
	files, err := filepath.Glob("*.ini")
	if err != nil || len(files) == 0 {
		t.Fatalf("no ini files: %v", err)
	}
	for _, file := range files {
		if _, err := readConfig(file); err != nil {
			t.Error(err)
		}
	}
}

func TestJobsTakeTheirDefaultsFromTheHead(t *testing.T) {
	config, err := readConfig(write(t, "duration=3s\n[setup]\nquery=select 1\n; note\n[a b]\nquery=select a=1\nconcurrency=4\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := job{name: "a b", query: "select a=1", concurrency: 4, duration: 3 * time.Second}
	if len(config.jobs) != 1 || config.jobs[0] != want {
		t.Errorf("got %+v, want %+v", config.jobs, want)
	}
	if len(config.setup) != 1 {
		t.Errorf("setup: %v", config.setup)
	}
}

func TestMistakesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[a]\nquery=select 1\nrate=5\n":        `"rate" is not supported`,
		"[a]\nquery=select 1\nconcurrency=x\n": "invalid syntax",
		"[a\nquery=select 1\n":                 "must be written",
		"[a]\nconcurrency=1\n":                 "needs a query",
		"duration=1s\n":                        "no job",
	} {
		if _, err := readConfig(write(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestBucketsPartitionLatencies(t *testing.T) {
	for nanos := time.Duration(0); nanos < 100_000; nanos++ {
		bucket := bucketOf(nanos)
		if nanos < lowerOf(bucket) || nanos >= lowerOf(bucket+1) {
			t.Fatalf("%d is in bucket %d, [%d, %d)", nanos, bucket, lowerOf(bucket), lowerOf(bucket+1))
		}
	}
}
