// Package gorm drives a server with GORM: AutoMigrate of models that refer to each other, its associations, its errors, and
// AutoMigrate of a second version of the models, which finds nothing to do when it runs again. It connects with the PG*
// environment variables, over TLS and with a password.
package gorm

import (
	"context"
	"errors"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Profile struct {
	ID       uint
	Bio      string
	AuthorID uint `gorm:"uniqueIndex"`
}

type Author struct {
	gorm.Model
	Name     string  `gorm:"size:50;not null"`
	Email    *string `gorm:"unique"`
	Active   bool    `gorm:"default:true"`
	Profile  Profile `gorm:"constraint:OnDelete:CASCADE"`
	Books    []Book  `gorm:"constraint:OnUpdate:CASCADE,OnDelete:CASCADE"`
	MentorID *uint
	Mentor   *Author  `gorm:"constraint:OnDelete:SET NULL"`
	Pupils   []Author `gorm:"foreignKey:MentorID;constraint:OnDelete:SET NULL"`
}

type Publisher struct {
	ID   uint
	Name string
}

type Tag struct {
	ID   uint
	Name string `gorm:"uniqueIndex"`
}

type Book struct {
	ID          uint
	Title       string  `gorm:"index"`
	Price       float64 `gorm:"type:numeric(8,2);default:0;check:price >= 0"`
	AuthorID    uint
	Author      Author
	PublisherID *uint
	Publisher   *Publisher `gorm:"constraint:OnDelete:SET NULL"`
	Tags        []Tag      `gorm:"many2many:book_tags;constraint:OnDelete:CASCADE"`
	CreatedAt   time.Time
}

// The second version.

type newAuthor struct {
	gorm.Model
	Name     string  `gorm:"size:80;not null"`
	Email    *string `gorm:"unique"`
	Active   bool    `gorm:"default:true"`
	MentorID *uint
	Mentor   *newAuthor `gorm:"constraint:OnDelete:SET NULL"`
}

func (newAuthor) TableName() string { return "authors" }

type newBook struct {
	ID          uint
	Title       string  `gorm:"index;uniqueIndex:book_once;size:100"`
	Price       float64 `gorm:"type:numeric(8,2);default:0;check:price >= 0"`
	AuthorID    uint    `gorm:"uniqueIndex:book_once"`
	PublisherID *uint
	ISBN        *string `gorm:"size:13;uniqueIndex"`
	Pages       int     `gorm:"not null;default:1;index:,sort:desc"`
	EditorID    *uint
	Editor      *newAuthor `gorm:"constraint:OnDelete:SET NULL"`
	Reviews     []Review   `gorm:"foreignKey:BookID;constraint:OnDelete:CASCADE"`
	CreatedAt   time.Time
}

func (newBook) TableName() string { return "books" }

type Review struct {
	ID       uint
	BookID   uint
	CriticID uint
	Critic   newAuthor
	Stars    int8 `gorm:"not null"`
}

// notes collects the statements that GORM sends.
type notes struct {
	logger.Interface
	changes []string
}

func (n *notes) Trace(_ context.Context, _ time.Time, statement func() (string, int64), _ error) {
	sql, _ := statement()
	for _, verb := range []string{"CREATE", "ALTER", "DROP", "COMMENT"} {
		if strings.HasPrefix(sql, verb) {
			n.changes = append(n.changes, sql)
		}
	}
}

func open(t *testing.T) (*gorm.DB, *notes) {
	t.Helper()
	n := &notes{Interface: logger.Discard}
	// Everything comes from the environment. Errors are GORM's own if it is asked to translate them.
	db, err := gorm.Open(postgres.Open(""), &gorm.Config{Logger: n, TranslateError: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pool, err := db.DB(); err == nil {
			pool.Close()
		}
	})
	return db, n
}

func done(t *testing.T, result *gorm.DB) *gorm.DB {
	t.Helper()
	if result.Error != nil {
		t.Fatal(result.Error)
	}
	return result
}

func check(t *testing.T, name string, actual, expected any) {
	t.Helper()
	if !reflect.DeepEqual(actual, expected) {
		t.Fatalf("%s: got %v, expected %v", name, actual, expected)
	}
	t.Log(name)
}

func checkFails(t *testing.T, result *gorm.DB, expected error) {
	t.Helper()
	if !errors.Is(result.Error, expected) {
		t.Fatalf("got %v, expected %v", result.Error, expected)
	}
	t.Log(expected)
}

func count(t *testing.T, db *gorm.DB, model any, where ...any) int64 {
	t.Helper()
	var n int64
	query := db.Model(model)
	if len(where) > 0 {
		query = query.Where(where[0], where[1:]...)
	}
	done(t, query.Count(&n))
	return n
}

func names(tags []Tag) []string {
	found := []string{}
	for _, tag := range tags {
		found = append(found, tag.Name)
	}
	sort.Strings(found)
	return found
}

func migrate(t *testing.T, db *gorm.DB, n *notes, models ...any) {
	t.Helper()
	if err := db.AutoMigrate(models...); err != nil {
		t.Fatal(err)
	}
	n.changes = nil
	if err := db.AutoMigrate(models...); err != nil {
		t.Fatal(err)
	}
	check(t, "migrating again changes nothing", n.changes, []string(nil))
}

func email(name string) *string {
	address := name + "@x.org"
	return &address
}

func writes(t *testing.T, db *gorm.DB) {
	red, blue := Tag{Name: "red"}, Tag{Name: "blue"}
	press := Publisher{Name: "press"}
	ann := Author{
		Name: "ann", Email: email("ann"), Profile: Profile{Bio: "writes"},
		Books: []Book{{Title: "one", Price: 12.5, Publisher: &press, Tags: []Tag{red, blue}}},
	}
	done(t, db.Create(&ann))
	check(t, "keys come from the server", []any{ann.ID, ann.Active, ann.Books[0].AuthorID}, []any{uint(1), true, uint(1)})
	bob := Author{Name: "bob", Email: email("bob"), Mentor: &ann}
	done(t, db.Create(&bob))
	done(t, db.Where("name = ?", "red").First(&red))
	books := []Book{{Title: "two", AuthorID: bob.ID, PublisherID: &press.ID, Tags: []Tag{red}}, {Title: "three", AuthorID: bob.ID}}
	done(t, db.Create(&books))
	check(t, "batch", []uint{books[0].ID, books[1].ID}, []uint{2, 3})
	if err := db.Model(&books[1]).Association("Tags").Append(&Tag{Name: "green"}, &red); err != nil {
		t.Fatal(err)
	}
	check(t, "association", db.Model(&books[1]).Association("Tags").Count(), int64(2))
	if err := db.Model(&books[1]).Association("Tags").Replace(&red); err != nil {
		t.Fatal(err)
	}
	check(t, "replaced", db.Model(&books[1]).Association("Tags").Count(), int64(1))
	check(t, "update", done(t, db.Model(&Book{}).Where("author_id = ?", bob.ID).Update("price", gorm.Expr("price + ?", 5))).RowsAffected, int64(2))
	books[0].Title = "zwei"
	done(t, db.Select("Title").Save(&books[0]))
	done(t, db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "email"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}).
		Create(&Author{Name: "ANN", Email: email("ann")}))
	done(t, db.First(&ann, ann.ID))
	check(t, "upsert", ann.Name, "ANN")
	var eve Author
	done(t, db.Where(Author{Email: email("eve")}).Attrs(Author{Name: "eve"}).FirstOrCreate(&eve))
	check(t, "first or create", count(t, db, &Author{}), int64(3))
	done(t, db.Delete(&eve))
	check(t, "marked as deleted", []int64{count(t, db, &Author{}), count(t, db.Unscoped(), &Author{})}, []int64{2, 3})
}

