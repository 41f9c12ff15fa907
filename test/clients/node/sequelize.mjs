// Sequelize: models with references, sync, the queries and cascades that it makes of them, and a second version of the models
// by sync({alter: true}), twice, and by its query interface, up and down.

import { createRequire } from "node:module";
import { DataTypes, ForeignKeyConstraintError, Op, Sequelize, UniqueConstraintError, ValidationError, col, fn } from "sequelize";
import { check, tls } from "./common.mjs";

const version = createRequire(import.meta.url)("sequelize/package.json").version;
// What node-postgres would read of libpq's variables comes without the certificate's name.
delete process.env.PGSSLMODE;

function connect() {
  const env = process.env;
  return new Sequelize(env.PGDATABASE, env.PGUSER, env.PGPASSWORD, {
    dialect: "postgres",
    host: env.PGHOST,
    port: env.PGPORT,
    dialectOptions: { ssl: tls },
    logging: false,
  });
}

// What a newcomer writes down, in two versions.
function models(sequelize, version) {
  const Author = sequelize.define("Author", {
    name: { type: DataTypes.STRING, allowNull: false },
    email: { type: DataTypes.STRING, unique: true },
    active: { type: DataTypes.BOOLEAN, defaultValue: true },
  });
  const Publisher = sequelize.define("Publisher", { name: DataTypes.STRING });
  const Tag = sequelize.define("Tag", { name: { type: DataTypes.STRING, primaryKey: true } }, { timestamps: false });
  const Book = sequelize.define(
    "Book",
    {
      title: { type: DataTypes.STRING(100), allowNull: false },
      price: { type: DataTypes.DECIMAL(8, 2), defaultValue: 0 },
      data: DataTypes.JSONB,
      ...(version === 2 && { isbn: DataTypes.STRING(13), pages: { type: DataTypes.INTEGER, defaultValue: 1 } }),
    },
    {
      indexes: [
        { fields: ["price"] },
        ...(version === 2 ? [{ fields: ["title"] }, { unique: true, fields: ["title", "authorId"] }] : []),
      ],
    },
  );
  Author.hasMany(Book, { as: "books", foreignKey: { name: "authorId", allowNull: false }, onDelete: "CASCADE" });
  Book.belongsTo(Author, { as: "author", foreignKey: { name: "authorId", allowNull: false }, onDelete: "CASCADE" });
  // Its own defaults: the key may be null, and is set to NULL.
  Publisher.hasMany(Book);
  Book.belongsTo(Publisher);
  Author.belongsTo(Author, { as: "mentor" });
  Author.hasMany(Author, { as: "pupils", foreignKey: "mentorId" });
  Book.belongsToMany(Tag, { through: "BookTags", as: "tags" });
  Tag.belongsToMany(Book, { through: "BookTags", as: "books" });
  if (version === 1) {
    return { Author, Publisher, Tag, Book };
  }
  const Review = sequelize.define("Review", { stars: { type: DataTypes.INTEGER, allowNull: false } });
  Book.hasMany(Review, { as: "reviews", foreignKey: { allowNull: false }, onDelete: "CASCADE" });
  Review.belongsTo(Book, { foreignKey: { allowNull: false }, onDelete: "CASCADE" });
  Review.belongsTo(Author, { as: "critic", foreignKey: { allowNull: false }, onDelete: "RESTRICT" });
  return { Author, Publisher, Tag, Book, Review };
}

async function checkRaises(kind, code, act) {
  try {
    await act();
  } catch (error) {
    check(`${kind.name} ${code}`, [error instanceof kind, error.parent?.code], [true, code]);
    return;
  }
  check(`${kind.name} ${code}`, "nothing was raised", code);
}

