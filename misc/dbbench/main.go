// Command dbbench drives a Postgres server with the jobs of an ini file, through database/sql and lib/pq.
//
// Why beside bin/bench: it measures what an ordinary client sees, with an ordinary driver and its pool, and it reads the
// ini format and the flags that people know from other runs of this sweep. It is slower than the load generator of
// bin/bench, so on few cores it measures itself as much as the server.
//
// Each section of the file is a job: so many goroutines that run its query, one after the other, for its duration.
// Sections run in the order of the file. For each, the program prints queries per second and a histogram of latencies.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"

	_ "github.com/lib/pq"
)

// options are the command line's.
type options struct {
	url            string
	driver         string
	maxActiveConns int
	maxIdleConns   int
	forcePreAuth   bool
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "dbbench:", err)
		os.Exit(1)
	}
}

func run() error {
	var opts options
	flag.StringVar(&opts.url, "url", "postgres://materialize@localhost:6875/materialize?sslmode=disable",
		"the server, as a lib/pq address")
	flag.StringVar(&opts.driver, "driver", "postgres", "the driver; postgres is the only one")
	flag.IntVar(&opts.maxActiveConns, "max-active-conns", 0, "connections at most; 0 means no limit")
	flag.IntVar(&opts.maxIdleConns, "max-idle-conns", 100,
		"idle connections kept at most; less than the concurrency measures reconnecting")
	flag.BoolVar(&opts.forcePreAuth, "force-pre-auth", false, "open all connections of a job before it starts")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: dbbench [flags] FILE\n\nRuns the jobs of an ini file. Flags:")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		return fmt.Errorf("one ini file is needed, %d were given", flag.NArg())
	}
	if opts.driver != "postgres" {
		return fmt.Errorf("driver %q is not supported, only postgres is", opts.driver)
	}
	config, err := readConfig(flag.Arg(0))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return runConfig(ctx, &opts, config)
}

// runConfig runs setup, the jobs in order, and teardown, which runs even when a job failed.
func runConfig(ctx context.Context, opts *options, config *config) (err error) {
	db, err := sql.Open(opts.driver, opts.url)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(opts.maxActiveConns)
	db.SetMaxIdleConns(opts.maxIdleConns)
	if err := runStatements(ctx, db, config.setup); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	defer func() {
		if teardown := runStatements(context.Background(), db, config.teardown); err == nil && teardown != nil {
			err = fmt.Errorf("teardown: %w", teardown)
		}
	}()
	for _, job := range config.jobs {
		if opts.maxActiveConns > 0 && job.concurrency > opts.maxActiveConns {
			return fmt.Errorf("%s: concurrency=%d needs more than -max-active-conns=%d",
				job.name, job.concurrency, opts.maxActiveConns)
		}
		if opts.forcePreAuth {
			if err := openConnections(ctx, db, job.concurrency); err != nil {
				return fmt.Errorf("%s: %w", job.name, err)
			}
		}
		result, err := runJob(ctx, db, job)
		if err != nil {
			return fmt.Errorf("%s: %w", job.name, err)
		}
		result.print(os.Stdout, job.name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func runStatements(ctx context.Context, db *sql.DB, statements []string) error {
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// openConnections holds count connections at once, so that the pool has them all afterwards.
func openConnections(ctx context.Context, db *sql.DB, count int) error {
	connections := make([]*sql.Conn, 0, count)
	defer func() {
		for _, connection := range connections {
			connection.Close()
		}
	}()
	for range count {
		connection, err := db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("connecting: %w", err)
		}
		connections = append(connections, connection)
		if err := connection.PingContext(ctx); err != nil {
			return fmt.Errorf("connecting: %w", err)
		}
	}
	return nil
}

// runJob runs the job's goroutines until its duration is over or its count is reached; the first error ends them all.
func runJob(ctx context.Context, db *sql.DB, job job) (*result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := startClock(job)
	results := make([]result, job.concurrency)
	var workers sync.WaitGroup
	for index := range results {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for ctx.Err() == nil && clock.next() {
				if err := results[index].measure(func() (int64, error) { return runQuery(ctx, db, job.query) }); err != nil {
					cancel(err)
					return
				}
			}
		}()
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	total := &result{elapsed: clock.elapsed()}
	for index := range results {
		total.merge(&results[index])
	}
	return total, nil
}

// runQuery runs one query without arguments, which lib/pq sends by the simple protocol, and reads all its rows.
func runQuery(ctx context.Context, db *sql.DB, query string) (int64, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var count int64
	for rows.Next() {
		count++
	}
	return count, rows.Err()
}
