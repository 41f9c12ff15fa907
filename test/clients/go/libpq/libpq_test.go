// Package libpq drives a server with lib/pq, the way a program does. It connects with the PG* environment variables, over TLS
// and with a password.
package libpq

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"
)

func open(t *testing.T, more string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", more)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Ping(); err != nil {
		t.Fatal(err)
	}
	return db
}

func exec(t *testing.T, db *sql.DB, want int64, query string, args ...any) {
	t.Helper()
	result, err := db.Exec(query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if got, _ := result.RowsAffected(); got != want {
		t.Fatalf("%s: %d rows affected, expected %d", query, got, want)
	}
}

func one[T any](t *testing.T, db *sql.DB, want T, query string, args ...any) {
	t.Helper()
	var got T
	if err := db.QueryRow(query, args...).Scan(&got); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %v, expected %v", query, got, want)
	}
}

func fails(t *testing.T, db *sql.DB, code pq.ErrorCode, query string, args ...any) {
	t.Helper()
	_, err := db.Exec(query, args...)
	var pqErr *pq.Error
	if !errors.As(err, &pqErr) || pqErr.Code != code {
		t.Fatalf("%s: got %v, expected %s", query, err, code)
	}
}

func crud(t *testing.T, table, settings string) {
	db := open(t, settings)
	exec(t, db, 0, fmt.Sprintf("CREATE TABLE %s (id int4 NOT NULL, name text, n int8, f float8, ok bool, at timestamptz, raw bytea, tags text[])", table))
	defer db.Exec("DROP TABLE " + table)
	at := time.Date(2024, 1, 2, 3, 4, 5, 678901000, time.UTC)
	insert := fmt.Sprintf("INSERT INTO %s VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", table)
	exec(t, db, 1, insert, 1, "ünï 'quoted'", int64(1)<<40, 1.5, true, at, []byte{0, 255}, pq.Array([]string{"a", "b c"}))
	exec(t, db, 1, insert, 2, nil, nil, nil, nil, nil, nil, nil)
	exec(t, db, 3, fmt.Sprintf("INSERT INTO %s (id, name) VALUES (3, 'c'), (4, 'd'), (5, 'e')", table))

	var id int
	var n int64
	var f float64
	var ok bool
	var name string
	var gotAt time.Time
	var raw []byte
	var tags []string
	row := db.QueryRow(fmt.Sprintf("SELECT * FROM %s WHERE id = $1", table), 1)
	if err := row.Scan(&id, &name, &n, &f, &ok, &gotAt, &raw, pq.Array(&tags)); err != nil {
		t.Fatal(err)
	}
	if id != 1 || name != "ünï 'quoted'" || n != 1<<40 || f != 1.5 || !ok || !gotAt.Equal(at) || !bytes.Equal(raw, []byte{0, 255}) || !reflect.DeepEqual(tags, []string{"a", "b c"}) {
		t.Fatal("the row is not what was inserted:", id, name, n, f, ok, gotAt, raw, tags)
	}
	one(t, db, sql.NullString{}, fmt.Sprintf("SELECT name FROM %s WHERE id = $1", table), 2)
	one(t, db, int64(5), "SELECT count(*) FROM "+table)
	one(t, db, "c", fmt.Sprintf("SELECT name FROM %s WHERE id = ANY($1) AND name IS NOT NULL", table), pq.Array([]int64{2, 3}))
	exec(t, db, 1, fmt.Sprintf("UPDATE %s SET name = $2 WHERE id = $1", table), 3, "changed")
	one(t, db, "changed", fmt.Sprintf("SELECT name FROM %s WHERE id = $1", table), 3)
	exec(t, db, 2, fmt.Sprintf("DELETE FROM %s WHERE id > $1", table), 3)
	exec(t, db, 0, fmt.Sprintf("DELETE FROM %s WHERE id > $1", table), 3)

	for _, commit := range []bool{false, true} {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if _, err := tx.Exec(fmt.Sprintf("INSERT INTO %s (id) VALUES ($1)", table), 100+i); err != nil {
				t.Fatal(err)
			}
		}
		want := int64(0)
		if commit {
			want, err = 3, tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
		one(t, db, want, fmt.Sprintf("SELECT count(*) FROM %s WHERE id >= 100", table))
	}

	fails(t, db, "42P01", "SELECT * FROM nosuch_table")
	fails(t, db, "22012", "SELECT 1/$1::int4", 0)
	fails(t, db, "22P02", "SELECT $1::int4", "x")
	fails(t, db, "23502", fmt.Sprintf("INSERT INTO %s (name) VALUES ($1)", table), "no id")
	fails(t, db, "42601", "SELEC 1")
	one(t, db, 1, "SELECT 1")

	statement, err := db.Prepare(fmt.Sprintf("SELECT name FROM %s WHERE id = $1", table))
	if err != nil {
		t.Fatal(err)
	}
	defer statement.Close()
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 20 {
				var name string
				if err := statement.QueryRow(3).Scan(&name); err != nil || name != "changed" {
					t.Errorf("prepared: %q, %v", name, err)
					return
				}
			}
		}()
	}
	group.Wait()
}

