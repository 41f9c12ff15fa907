// Package pgx drives a server with pgx, the way a program does. It connects with the PG* environment variables, over TLS
// and with a password.
package pgx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A query that ends only when it is cancelled.
const endless = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"

var ctx = context.Background()

func connect(t *testing.T, settings string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(ctx, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(ctx) })
	return conn
}

// Makes a table that goes with the test.
func table(t *testing.T, conn *pgx.Conn, name, columns string) {
	t.Helper()
	exec(t, conn, fmt.Sprintf("CREATE TABLE %s (%s)", name, columns))
	t.Cleanup(func() { conn.Exec(ctx, "DROP TABLE "+name) })
}

type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func exec(t *testing.T, conn querier, sql string, args ...any) pgconn.CommandTag {
	t.Helper()
	tag, err := conn.Exec(ctx, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag
}

func one[T any](t *testing.T, conn querier, want T, sql string, args ...any) {
	t.Helper()
	var got T
	if err := conn.QueryRow(ctx, sql, args...).Scan(&got); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %v, expected %v", sql, got, want)
	}
}

func all[T any](t *testing.T, conn querier, want []T, sql string, args ...any) {
	t.Helper()
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %v, expected %v", sql, got, want)
	}
}

func expect(t *testing.T, code string, err error) {
	t.Helper()
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != code {
		t.Fatalf("got %v, expected %s", err, code)
	}
}

func fails(t *testing.T, conn querier, code, sql string, args ...any) {
	t.Helper()
	_, err := conn.Exec(ctx, sql, args...)
	expect(t, code, err)
}

func TestConnects(t *testing.T) {
	conn := connect(t, "")
	if _, encrypted := conn.PgConn().Conn().(interface{ Handshake() error }); !encrypted {
		t.Fatal("not over TLS")
	}
	if conn.PgConn().ParameterStatus("standard_conforming_strings") != "on" {
		t.Fatal("standard_conforming_strings")
	}
	_, err := pgx.Connect(ctx, "password=wrong")
	expect(t, "28P01", err)
	if err := conn.Ping(ctx); err != nil {
		t.Fatal(err)
	}
}

// Values of every type, in each of pgx's ways to send them: described and binary, by guesses, as text.
func TestTypes(t *testing.T) {
	at := time.Date(2024, 1, 2, 3, 4, 5, 678901000, time.UTC)
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	uuid := [16]byte{0xa0, 0xee, 0xbc, 0x99, 15: 1}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			conn := connect(t, "")
			one(t, conn, true, "SELECT $1::bool", mode, true)
			one(t, conn, int16(math.MinInt16), "SELECT $1::int2", mode, int16(math.MinInt16))
			one(t, conn, int32(math.MaxInt32), "SELECT $1::int4", mode, int32(math.MaxInt32))
			one(t, conn, int64(math.MinInt64), "SELECT $1::int8", mode, int64(math.MinInt64))
			one(t, conn, uint32(4294967295), "SELECT $1::oid", mode, uint32(4294967295))
			one(t, conn, float32(1.5), "SELECT $1::float4", mode, float32(1.5))
			one(t, conn, -1e300, "SELECT $1::float8", mode, -1e300)
			one(t, conn, "ünï 'q' \\", "SELECT $1::text", mode, "ünï 'q' \\")
			one(t, conn, "v", "SELECT $1::varchar(1)", mode, "vw")
			one(t, conn, []byte{0, 255}, "SELECT $1::bytea", mode, []byte{0, 255})
			one(t, conn, uuid, "SELECT $1::uuid", mode, pgtype.UUID{Bytes: uuid, Valid: true})
			one(t, conn, day, "SELECT $1::date", mode, day)
			one(t, conn, time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC), "SELECT $1::timestamp", mode, time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC))
			var gotAt time.Time
			if err := conn.QueryRow(ctx, "SELECT $1::timestamptz", mode, at).Scan(&gotAt); err != nil || !gotAt.Equal(at) {
				t.Fatal("timestamptz", gotAt, err)
			}
			one(t, conn, pgtype.Time{Microseconds: 86399999999, Valid: true}, "SELECT $1::time", mode, pgtype.Time{Microseconds: 86399999999, Valid: true})
			interval := pgtype.Interval{Months: 14, Days: -3, Microseconds: 5, Valid: true}
			one(t, conn, interval, "SELECT $1::interval", mode, interval)
			var numeric pgtype.Numeric
			if err := numeric.Scan("-12345678901234567890.5"); err != nil {
				t.Fatal(err)
			}
			one(t, conn, "-12345678901234567890.5", "SELECT ($1::numeric)::text", mode, numeric)
			one(t, conn, map[string]any{"a": []any{1.0, nil}}, "SELECT $1::jsonb", mode, `{"a": [1, null]}`)
			one(t, conn, map[string]any{"a": "x"}, "SELECT $1::json", mode, `{"a": "x"}`)
			one(t, conn, []int32{1, 2, 3}, "SELECT $1::int4[]", mode, []int32{1, 2, 3})
			one(t, conn, []string{"a", `b "c", {d}`, ""}, "SELECT $1::text[]", mode, []string{"a", `b "c", {d}`, ""})
			one(t, conn, []float64{}, "SELECT $1::float8[]", mode, []float64{})
			one(t, conn, (*string)(nil), "SELECT $1::text", mode, (*string)(nil))
			one(t, conn, (*int64)(nil), "SELECT $1::int8", mode, (*int64)(nil))
		})
	}
}

