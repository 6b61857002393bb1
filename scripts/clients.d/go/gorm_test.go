package clients

import (
	"errors"
	"testing"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Owner struct {
	gorm.Model
	Name    string  `gorm:"size:40;not null;uniqueIndex:owners_name,where:deleted_at IS NULL"`
	Mail    *string `gorm:"index:,sort:desc;comment:of the person"`
	Active  bool    `gorm:"default:true;check:owners_active,active OR mail IS NULL"`
	Pets    []Pet   `gorm:"constraint:OnDelete:CASCADE"`
	Address Address `gorm:"embedded;embeddedPrefix:address_"`
}

type Address struct {
	Street string
	Code   string `gorm:"type:char(5)"`
}

type Pet struct {
	ID      uint
	OwnerID uint
	Name    string
	Weight  float64 `gorm:"type:numeric(6,2)"`
	Born    time.Time
	Extra   map[string]any `gorm:"serializer:json;type:jsonb"`
	Tags    []Tag          `gorm:"many2many:pet_tags;constraint:OnDelete:CASCADE"`
}

type Tag struct {
	Text string `gorm:"primaryKey"`
}

// What a later version of the program has: other types, another column, another index.
type LaterPet struct {
	ID      uint
	OwnerID uint
	Name    string  `gorm:"size:100;not null;default:none;index"`
	Weight  float64 `gorm:"type:numeric(8,3)"`
	Note    string
}

func (LaterPet) TableName() string { return "pets" }

func TestGorm(t *testing.T) {
	inSchema(t)
	open := postgres.Open("search_path=shop")
	db, err := gorm.Open(open, &gorm.Config{Logger: logger.Discard, TranslateError: true})
	must(t, err)
	pool, err := db.DB()
	must(t, err)
	defer pool.Close()
	// The second time there is nothing to do.
	for round := 0; round < 2; round++ {
		must(t, db.AutoMigrate(&Owner{}, &Pet{}, &Tag{}))
	}
	migrator := db.Migrator()
	equal(t, migrator.HasTable("pet_tags") && migrator.HasIndex(&Owner{}, "owners_name") && migrator.HasConstraint(&Owner{}, "owners_active"), true)
	types, err := migrator.ColumnTypes(&Owner{})
	must(t, err)
	for _, column := range types {
		if column.Name() == "name" {
			length, _ := column.Length()
			nullable, _ := column.Nullable()
			equal(t, []any{column.DatabaseTypeName(), length, nullable}, []any{"varchar", int64(40), false})
		}
		if column.Name() == "mail" {
			comment, _ := column.Comment()
			equal(t, comment, "of the person")
		}
		if column.Name() == "id" {
			isKey, _ := column.PrimaryKey()
			equal(t, isKey, true)
		}
	}
	indexes, err := migrator.GetIndexes(&Owner{})
	must(t, err)
	equal(t, len(indexes), 3)

	cat := Pet{Name: "cat", Weight: 4.25, Born: time.Now(), Extra: map[string]any{"a": 1.0}, Tags: []Tag{{"old"}, {"grey"}}}
	anna := Owner{Name: "Anna", Active: true, Pets: []Pet{cat, {Name: "dog"}}, Address: Address{"Long Street", "12345"}}
	must(t, db.Create(&anna).Error)
	var found Owner
	must(t, db.Preload("Pets.Tags").First(&found, "name = ?", "Anna").Error)
	equal(t, []any{len(found.Pets), len(found.Pets[0].Tags), found.Pets[0].Extra["a"], found.Address.Code}, []any{2, 2, 1.0, "12345"})
	var joined []Pet
	must(t, db.Joins("JOIN owners ON owners.id = pets.owner_id").Where("owners.name IN ?", []string{"Anna"}).Order("pets.id DESC").Limit(1).Find(&joined).Error)
	equal(t, joined[0].Name, "dog")

	upsert := clause.OnConflict{Columns: []clause.Column{{Name: "text"}}, DoNothing: true}
	must(t, db.Clauses(upsert).Create(&[]Tag{{"old"}, {"new"}}).Error)
	change := clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"name", "weight"})}
	changed := Pet{ID: found.Pets[0].ID, OwnerID: anna.ID, Name: "tom", Weight: 5}
	must(t, db.Clauses(change).Create(&changed).Error)
	must(t, db.Model(&changed).Clauses(clause.Returning{}).Update("weight", gorm.Expr("weight * ?", 2)).Error)
	equal(t, changed.Weight, 10.0)
	equal(t, errors.Is(db.Create(&Owner{Name: "Anna"}).Error, gorm.ErrDuplicatedKey), true)
	equal(t, errors.Is(db.Create(&Pet{OwnerID: 4711}).Error, gorm.ErrForeignKeyViolated), true)

	must(t, db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&Owner{Name: "Ben"}).Error; err != nil {
			return err
		}
		nested := tx.Transaction(func(tx *gorm.DB) error {
			tx.Create(&Owner{Name: "Cora"})
			return errors.New("changed its mind")
		})
		equal(t, nested != nil, true)
		var locked []Owner
		return tx.Clauses(clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}).Find(&locked).Error
	}))
	var count int64
	must(t, db.Model(&Owner{}).Count(&count).Error)
	equal(t, count, int64(2))
	var sums []struct {
		Name  string
		Total float64
	}
	must(t, db.Model(&Pet{}).Select("name, sum(weight) AS total").Group("name").Having("count(*) > 0").Order("name").Scan(&sums).Error)
	equal(t, sums[1].Total, 10.0)
	must(t, db.Delete(&anna).Error)
	must(t, db.Unscoped().Delete(&anna).Error)
	must(t, db.Model(&Pet{}).Count(&count).Error)
	equal(t, count, int64(0))

	for round := 0; round < 2; round++ {
		must(t, db.AutoMigrate(&LaterPet{}))
	}
	must(t, migrator.RenameColumn(&LaterPet{}, "note", "remark"))
	must(t, migrator.DropColumn(&LaterPet{}, "remark"))
	must(t, migrator.CreateView("names", gorm.ViewOption{Query: db.Model(&Owner{}).Select("name"), Replace: true}))
	tables, err := migrator.GetTables()
	must(t, err)
	equal(t, len(tables), 4)
	must(t, migrator.DropView("names"))
	must(t, migrator.DropTable(&Pet{}, &Owner{}, &Tag{}, "pet_tags"))
}