func TestCrud(t *testing.T) { crud(t, "go_text", "") }

func TestCrudWithBinaryParameters(t *testing.T) { crud(t, "go_binary", "binary_parameters=yes") }

func TestCopyIn(t *testing.T) {
	db := open(t, "")
	exec(t, db, 0, "CREATE TABLE go_copy (id int4, v text)")
	defer db.Exec("DROP TABLE go_copy")
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	statement, err := tx.Prepare(pq.CopyIn("go_copy", "id", "v"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if _, err := statement.Exec(i, fmt.Sprintf("tab\there %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := statement.Exec(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(statement.Close(), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	one(t, db, int64(1000), "SELECT count(*) FROM go_copy")
	one(t, db, "tab\there 7", "SELECT v FROM go_copy WHERE id = 7")
}

func TestTransactions(t *testing.T) {
	db := open(t, "")
	exec(t, db, 0, "CREATE TABLE go_tx (id int4 NOT NULL)")
	defer db.Exec("DROP TABLE go_tx")
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ query, code string }{
		{"INSERT INTO go_tx VALUES (1)", ""},
		{"SAVEPOINT a", ""},
		{"INSERT INTO go_tx VALUES (2)", ""},
		{"SELECT 1/0", "22012"},
		{"SELECT 1", "25P02"},
		{"ROLLBACK TO SAVEPOINT a", ""},
		{"INSERT INTO go_tx VALUES (3)", ""},
		{"RELEASE SAVEPOINT a", ""},
	} {
		_, err := tx.Exec(step.query)
		var pqErr *pq.Error
		if errors.As(err, &pqErr) {
			if string(pqErr.Code) != step.code {
				t.Fatal(step, err)
			}
		} else if err != nil || step.code != "" {
			t.Fatal(step, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	one(t, db, int64(4), "SELECT sum(id) FROM go_tx")
	readOnly, err := db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = readOnly.Exec("DELETE FROM go_tx")
	var pqErr *pq.Error
	if !errors.As(err, &pqErr) || pqErr.Code != "25006" {
		t.Fatal("a read-only transaction wrote:", err)
	}
	if err := readOnly.Rollback(); err != nil {
		t.Fatal(err)
	}
	// What migrations do.
	tx, err = db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"CREATE TABLE go_fresh (id int4)", "INSERT INTO go_fresh VALUES (1)", "UPDATE go_tx SET id = id + 10"} {
		if _, err := tx.Exec(query); err != nil {
			t.Fatal(query, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	one(t, db, int64(1), "SELECT count(*) FROM go_fresh")
	one(t, db, int64(24), "SELECT sum(id) FROM go_tx")
	exec(t, db, 0, "DROP TABLE go_fresh")
}

func TestCancel(t *testing.T) {
	// The driver asks once to cancel a query; if that came too early, this ends it.
	db := open(t, "statement_timeout=20000")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := db.ExecContext(ctx, "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b")
	var pqErr *pq.Error
	if !errors.Is(err, context.DeadlineExceeded) && (!errors.As(err, &pqErr) || pqErr.Code != "57014") {
		t.Fatal("not cancelled:", err)
	}
	one(t, db, 1, "SELECT 1")
}

func TestWrongPassword(t *testing.T) {
	db, err := sql.Open("postgres", "password=wrong")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var pqErr *pq.Error
	if err := db.Ping(); !errors.As(err, &pqErr) || pqErr.Code != "28P01" {
		t.Fatal("a wrong password:", err)
	}
}