func TestStatements(t *testing.T) {
	conn := connect(t, "")
	table(t, conn, "pgx_items", "id int4 NOT NULL, name text")
	tag := exec(t, conn, "INSERT INTO pgx_items SELECT g, 'n' || g FROM generate_series(0, $1::int4) g", 99)
	if tag.String() != "INSERT 0 100" {
		t.Fatal(tag)
	}
	for id := range 20 {
		one(t, conn, fmt.Sprintf("n%d", id), "SELECT name FROM pgx_items WHERE id = $1", id)
	}
	description, err := conn.Prepare(ctx, "by_id", "SELECT id, name FROM pgx_items WHERE id = $1")
	if err != nil || !reflect.DeepEqual(description.ParamOIDs, []uint32{pgtype.Int4OID}) || description.Fields[1].DataTypeOID != pgtype.TextOID {
		t.Fatal(description, err)
	}
	exec(t, conn, "CREATE INDEX pgx_items_id ON pgx_items (id)")
	var id int32
	var name string
	if err := conn.QueryRow(ctx, "by_id", 7).Scan(&id, &name); err != nil || id != 7 || name != "n7" {
		t.Fatal(id, name, err)
	}
	one(t, conn, "n8", "SELECT name FROM pgx_items WHERE id = $1", 8)
	all(t, conn, []int32{3, 5}, "SELECT id FROM pgx_items WHERE id = ANY($1) ORDER BY id", []int{5, 3, 5000})
	all(t, conn, []int32{1, 2}, "SELECT id FROM pgx_items WHERE name = $1 OR id = $2 ORDER BY 1", "n1", 2)
	type item struct {
		ID   int32
		Name *string
	}
	rows, _ := conn.Query(ctx, "SELECT * FROM pgx_items WHERE id < @below ORDER BY id", pgx.NamedArgs{"below": 2})
	items, err := pgx.CollectRows(rows, pgx.RowToStructByName[item])
	if err != nil || len(items) != 2 || *items[1].Name != "n1" {
		t.Fatal(items, err)
	}
	// A table that has changed shape: the driver forgets the statement and prepares it again.
	table(t, conn, "pgx_shape", "a int4")
	exec(t, conn, "SELECT * FROM pgx_shape WHERE a > $1", 0)
	exec(t, conn, "DROP TABLE pgx_shape")
	exec(t, conn, "CREATE TABLE pgx_shape (a int4, b text)")
	_, err = conn.Exec(ctx, "SELECT * FROM pgx_shape WHERE a > $1", 0)
	expect(t, "0A000", err)
	exec(t, conn, "SELECT * FROM pgx_shape WHERE a > $1", 0)
}

