package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The server under test is the one that the environment names, as for libpq.
func connect(t *testing.T) (context.Context, *pgx.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	conn, err := pgx.Connect(ctx, "")
	must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return ctx, conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func fails(t *testing.T, err error, code string) *pgconn.PgError {
	t.Helper()
	var failure *pgconn.PgError
	if !errors.As(err, &failure) || failure.Code != code {
		t.Fatalf("got %v, want SQLSTATE %s", err, code)
	}
	return failure
}

func exec(t *testing.T, ctx context.Context, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, text := range statements {
		_, err := conn.Exec(ctx, text)
		must(t, err)
	}
}

func number(t *testing.T, ctx context.Context, conn *pgx.Conn, query string) int {
	t.Helper()
	var number int
	must(t, conn.QueryRow(ctx, query).Scan(&number))
	return number
}

// Creates a schema for a test, which is the first one in the search path.
func inSchema(t *testing.T) (context.Context, *pgx.Conn) {
	ctx, conn := connect(t)
	exec(t, ctx, conn, "CREATE SCHEMA shop", "SET search_path = shop")
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), "")
		must(t, err)
		defer conn.Close(context.Background())
		_, err = conn.Exec(context.Background(), "DROP SCHEMA shop CASCADE")
		must(t, err)
	})
	return ctx, conn
}

func TestPgxModes(t *testing.T) {
	ctx, conn := inSchema(t)
	exec(t, ctx, conn, "CREATE TABLE pets (id int PRIMARY KEY, name text, weight numeric(6, 2), tags text[])")
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	for at, mode := range modes {
		for round := 0; round < 2; round++ {
			id := 2*at + round
			tag, err := conn.Exec(ctx, "INSERT INTO pets VALUES ($1, $2, $3::numeric, $4)", mode, id, "it's", "1.25", []string{"a", `b"\`})
			must(t, err)
			equal(t, tag.String(), "INSERT 0 1")
			var name string
			var weight float64
			var tags []string
			must(t, conn.QueryRow(ctx, "SELECT name, weight::float8, tags FROM pets WHERE id = $1", mode, id).Scan(&name, &weight, &tags))
			equal(t, []any{name, weight, tags}, []any{"it's", 1.25, []string{"a", `b"\`}})
		}
	}
	type pet struct {
		ID   int
		Name string
	}
	rows, err := conn.Query(ctx, "SELECT id, name FROM pets WHERE id = ANY (@ids) ORDER BY id", pgx.NamedArgs{"ids": []int{0, 3, 400}})
	must(t, err)
	pets, err := pgx.CollectRows(rows, pgx.RowToStructByName[pet])
	must(t, err)
	equal(t, pets, []pet{{0, "it's"}, {3, "it's"}})
	// A definition changes below a prepared statement.
	_, err = conn.Prepare(ctx, "all", "SELECT * FROM pets")
	must(t, err)
	exec(t, ctx, conn, "ALTER TABLE pets ADD COLUMN born date")
	_, err = conn.Exec(ctx, "all")
	fails(t, err, "0A000")
	must(t, conn.DeallocateAll(ctx))
}

func TestPgxTypes(t *testing.T) {
	ctx, conn := inSchema(t)
	exec(t, ctx, conn, "CREATE TYPE mood AS ENUM ('sad', 'happy')", "CREATE DOMAIN small AS int CHECK (VALUE < 10)")
	moods, err := conn.LoadTypes(ctx, []string{"shop.mood", "shop.small"})
	must(t, err)
	equal(t, len(moods) >= 2, true)
	conn.TypeMap().RegisterTypes(moods)
	at := time.Date(2024, 2, 29, 12, 30, 0, 123456000, time.UTC)
	values := map[string]any{
		"bool": true, "int2": int16(-7), "int4": int32(math.MinInt32), "int8": int64(math.MaxInt64),
		"float4": float32(1.5), "float8": math.Pi, "text": "äß\n\t", "varchar(9)": "", "bytea": []byte{0, 255, 39},
		"date": at.Truncate(24 * time.Hour), "timestamp": at, "timestamptz": at,
		"int4[]": []int32{1, 2, 3}, "text[]": []string{"a", "", "NULL", `"`}, "float8[]": []float64{math.Inf(1), 0},
		"mood": "sad", "small": int32(9), "inet": netip.MustParsePrefix("10.1.2.3/8"), "cidr": netip.MustParsePrefix("10.0.0.0/8"),
		"uuid": [16]byte{1, 2, 3}, "time": pgtype.Time{Microseconds: 86399999999, Valid: true},
		"interval": pgtype.Interval{Months: 14, Days: -3, Microseconds: 4_000_005, Valid: true},
		"bit(5)":   pgtype.Bits{Bytes: []byte{0b10110000}, Len: 5, Valid: true},
		"numeric":  pgtype.Numeric{Int: big.NewInt(-1234567890123), Exp: -5, Valid: true},
		"oid":      uint32(4_000_000_000),
		"json":     map[string]any{"a": []any{1.0, nil}}, "jsonb": map[string]any{"b": "c"},
	}
	for name, want := range values {
		var got any
		query := fmt.Sprintf("SELECT $1::%s", name)
		into := reflect.New(reflect.TypeOf(want))
		must(t, conn.QueryRow(ctx, query, want).Scan(into.Interface()))
		got = into.Elem().Interface()
		if moment, ok := got.(time.Time); ok {
			got = moment.UTC()
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, want %#v", name, got, want)
		}
		var null any
		must(t, conn.QueryRow(ctx, query, nil).Scan(&null))
		equal(t, null, nil)
	}
	var one int
	var text string
	var list []int
	record := pgtype.CompositeFields{&one, &text, &list}
	must(t, conn.QueryRow(ctx, "SELECT row(1, 'a'::text, ARRAY[2])").Scan(record))
	equal(t, []any{one, text, list}, []any{1, "a", []int{2}})
	var raw json.RawMessage
	must(t, conn.QueryRow(ctx, `SELECT '{"b":1,"a":2}'::jsonb`).Scan(&raw))
	equal(t, string(raw), `{"a": 2, "b": 1}`)
}

func TestPgxBatchesAndCopies(t *testing.T) {
	ctx, conn := inSchema(t)
	exec(t, ctx, conn, "CREATE TABLE pets (id serial PRIMARY KEY, name text UNIQUE, weight numeric(6, 2), born timestamptz, tags text[])")
	batch := &pgx.Batch{}
	for number := 0; number < 100; number++ {
		batch.Queue("INSERT INTO pets (name) VALUES ($1) RETURNING id", fmt.Sprint("pet ", number)).QueryRow(func(row pgx.Row) error {
			var id int
			return row.Scan(&id)
		})
	}
	sum := 0
	batch.Queue("SELECT sum(id) FROM pets").QueryRow(func(row pgx.Row) error { return row.Scan(&sum) })
	must(t, conn.SendBatch(ctx, batch).Close())
	equal(t, sum, 5050)
	// A statement that fails takes those before it along.
	failing := &pgx.Batch{}
	failing.Queue("DELETE FROM pets")
	failing.Queue("INSERT INTO pets (name) VALUES ('x'), ('x')")
	failure := fails(t, conn.SendBatch(ctx, failing).Close(), "23505")
	equal(t, []string{failure.SchemaName, failure.TableName, failure.ConstraintName}, []string{"shop", "pets", "pets_name_key"})
	equal(t, number(t, ctx, conn, "SELECT count(*) FROM pets"), 100)

	now := time.Now()
	copied, err := conn.CopyFrom(ctx, pgx.Identifier{"shop", "pets"}, []string{"name", "weight", "born", "tags"},
		pgx.CopyFromSlice(1000, func(at int) ([]any, error) {
			return []any{fmt.Sprint("copied ", at), float64(at) / 4, now, []string{"a", "b"}}, nil
		}))
	must(t, err)
	equal(t, copied, int64(1000))
	equal(t, number(t, ctx, conn, "SELECT count(*) FROM pets WHERE weight > 0 AND tags[2] = 'b'"), 999)
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"pets"}, []string{"name"}, pgx.CopyFromRows([][]any{{"new"}, {"pet 1"}}))
	fails(t, err, "23505")
	equal(t, number(t, ctx, conn, "SELECT count(*) FROM pets"), 1100)
}