func reads(t *testing.T, db *gorm.DB) {
	var books []Book
	done(t, db.Joins("Author").Joins("Publisher").Preload("Tags").Order("books.id").Find(&books))
	found := [][]any{}
	for _, book := range books {
		found = append(found, []any{book.Title, book.Price, book.Author.Name, book.Publisher != nil, strings.Join(names(book.Tags), ",")})
	}
	check(t, "joins and preload", found, [][]any{{"one", 12.5, "ANN", true, "blue,red"}, {"zwei", 5.0, "bob", true, "red"}, {"three", 5.0, "bob", false, "red"}})
	var authors []Author
	done(t, db.Preload("Books.Tags").Preload("Profile").Preload("Pupils").Preload("Mentor").Order("id").Find(&authors))
	check(t, "preload of all", []any{len(authors[0].Books[0].Tags), authors[0].Profile.Bio, authors[0].Pupils[0].Name, authors[1].Mentor.Name},
		[]any{2, "writes", "bob", "ANN"})
	var rows []struct {
		Name string
		N    int
		Sum  float64
	}
	done(t, db.Model(&Author{}).Select("authors.name, count(books.id) AS n, sum(books.price) AS sum").
		Joins("JOIN books ON books.author_id = authors.id").Group("authors.name").Having("count(*) > ?", 0).Order("authors.name").Scan(&rows))
	check(t, "group", []any{rows[0].N, rows[1].N, rows[1].Sum}, []any{1, 2, 10.0})
	var titles []string
	done(t, db.Model(&Book{}).Where("author_id IN (?)", db.Model(&Author{}).Select("id").Where("name LIKE ?", "b%")).Order("title").Limit(1).Offset(1).Pluck("title", &titles))
	check(t, "subquery", titles, []string{"zwei"})
	var missing Book
	checkFails(t, db.First(&missing, 999), gorm.ErrRecordNotFound)
	batches := 0
	done(t, db.FindInBatches(&books, 2, func(*gorm.DB, int) error { batches++; return nil }))
	check(t, "batches", batches, 2)
}