async function writes(sequelize, { Author, Publisher, Tag, Book }) {
  const ann = await Author.create({ name: "ann", email: "ann@x.org" });
  const bob = await Author.create({ name: "bob", email: "bob@x.org", mentorId: ann.id });
  check("keys come from the server", [ann.id, bob.id, ann.active], [1, 2, true]);
  const press = await Publisher.create({ name: "press" });
  const one = await ann.createBook({ title: "one", price: 12.5, data: { lang: "en" }, PublisherId: press.id });
  const [two] = await Book.bulkCreate([{ title: "two", authorId: bob.id, PublisherId: press.id }, { title: "three", authorId: bob.id }]);
  const [red, blue] = await Tag.bulkCreate([{ name: "red" }, { name: "blue" }]);
  await one.addTags([red, blue]);
  await two.setTags([red]);
  const with_books = await Author.create(
    { name: "eve", email: "eve@x.org", books: [{ title: "nested", tags: [{ name: "nested" }] }] },
    { include: [{ association: "books", include: ["tags"] }] },
  );
  check("created with what belongs to it", [with_books.books[0].authorId, with_books.books[0].tags[0].name], [with_books.id, "nested"]);
  await two.update({ title: "zwei" });
  check("update", await Book.update({ price: sequelize.literal('"price" + 5') }, { where: { authorId: bob.id } }), [2]);
  await two.reload();
  check("reload", [two.title, two.price], ["zwei", "5.00"]);
  const [, made] = await Author.findOrCreate({ where: { email: "ann@x.org" }, defaults: { name: "other" } });
  check("findOrCreate", made, false);
  const [upserted] = await Author.upsert({ name: "ANN", email: "ann@x.org" });
  check("upsert", [upserted.id, await Author.count()], [ann.id, 3]);
  await one.increment("price", { by: 1 });
  check("increment", (await one.reload()).price, "13.50");
}

async function reads(sequelize, { Author, Book, Tag }) {
  const books = await Book.findAll({ include: ["author", "Publisher", "tags"], order: [["title", "ASC"], ["tags", "name", "ASC"]] });
  check(
    "joins",
    books.map((book) => [book.title, book.author.name, book.Publisher?.name, book.tags.map((tag) => tag.name)]),
    [
      ["nested", "eve", undefined, ["nested"]],
      ["one", "ANN", "press", ["blue", "red"]],
      ["three", "bob", undefined, []],
      ["zwei", "bob", "press", ["red"]],
    ],
  );
  const authors = await Author.findAll({ include: [{ association: "books", separate: true, order: ["title"] }, "pupils", "mentor"], order: ["id"] });
  check(
    "separate, self reference",
    authors.map((author) => [author.books.map((book) => book.title), author.pupils.length, author.mentor?.name]),
    [[["one"], 1, undefined], [["three", "zwei"], 0, "ANN"], [["nested"], 0, undefined]],
  );
  const red = await Tag.findByPk("red", { include: { association: "books", where: { title: { [Op.iLike]: "Z%" } } } });
  check("through the table between", red.books.map((book) => book.title), ["zwei"]);
  const found = await Author.findAll({
    attributes: ["name", [fn("COUNT", col("books.id")), "n"]],
    include: { association: "books", attributes: [] },
    group: ["Author.id"],
    order: [["name", "ASC"]],
    raw: true,
  });
  check("group", found.map(({ name, n }) => [name, n]), [["ANN", "1"], ["bob", "2"], ["eve", "1"]]);
  const page = await Book.findAndCountAll({ where: { price: { [Op.gt]: 1 } }, include: "author", order: ["title"], limit: 2, offset: 1 });
  check("page", [page.count, page.rows.map((book) => book.title)], [3, ["three", "zwei"]]);
  check("json", await Book.count({ where: { data: { lang: "en" } } }), 1);
  check("where across", await Book.count({ where: { "$author.name$": "bob" }, include: "author" }), 2);
  check("max", await Book.max("price"), 13.5);
}