func TestPgxTransactions(t *testing.T) {
	ctx, conn := inSchema(t)
	exec(t, ctx, conn, "CREATE TABLE pets (id int PRIMARY KEY)")
	must(t, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO pets VALUES (1)"); err != nil {
			return err
		}
		nested := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO pets VALUES (2), (1)")
			return err
		})
		fails(t, nested, "23505")
		_, err := tx.Exec(ctx, "INSERT INTO pets VALUES (3)")
		return err
	}))
	equal(t, number(t, ctx, conn, "SELECT sum(id) FROM pets"), 4)
	for _, options := range []pgx.TxOptions{{IsoLevel: pgx.Serializable}, {IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		{IsoLevel: pgx.ReadCommitted}, {IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable}} {
		refused := errors.New("it was refused")
		err := pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
			var level string
			must(t, tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&level))
			equal(t, level, string(options.IsoLevel))
			_, err := tx.Exec(ctx, "DELETE FROM pets WHERE id = 7")
			if options.AccessMode == pgx.ReadOnly {
				fails(t, err, "25006")
				return refused
			}
			return err
		})
		equal(t, errors.Is(err, refused), options.AccessMode == pgx.ReadOnly)
	}
	// A statement ends with its context.
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := conn.Exec(short, "SELECT pg_sleep(60)")
	equal(t, errors.Is(err, context.DeadlineExceeded), true)
}

func TestPgxPool(t *testing.T) {
	ctx, conn := inSchema(t)
	exec(t, ctx, conn, "CREATE TABLE counters (id int PRIMARY KEY, value int)", "INSERT INTO counters VALUES (1, 0)")
	config, err := pgxpool.ParseConfig("pool_max_conns=4")
	must(t, err)
	config.ConnConfig.RuntimeParams["search_path"] = "shop"
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	must(t, err)
	defer pool.Close()
	var all sync.WaitGroup
	for number := 0; number < 40; number++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if _, err := pool.Exec(ctx, "UPDATE counters SET value = value + 1 WHERE id = $1", 1); err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	equal(t, number(t, ctx, conn, "SELECT value FROM counters"), 40)
	must(t, pool.Ping(ctx))
	equal(t, pool.Stat().TotalConns() <= 4, true)
}

func TestPgxNotifications(t *testing.T) {
	ctx, listener := connect(t)
	_, other := connect(t)
	exec(t, ctx, listener, "LISTEN news", `LISTEN "Other"`)
	exec(t, ctx, other, "NOTIFY news, 'first'", "SELECT pg_notify('Other', 'second')")
	for _, want := range []string{"news first", "Other second"} {
		notification, err := listener.WaitForNotification(ctx)
		must(t, err)
		equal(t, notification.Channel+" "+notification.Payload, want)
	}
	exec(t, ctx, listener, "UNLISTEN *")
	var locked bool
	must(t, listener.QueryRow(ctx, "SELECT pg_try_advisory_lock(7)").Scan(&locked))
	equal(t, locked, true)
	must(t, other.QueryRow(ctx, "SELECT pg_try_advisory_lock(7)").Scan(&locked))
	equal(t, locked, false)
}