func transactions(t *testing.T, db *gorm.DB) {
	err := db.Transaction(func(tx *gorm.DB) error {
		var book Book
		done(t, tx.Clauses(clause.Locking{Strength: "UPDATE"}).First(&book, "title = ?", "one"))
		done(t, tx.Model(&book).Update("title", "uno"))
		// A savepoint, and back to it.
		err := tx.Transaction(func(nested *gorm.DB) error {
			return nested.Create(&Author{Name: "x", Email: email("ann")}).Error
		})
		if !errors.Is(err, gorm.ErrDuplicatedKey) {
			t.Fatal(err)
		}
		return nil
	})
	check(t, "transaction", err, nil)
	check(t, "committed", count(t, db, &Book{}, "title = ?", "uno"), int64(1))
	checkFails(t, db.Create(&Author{Name: "x", Email: email("bob")}), gorm.ErrDuplicatedKey)
	checkFails(t, db.Create(&Book{Title: "x", AuthorID: 999}), gorm.ErrForeignKeyViolated)
	checkFails(t, db.Model(&Book{}).Where("title = ?", "uno").Update("publisher_id", 999), gorm.ErrForeignKeyViolated)
	checkFails(t, db.Model(&Book{}).Where("title = ?", "uno").Update("price", -1), gorm.ErrCheckConstraintViolated)
}

func deletes(t *testing.T, db *gorm.DB) {
	done(t, db.Delete(&Publisher{}, "name = ?", "press"))
	check(t, "set null", count(t, db, &Book{}, "publisher_id IS NULL"), int64(3))
	done(t, db.Unscoped().Delete(&Author{}, "name = ?", "ANN"))
	check(t, "delete cascades", []int64{count(t, db, &Book{}), count(t, db, &Profile{})}, []int64{2, 0})
	var pairs int64
	done(t, db.Table("book_tags").Count(&pairs))
	check(t, "to the table between as well", pairs, int64(2))
	var bob Author
	done(t, db.First(&bob, "name = ?", "bob"))
	check(t, "set null in its own table", bob.MentorID, (*uint)(nil))
	done(t, db.Select("Tags").Delete(&Book{ID: 3}))
	done(t, db.Table("book_tags").Count(&pairs))
	check(t, "with its associations", pairs, int64(1))
}