async function transactions(sequelize, { Author, Book }) {
  await sequelize.transaction(async (transaction) => {
    const one = await Book.findOne({ where: { title: "one" }, lock: true, transaction });
    await one.update({ title: "uno" }, { transaction });
  });
  try {
    await sequelize.transaction(async (transaction) => {
      await Author.create({ name: "none" }, { transaction });
      throw new Error("back");
    });
  } catch (error) {
    check("rolled back", [error.message, await Author.count({ where: { name: "none" } })], ["back", 0]);
  }
  await sequelize.transaction(async (transaction) => {
    await checkRaises(UniqueConstraintError, "23505", () =>
      sequelize.transaction({ transaction }, (nested) => Author.create({ name: "x", email: "ann@x.org" }, { transaction: nested })),
    );
    check("savepoint", await Book.count({ where: { title: "uno" }, transaction }), 1);
  });
}

async function integrity({ Author, Publisher, Book }) {
  await checkRaises(UniqueConstraintError, "23505", () => Author.create({ name: "x", email: "ann@x.org" }));
  await checkRaises(ForeignKeyConstraintError, "23503", () => Book.create({ title: "x", authorId: 999 }));
  await checkRaises(ForeignKeyConstraintError, "23503", () => Book.update({ PublisherId: 999 }, { where: { title: "uno" } }));
  await checkRaises(ValidationError, undefined, () => Book.create({ authorId: 1 }));
  await Publisher.destroy({ where: {} });
  check("set null", await Book.count({ where: { PublisherId: null } }), 4);
  check("delete", await Author.destroy({ where: { name: "ANN" } }), 1);
  check("its books go along", await Book.count(), 3);
  check("and rows of the table between", (await Book.sequelize.models.BookTags.findAll({ order: ["TagName"] })).map((row) => row.TagName), ["nested", "red"]);
  check("set null in its own table", (await Author.findOne({ where: { name: "bob" } })).mentorId, null);
}

async function description(sequelize) {
  const queries = sequelize.getQueryInterface();
  const tables = ["Authors", "BookTags", "Books", "Publishers", "Tags"];
  check("tables", (await queries.showAllTables()).filter((name) => tables.includes(name)).sort(), tables);
  const columns = await queries.describeTable("Books");
  check("columns", [columns.id.primaryKey, columns.title, columns.authorId.allowNull], [
    true,
    { type: "CHARACTER VARYING(100)", allowNull: false, defaultValue: null, comment: null, special: [], primaryKey: false },
    false,
  ]);
  const references = await queries.getForeignKeyReferencesForTable("Books");
  check(
    "references",
    references.map((key) => [key.columnName, key.referencedTableName, key.referencedColumnName]).sort(),
    [["PublisherId", "Publishers", "id"], ["authorId", "Authors", "id"]],
  );
  const indexes = await queries.showIndex("Books");
  check("indexes", indexes.map((index) => [index.name, index.primary]).sort(), [["Books_pkey", true], ["books_price", false]]);
}

// Constraints and indexes, each kind once: at every sync({alter: true}) Sequelize adds another constraint for `unique: true`.
async function schema(sequelize) {
  const [rows] = await sequelize.query(
    `SELECT conrelid::regclass::text AS table, pg_get_constraintdef(oid) AS definition FROM pg_constraint
     WHERE connamespace = 'public'::regnamespace
     UNION ALL SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'`,
  );
  const lines = rows.map((row) => `${row.table}: ${row.definition.replace(/_key\d+/, "_key")}`);
  return [...new Set(lines)].sort();
}