func TestBatches(t *testing.T) {
	conn := connect(t, "")
	table(t, conn, "pgx_batch", "id int4 NOT NULL, name text")
	batch := &pgx.Batch{}
	for id := range 50 {
		batch.Queue("INSERT INTO pgx_batch VALUES ($1, $2)", id, "x")
	}
	batch.Queue("SELECT count(*) FROM pgx_batch").QueryRow(func(row pgx.Row) error {
		var count int
		if err := row.Scan(&count); err != nil || count != 50 {
			t.Fatal("count in a batch", count, err)
		}
		return nil
	})
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		t.Fatal(err)
	}
	// A batch is one transaction: what failed takes the rest along.
	batch = &pgx.Batch{}
	batch.Queue("INSERT INTO pgx_batch VALUES (100, 'x')")
	batch.Queue("SELECT 1 / (id - id) FROM pgx_batch")
	batch.Queue("INSERT INTO pgx_batch VALUES (101, 'x')")
	expect(t, "22012", conn.SendBatch(ctx, batch).Close())
	one(t, conn, 50, "SELECT count(*) FROM pgx_batch")
	pipeline := conn.PgConn().StartPipeline(ctx)
	pipeline.SendPrepare("p", "SELECT $1::int4 + 1", nil)
	for n := range 10 {
		pipeline.SendQueryPrepared("p", [][]byte{[]byte(fmt.Sprint(n))}, nil, nil)
	}
	if err := pipeline.Sync(); err != nil {
		t.Fatal(err)
	}
	for n := -1; n < 11; n++ {
		results, err := pipeline.GetResults()
		if err != nil {
			t.Fatal(err)
		}
		if reader, ok := results.(*pgconn.ResultReader); ok {
			if result := reader.Read(); result.Err != nil || string(result.Rows[0][0]) != fmt.Sprint(n+1) {
				t.Fatal("pipeline", n, result)
			}
		}
	}
	if err := pipeline.Close(); err != nil {
		t.Fatal(err)
	}
	results, err := conn.PgConn().Exec(ctx, "SELECT 1; SELECT 2, 3").ReadAll()
	if err != nil || len(results) != 2 || string(results[1].Rows[0][1]) != "3" {
		t.Fatal("several statements", results, err)
	}
}

func TestCopy(t *testing.T) {
	conn := connect(t, "")
	table(t, conn, "pgx_copy", "id int4 NOT NULL, name text, at timestamptz, price numeric, tags text[], key uuid")
	at := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	price := pgtype.Numeric{}
	if err := price.Scan("12.50"); err != nil {
		t.Fatal(err)
	}
	source := pgx.CopyFromSlice(1000, func(i int) ([]any, error) {
		return []any{i, fmt.Sprintf("tab\there %d", i), at, price, []string{"a", "b"}, pgtype.UUID{Bytes: [16]byte{1}, Valid: true}}, nil
	})
	columns := []string{"id", "name", "at", "price", "tags", "key"}
	count, err := conn.CopyFrom(ctx, pgx.Identifier{"pgx_copy"}, columns, source)
	if err != nil || count != 1000 {
		t.Fatal("binary copy", count, err)
	}
	one(t, conn, "tab\there 7", "SELECT name FROM pgx_copy WHERE id = 7 AND price = 12.5 AND at = '2024-01-02 03:04:05Z' AND tags[2] = 'b'")
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"pgx_copy"}, []string{"name"}, pgx.CopyFromRows([][]any{{"no id"}}))
	expect(t, "23502", err)
	tag, err := conn.PgConn().CopyFrom(ctx, strings.NewReader("2000,x\n"), "COPY pgx_copy (id, name) FROM STDIN (FORMAT csv)")
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatal("copy from csv", tag, err)
	}
	var out bytes.Buffer
	tag, err = conn.PgConn().CopyTo(ctx, &out, "COPY (SELECT id, name FROM pgx_copy WHERE id > 998 ORDER BY id) TO STDOUT")
	if err != nil || tag.RowsAffected() != 2 || out.String() != "999\ttab\\there 999\n2000\tx\n" {
		t.Fatal("copy to", tag, err, out.String())
	}
	one(t, conn, 1001, "SELECT count(*) FROM pgx_copy")
}