func second(t *testing.T, db *gorm.DB) {
	var author newAuthor
	done(t, db.First(&author, "name = ?", "bob"))
	var book newBook
	done(t, db.First(&book, "author_id = ?", author.ID))
	check(t, "rows are still there", []any{book.Title, book.Pages, book.ISBN, book.EditorID}, []any{"zwei", 1, (*string)(nil), (*uint)(nil)})
	isbn := "9780000000000"
	done(t, db.Model(&book).Updates(newBook{ISBN: &isbn, Editor: &author}))
	done(t, db.Model(&author).Update("name", strings.Repeat("b", 80)))
	done(t, db.Create(&Review{BookID: book.ID, CriticID: author.ID, Stars: 5}))
	checkFails(t, db.Create(&newBook{Title: "zwei", AuthorID: author.ID}), gorm.ErrDuplicatedKey)
	checkFails(t, db.Create(&newBook{Title: "four", AuthorID: author.ID, ISBN: &isbn}), gorm.ErrDuplicatedKey)
	checkFails(t, db.Create(&Review{BookID: 999, CriticID: author.ID, Stars: 5}), gorm.ErrForeignKeyViolated)
	var review Review
	done(t, db.Joins("Critic").First(&review))
	check(t, "new reference", review.Critic.ID, author.ID)
	checkFails(t, db.Unscoped().Delete(&author), gorm.ErrForeignKeyViolated)
	done(t, db.Delete(&book))
	check(t, "new cascade", count(t, db, &Review{}), int64(0))
}

func description(t *testing.T, db *gorm.DB) {
	m := db.Migrator()
	check(t, "has", []bool{m.HasTable(&Review{}), m.HasColumn(&newBook{}, "isbn"), m.HasIndex(&newBook{}, "book_once"),
		m.HasConstraint(&newBook{}, "Editor"), m.HasConstraint(&newBook{}, "nosuch")}, []bool{true, true, true, true, false})
	columns, err := m.ColumnTypes(&newBook{})
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range columns {
		switch column.Name() {
		case "id":
			key, _ := column.PrimaryKey()
			auto, _ := column.AutoIncrement()
			check(t, "id", []any{column.DatabaseTypeName(), key, auto}, []any{"int8", true, true})
		case "price":
			precision, scale, _ := column.DecimalSize()
			check(t, "price", []any{column.DatabaseTypeName(), precision, scale}, []any{"numeric", int64(8), int64(2)})
		case "isbn":
			length, _ := column.Length()
			nullable, _ := column.Nullable()
			check(t, "isbn", []any{length, nullable}, []any{int64(13), true})
		}
	}
	if err := m.RenameColumn(&newBook{}, "pages", "leaves"); err != nil {
		t.Fatal(err)
	}
	if err := m.DropColumn(&newBook{}, "leaves"); err != nil {
		t.Fatal(err)
	}
	if err := m.DropTable("book_tags", &Review{}, &newBook{}, &Tag{}, &Publisher{}, &Profile{}, &newAuthor{}); err != nil {
		t.Fatal(err)
	}
	check(t, "dropped", m.HasTable("authors"), false)
}

func TestFirstHour(t *testing.T) {
	db, n := open(t)
	migrate(t, db, n, &Author{}, &Profile{}, &Publisher{}, &Tag{}, &Book{})
	writes(t, db)
	reads(t, db)
	transactions(t, db)
	deletes(t, db)
	db, n = open(t)
	migrate(t, db, n, &newAuthor{}, &newBook{}, &Review{})
	second(t, db)
	description(t, db)
}
