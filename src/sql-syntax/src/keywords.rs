//! PostgreSQL's key words: what each may name without quotes. As in PostgreSQL 15.

use std::sync::LazyLock;

/// Where a key word may stand as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Anywhere.
    Unreserved,
    /// As a column, but not as a function or type: it begins something else there.
    ColumnName,
    /// As a function or type only.
    TypeOrFunction,
    /// Nowhere.
    Reserved,
}

/// A key word.
#[derive(Clone, Copy, Debug)]
pub struct Keyword {
    /// In lower case.
    pub word: &'static str,
    /// Where it may stand.
    pub category: Category,
    /// Whether it may be a column's label without AS.
    pub is_bare_label: bool,
}

/// Key words that are names everywhere.
const UNRESERVED: &str = "\
    abort absolute access action add admin after aggregate also alter always asensitive assertion assignment at \
    atomic attach attribute backward before begin breadth by cache call called cascade cascaded catalog chain \
    characteristics checkpoint class close cluster columns comment comments commit committed compression \
    configuration conflict connection constraints content continue conversion copy cost csv cube current cursor \
    cycle data database day deallocate declare defaults deferred definer delete delimiter delimiters depends depth \
    detach dictionary disable discard document domain double drop each enable encoding encrypted enum escape event \
    exclude excluding exclusive execute explain expression extension external family filter finalize first following \
    force forward function functions generated global granted groups handler header hold hour identity if immediate \
    immutable implicit import include including increment index indexes inherit inherits inline input insensitive \
    insert instead invoker isolation key label language large last leakproof level listen load local location lock \
    locked logged mapping match matched materialized maxvalue merge method minute minvalue mode month move name \
    names new next nfc nfd nfkc nfkd no normalized nothing notify nowait nulls object of off oids old operator \
    option options ordinality others over overriding owned owner parallel parameter parser partial partition passing \
    password plans policy preceding prepare prepared preserve prior privileges procedural procedure procedures \
    program publication quote range read reassign recheck recursive ref referencing refresh reindex relative release \
    rename repeatable replace replica reset restart restrict return returns revoke role rollback rollup routine \
    routines rows rule savepoint schema schemas scroll search second security sequence sequences serializable server \
    session set sets share show simple skip snapshot sql stable standalone start statement statistics stdin stdout \
    storage stored strict strip subscription support sysid system tables tablespace temp template temporary text \
    ties transaction transform trigger truncate trusted type types uescape unbounded uncommitted unencrypted unknown \
    unlisten unlogged until update vacuum valid validate validator value varying version view views volatile \
    whitespace within without work wrapper write xml year yes zone";

/// Key words that cannot be functions or types.
const COLUMN_NAMES: &str = "\
    between bigint bit boolean char character coalesce dec decimal exists extract float greatest grouping inout int \
    integer interval least national nchar none normalize nullif numeric out overlay position precision real row \
    setof smallint substring time timestamp treat trim values varchar xmlattributes xmlconcat xmlelement xmlexists \
    xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

/// Key words that can only be functions or types.
const TYPES_OR_FUNCTIONS: &str = "\
    authorization binary collation concurrently cross current_schema freeze full ilike inner is isnull join left \
    like natural notnull outer overlaps right similar tablesample verbose";

/// Key words that are never names.
const RESERVED: &str = "\
    all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create \
    current_catalog current_date current_role current_time current_timestamp current_user default deferrable desc \
    distinct do else end except false fetch for foreign from grant group having in initially intersect into lateral \
    leading limit localtime localtimestamp not null offset on only or order placing primary references returning \
    select session_user some symmetric table then to trailing true union unique user using variadic when where \
    window with";

/// Of all of them, those that are labels only after AS.
const AFTER_AS: &str = "\
    array as char character create day except fetch filter for from grant group having hour intersect into isnull \
    limit minute month notnull offset on order over overlaps precision returning second to union varying where \
    window with within without year";

/// All of them, sorted by word.
static KEYWORDS: LazyLock<Vec<Keyword>> = LazyLock::new(|| {
    let after_as: Vec<&str> = AFTER_AS.split_whitespace().collect();
    let lists = [
        (UNRESERVED, Category::Unreserved),
        (COLUMN_NAMES, Category::ColumnName),
        (TYPES_OR_FUNCTIONS, Category::TypeOrFunction),
        (RESERVED, Category::Reserved),
    ];
    let mut keywords: Vec<Keyword> = lists
        .iter()
        .flat_map(|(words, category)| words.split_whitespace().map(move |word| (word, *category)))
        .map(|(word, category)| Keyword { word, category, is_bare_label: !after_as.contains(&word) })
        .collect();
    keywords.sort_by_key(|keyword| keyword.word);
    keywords
});

/// All of them, sorted by word.
pub fn keywords() -> &'static [Keyword] {
    &KEYWORDS
}

/// Whether `word`, in lower case, must be quoted to be a column's name wherever one may stand.
pub fn needs_quotes(word: &str) -> bool {
    category(word).is_some_and(|category| category != Category::Unreserved)
}

/// Whether `word`, in lower case, must be quoted to be a name.
pub(crate) fn is_reserved(word: &str) -> bool {
    matches!(category(word), Some(Category::Reserved | Category::TypeOrFunction))
}

fn category(word: &str) -> Option<Category> {
    let at = KEYWORDS.binary_search_by_key(&word, |keyword| keyword.word).ok()?;
    Some(KEYWORDS[at].category)
}

#[cfg(test)]
mod tests {
    use super::{Category, KEYWORDS, is_reserved, keywords, needs_quotes};

    #[test]
    fn each_word_is_there_once() {
        assert!(KEYWORDS.windows(2).all(|pair| pair[0].word < pair[1].word));
        let count = |category| keywords().iter().filter(|keyword| keyword.category == category).count();
        assert_eq!(
            [Category::Unreserved, Category::ColumnName, Category::TypeOrFunction, Category::Reserved].map(count),
            [309, 51, 23, 77]
        );
        assert_eq!(keywords().iter().filter(|keyword| !keyword.is_bare_label).count(), 39);
    }

    #[test]
    fn what_needs_quotes() {
        assert!(needs_quotes("exists") && needs_quotes("select") && !needs_quotes("value") && !needs_quotes("x"));
        assert!(is_reserved("select") && is_reserved("left") && !is_reserved("value") && !is_reserved("exists"));
    }
}
