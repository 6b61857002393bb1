package clients

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	_ "github.com/golang-migrate/migrate/v4/database/postgres"
	_ "github.com/golang-migrate/migrate/v4/source/file"
)

// golang-migrate, with both of its drivers.
func TestMigrate(t *testing.T) {
	ctx, conn := inSchema(t)
	directory := t.TempDir()
	write := func(name, text string) {
		must(t, os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600))
	}
	write("1_pets.up.sql", "CREATE TABLE pets (id serial PRIMARY KEY, name text);\nINSERT INTO pets (name) VALUES ('a;b');")
	write("1_pets.down.sql", "DROP TABLE pets;")
	write("2_index.up.sql", "CREATE INDEX CONCURRENTLY pets_name ON pets (name);")
	write("2_index.down.sql", "DROP INDEX pets_name;")
	write("3_wrong.up.sql", "CREATE TABLE later (a int); INSERT INTO pets VALUES (1);")
	for _, scheme := range []string{"postgres", "pgx5"} {
		address := scheme + "://" + os.Getenv("PGUSER") + "@" + os.Getenv("PGHOST") + ":" + os.Getenv("PGPORT") + "/" +
			os.Getenv("PGDATABASE") + "?sslmode=disable&search_path=shop"
		tool, err := migrate.New("file://"+directory, address)
		must(t, err)
		must(t, tool.Migrate(2))
		equal(t, errors.Is(tool.Migrate(2), migrate.ErrNoChange), true)
		equal(t, tool.Up() != nil, true)
		version, isDirty, err := tool.Version()
		must(t, err)
		equal(t, []any{version, isDirty}, []any{uint(3), true})
		must(t, tool.Force(2))
		equal(t, number(t, ctx, conn, "SELECT count(*) FROM pets"), 1)
		must(t, tool.Down())
		must(t, tool.Drop())
		source, database := tool.Close()
		must(t, source)
		must(t, database)
	}
}
