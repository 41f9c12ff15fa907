package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// job is one section of the file.
type job struct {
	name        string
	query       string
	concurrency int
	duration    time.Duration
	// count bounds the number of queries; 0 means that only the duration does.
	count int64
}

// config is the whole file.
type config struct {
	setup    []string
	teardown []string
	jobs     []job
}

// defaultDuration is a job's when neither it nor the head of the file says one.
const defaultDuration = 10 * time.Second

// readConfig reads an ini file: keys before the first section are defaults of all jobs; the sections "setup" and
// "teardown" hold queries that run before and after; every other section is a job. A key that is not known is an error,
// because a job that silently runs without it would measure something else.
func readConfig(path string) (*config, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	parsed := &config{}
	defaults := job{concurrency: 1, duration: defaultDuration}
	section := ""
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		if name, isSection := strings.CutPrefix(line, "["); isSection {
			section, err = parsed.open(name, defaults)
		} else {
			err = parsed.set(section, line, &defaults)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return parsed, parsed.check(path)
}

func (c *config) open(name string, defaults job) (string, error) {
	name, closed := strings.CutSuffix(name, "]")
	name = strings.TrimSpace(name)
	if !closed || name == "" {
		return "", fmt.Errorf("a section must be written [name]")
	}
	if name != "setup" && name != "teardown" {
		defaults.name = name
		c.jobs = append(c.jobs, defaults)
	}
	return name, nil
}

func (c *config) set(section, line string, defaults *job) error {
	key, value, found := strings.Cut(line, "=")
	if !found {
		return fmt.Errorf("%q is neither a section nor key=value", line)
	}
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch section {
	case "":
		return defaults.set(key, value)
	case "setup", "teardown":
		if key != "query" {
			return fmt.Errorf("a section [%s] holds only query=", section)
		}
		if section == "setup" {
			c.setup = append(c.setup, value)
		} else {
			c.teardown = append(c.teardown, value)
		}
		return nil
	default:
		return c.jobs[len(c.jobs)-1].set(key, value)
	}
}

func (j *job) set(key, value string) (err error) {
	switch key {
	case "query":
		j.query = value
	case "concurrency":
		j.concurrency, err = strconv.Atoi(value)
	case "duration":
		j.duration, err = time.ParseDuration(value)
	case "count":
		j.count, err = strconv.ParseInt(value, 10, 64)
	default:
		err = fmt.Errorf("the key %q is not supported: query, concurrency, duration and count are", key)
	}
	return err
}

func (c *config) check(path string) error {
	if len(c.jobs) == 0 {
		return fmt.Errorf("%s: there is no job", path)
	}
	for _, job := range c.jobs {
		if job.query == "" || job.concurrency < 1 || job.duration <= 0 || job.count < 0 {
			return fmt.Errorf("%s: [%s] needs a query, a concurrency of at least 1 and a positive duration", path, job.name)
		}
	}
	return nil
}