func TestTransactions(t *testing.T) {
	conn := connect(t, "")
	table(t, conn, "pgx_tx", "id int4 NOT NULL")
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, "INSERT INTO pgx_tx VALUES (1)")
	nested, err := tx.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, nested, "INSERT INTO pgx_tx VALUES (2)")
	fails(t, nested, "22012", "SELECT 1/0")
	fails(t, nested, "25P02", "SELECT 1")
	if err := nested.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	nested, err = tx.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, nested, "INSERT INTO pgx_tx VALUES (3)")
	if err := nested.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	all(t, tx, []int32{1, 3}, "SELECT id FROM pgx_tx ORDER BY id")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	all(t, conn, []int32{1, 3}, "SELECT id FROM pgx_tx ORDER BY id")
	readOnly, err := conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	fails(t, readOnly, "25006", "DELETE FROM pgx_tx")
	if err := readOnly.Commit(ctx); !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Fatal("a failed transaction committed:", err)
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		exec(t, tx, "CREATE TABLE pgx_fresh (id int4)")
		exec(t, tx, "INSERT INTO pgx_fresh VALUES ($1)", 1)
		one(t, tx, 1, "SELECT count(*) FROM pgx_fresh")
		exec(t, tx, "DROP TABLE pgx_fresh")
		return nil
	})
	if err != nil {
		t.Fatal("DDL and rows in one transaction:", err)
	}
	// A cursor.
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		exec(t, tx, "DECLARE c CURSOR FOR SELECT id FROM pgx_tx ORDER BY id")
		all(t, tx, []int32{1}, "FETCH 1 FROM c")
		all(t, tx, []int32{3}, "FETCH ALL FROM c")
		exec(t, tx, "CLOSE c")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestErrors(t *testing.T) {
	conn := connect(t, "")
	fails(t, conn, "42P01", "SELECT * FROM nosuch_table")
	fails(t, conn, "42601", "SELEC 1")
	fails(t, conn, "22012", "SELECT 1/$1::int4", 0)
	fails(t, conn, "22P02", "SELECT $1::int4", pgx.QueryExecModeExec, "x")
	one(t, conn, 1, "SELECT 1")
	var pgErr *pgconn.PgError
	_, err := conn.Exec(ctx, "SELECT nosuch FROM pg_class")
	if !errors.As(err, &pgErr) || pgErr.Code != "42703" || pgErr.Position != 8 || pgErr.Severity != "ERROR" {
		t.Fatalf("%+v", pgErr)
	}
	config, _ := pgx.ParseConfig("")
	var notices []string
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { notices = append(notices, notice.Code) }
	other, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(ctx)
	exec(t, other, "DROP TABLE IF EXISTS nosuch_table")
	if !reflect.DeepEqual(notices, []string{"00000"}) {
		t.Fatal("notices", notices)
	}
}

func TestCancels(t *testing.T) {
	conn := connect(t, "")
	done := make(chan struct{})
	go func() {
		// Until the query runs there is nothing to cancel.
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				_ = conn.PgConn().CancelRequest(ctx)
			}
		}
	}()
	_, err := conn.Exec(ctx, endless)
	close(done)
	expect(t, "57014", err)
	// A cancellation that was under way may hit what comes next.
	for conn.Ping(ctx) != nil {
		time.Sleep(time.Millisecond)
	}
	exec(t, conn, "SET statement_timeout = 50")
	fails(t, conn, "57014", endless)
}

func TestPool(t *testing.T) {
	pool, err := pgxpool.New(ctx, "pool_max_conns=4")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	answers := make(chan error, 40)
	for n := range cap(answers) {
		go func() {
			var got int
			err := pool.QueryRow(ctx, "SELECT $1::int4", n).Scan(&got)
			if err == nil && got != n {
				err = fmt.Errorf("got %d, expected %d", got, n)
			}
			answers <- err
		}()
	}
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
}