async function second(sequelize) {
  const { Author, Book, Review } = models(sequelize, 2);
  await sequelize.sync({ alter: true });
  const altered = await schema(sequelize);
  await sequelize.sync({ alter: true });
  check("altered again", await schema(sequelize), altered);
  const bob = await Author.findOne({ where: { name: "bob" }, include: { association: "books", order: ["title"] } });
  check("rows are still there", bob.books.map((book) => [book.title, book.isbn, book.pages]).sort(), [["three", null, 1], ["zwei", null, 1]]);
  const columns = await sequelize.getQueryInterface().describeTable("Books");
  check("new columns", [columns.isbn.allowNull, columns.isbn.type, columns.pages.defaultValue], [true, "CHARACTER VARYING(13)", "1"]);
  const review = await bob.books[0].createReview({ stars: 5, criticId: bob.id });
  await checkRaises(ForeignKeyConstraintError, "23503", () => Review.create({ stars: 1, BookId: 999, criticId: bob.id }));
  await checkRaises(UniqueConstraintError, "23505", () => Book.create({ title: "zwei", authorId: bob.id }));
  await checkRaises(ForeignKeyConstraintError, "23503", () => bob.destroy());
  const found = await Review.findOne({ include: [{ model: Book, include: "author" }, "critic"] });
  check("new reference", [found.Book.author.name, found.critic.name], ["bob", "bob"]);
  await review.destroy();
}

// A migration as its command line runs it: up, down and up.
async function migration(sequelize) {
  const queries = sequelize.getQueryInterface();
  const up = async () => {
    await queries.createTable("Shops", {
      id: { type: DataTypes.INTEGER, autoIncrement: true, primaryKey: true },
      ownerId: { type: DataTypes.INTEGER, references: { model: "Authors", key: "id" }, onDelete: "SET NULL", onUpdate: "CASCADE" },
    });
    await queries.addColumn("Books", "shopId", { type: DataTypes.INTEGER, references: { model: "Shops", key: "id" } });
    await queries.addColumn("Books", "code", { type: DataTypes.STRING });
    await queries.addConstraint("Books", { fields: ["code"], type: "unique", name: "books_code" });
    await queries.addConstraint("Books", { fields: ["price"], type: "check", where: { price: { [Op.gte]: 0 } }, name: "books_price_positive" });
    await queries.addConstraint("Books", { fields: ["shopId"], type: "foreign key", name: "books_shop", references: { table: "Shops", field: "id" }, onDelete: "cascade" });
    await queries.renameColumn("Books", "code", "label");
    await queries.changeColumn("Books", "label", { type: DataTypes.TEXT, allowNull: true, defaultValue: "none" });
    await queries.addIndex("Books", ["label", "price"], { name: "books_label" });
  };
  const down = async () => {
    await queries.removeIndex("Books", "books_label");
    await queries.removeConstraint("Books", "books_shop");
    await queries.removeConstraint("Books", "books_price_positive");
    await queries.removeConstraint("Books", "books_code");
    await queries.removeColumn("Books", "label");
    await queries.removeColumn("Books", "shopId");
    await queries.dropTable("Shops");
  };
  const before = await schema(sequelize);
  await up();
  check("migrated", (await queries.describeTable("Books")).label.type, "TEXT");
  const between = await schema(sequelize);
  await down();
  check("taken back", await schema(sequelize), before);
  await up();
  check("migrated again", await schema(sequelize), between);
  await down();
}

async function main() {
  console.log(`Sequelize ${version}`);
  let sequelize = connect();
  await sequelize.authenticate();
  const first = models(sequelize, 1);
  await sequelize.sync();
  const made = await schema(sequelize);
  await sequelize.sync();
  check("sync again changes nothing", await schema(sequelize), made);
  await description(sequelize);
  for (const part of [writes, reads, transactions]) {
    await part(sequelize, first);
  }
  await integrity(first);
  await sequelize.close();

  console.log(" the second version");
  sequelize = connect();
  await second(sequelize);
  await migration(sequelize);
  const { Book } = sequelize.models;
  await Book.truncate({ cascade: true, restartIdentity: true });
  check("truncate", await Book.count(), 0);
  await sequelize.sync({ force: true });
  check("made anew", await sequelize.models.Author.count(), 0);
  await sequelize.drop();
  check("dropped", (await sequelize.getQueryInterface().showAllTables()).includes("Books"), false);
  await sequelize.close();
  console.log("ok");
}

await main();
