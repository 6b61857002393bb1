package clients

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lib/pq"
)

// database/sql with lib/pq.
func TestPq(t *testing.T) {
	ctx, _ := inSchema(t)
	db, err := sql.Open("postgres", "search_path=shop sslmode=disable")
	must(t, err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE pets (id serial PRIMARY KEY, name text NOT NULL, born timestamptz, tags text[], raw bytea, note text)")
	must(t, err)
	born := time.Date(2024, 2, 29, 1, 2, 3, 456000, time.UTC)
	insert, err := db.Prepare("INSERT INTO pets (name, born, tags, raw, note) VALUES ($1, $2, $3, $4, $5) RETURNING id")
	must(t, err)
	var id int
	must(t, insert.QueryRow("it's", born, pq.Array([]string{"a", `b"`}), []byte{0, 255}, nil).Scan(&id))
	equal(t, id, 1)
	var (
		name string
		got  time.Time
		tags []string
		raw  []byte
		note sql.NullString
	)
	row := db.QueryRow("SELECT name, born, tags, raw, note FROM pets WHERE id = $1", id)
	must(t, row.Scan(&name, &got, pq.Array(&tags), &raw, &note))
	equal(t, []any{name, got.UTC(), tags, raw, note.Valid}, []any{"it's", born, []string{"a", `b"`}, []byte{0, 255}, false})

	columns, err := db.Query("SELECT id, name FROM pets")
	must(t, err)
	types, err := columns.ColumnTypes()
	must(t, err)
	equal(t, []string{types[0].DatabaseTypeName(), types[1].DatabaseTypeName()}, []string{"INT4", "TEXT"})
	must(t, columns.Close())

	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	must(t, err)
	copying, err := tx.Prepare(pq.CopyIn("pets", "name", "tags"))
	must(t, err)
	for number := 0; number < 100; number++ {
		_, err = copying.Exec(fmt.Sprint("copied\t", number), pq.Array([]string{"x"}))
		must(t, err)
	}
	_, err = copying.Exec()
	must(t, err)
	must(t, copying.Close())
	must(t, tx.Commit())
	var count int
	must(t, db.QueryRow(`SELECT count(*) FROM pets WHERE name LIKE E'copied\t%'`).Scan(&count))
	equal(t, count, 100)

	_, err = db.Exec("INSERT INTO pets (name) VALUES (NULL)")
	var failure *pq.Error
	equal(t, errors.As(err, &failure) && failure.Code == "23502" && failure.Column == "name" && failure.Table == "pets", true)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = db.ExecContext(short, "SELECT pg_sleep(60)")
	equal(t, err != nil, true)

	several, err := db.Query("SELECT 1; SELECT 'two'")
	must(t, err)
	for several.Next() {
		must(t, several.Scan(&id))
	}
	equal(t, several.NextResultSet() && several.Next(), true)
	must(t, several.Scan(&name))
	equal(t, name, "two")
	must(t, several.Close())

	listener := pq.NewListener("sslmode=disable", time.Second, time.Minute, nil)
	defer listener.Close()
	must(t, listener.Listen("news"))
	_, err = db.Exec("NOTIFY news, 'first'")
	must(t, err)
	select {
	case notification := <-listener.Notify:
		equal(t, notification.Extra, "first")
	case <-ctx.Done():
		t.Fatal("no notification came")
	}
}
