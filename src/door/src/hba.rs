//! Host-based rules: who may come from where, and what they have to show. `pg_hba.conf`, as far as it makes sense here.
//!
//! A line is a rule: `host database user address method`, or with `hostssl` or `hostnossl`. The first rule that fits a
//! connection decides, and who fits none is turned away. Files, names of hosts, regular expressions, maps of names, and
//! the methods of other servers are refused by name when the rules are read, never when somebody connects.
//!
//! Without a file there is one rule: this machine is trusted, and nobody else comes in.
//!
//! # Invariants
//! - `password`, which shows the password to whoever listens, stands in rules for TLS only.
//! - A word in quotes is a name, never a keyword.

use std::net::IpAddr;

/// What there is without a file.
const LOCAL: &str = "host all all 127.0.0.0/8 trust\nhost all all ::1/128 trust\n";

/// What a client has to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Nothing.
    Trust,
    /// Nothing would do.
    Reject,
    /// That it knows the password.
    ScramSha256,
    /// The password.
    Password,
}

/// A connection that looks for its rule.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// Who it says it is.
    pub user: &'a str,
    /// Where it wants to go.
    pub database: &'a str,
    /// Its address, and ours as it knows it.
    pub peer: Option<IpAddr>,
    /// See above.
    pub local: Option<IpAddr>,
    /// Whether it speaks TLS.
    pub is_encrypted: bool,
}

/// The rules, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    kind: Kind,
    databases: Vec<DatabasePattern>,
    users: Vec<UserPattern>,
    address: AddressPattern,
    method: Method,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A Unix socket, of which there are none here.
    Local,
    Host,
    HostSsl,
    HostNoSsl,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DatabasePattern {
    All,
    SameUser,
    SameRole,
    Name(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum UserPattern {
    All,
    /// The role and its members.
    Group(String),
    Name(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressPattern {
    All,
    /// Whoever has our own address.
    SameHost,
    Network {
        address: IpAddr,
        bits: u32,
    },
}

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    is_quoted: bool,
}

impl Rules {
    /// The rules that there are without a file.
    pub fn local() -> Rules {
        Rules::parse(LOCAL).expect("it is well formed")
    }

    /// Reads the rules of a file. Errors: the first line that cannot be used, and why.
    pub fn parse(text: &str) -> Result<Rules, String> {
        let (mut rules, mut lines) = (Vec::new(), text.lines().zip(1_usize..));
        while let Some((line, number)) = lines.next() {
            // It goes on behind a backslash.
            let mut line = line.to_owned();
            while line.ends_with('\\') {
                line.pop();
                line.push_str(lines.next().map_or("", |(more, _)| more));
            }
            let fields = fields(&line).map_err(|why| format!("line {number}: {why}"))?;
            if !fields.is_empty() {
                rules.push(rule(fields).map_err(|why| format!("line {number}: {why}"))?);
            }
        }
        Ok(Rules(rules))
    }

    /// What the first rule that fits asks for; `is_member` tells whether a user is a member of a role.
    pub fn method_for(&self, guest: Guest<'_>, is_member: impl Fn(&str, &str) -> bool) -> Option<Method> {
        self.0.iter().find(|rule| rule.fits(guest, &is_member)).map(|rule| rule.method)
    }
}

impl Rule {
    fn fits(&self, guest: Guest<'_>, is_member: &impl Fn(&str, &str) -> bool) -> bool {
        let kind = match self.kind {
            Kind::Local => false,
            Kind::Host => true,
            Kind::HostSsl => guest.is_encrypted,
            Kind::HostNoSsl => !guest.is_encrypted,
        };
        kind && self.address.fits(guest)
            && self.databases.iter().any(|pattern| match pattern {
                DatabasePattern::All => true,
                DatabasePattern::SameUser => guest.database == guest.user,
                DatabasePattern::SameRole => is_member(guest.user, guest.database),
                DatabasePattern::Name(name) => guest.database == name,
            })
            && self.users.iter().any(|pattern| match pattern {
                UserPattern::All => true,
                UserPattern::Group(group) => is_member(guest.user, group),
                UserPattern::Name(name) => guest.user == name,
            })
    }
}

impl AddressPattern {
    fn fits(self, guest: Guest<'_>) -> bool {
        let Some(peer) = guest.peer.map(|peer| peer.to_canonical()) else { return self == AddressPattern::All };
        match self {
            AddressPattern::All => true,
            AddressPattern::SameHost => peer.is_loopback() || guest.local.is_some_and(|ip| ip.to_canonical() == peer),
            AddressPattern::Network { address, bits } => match (address, peer) {
                (IpAddr::V4(network), IpAddr::V4(peer)) => (network.to_bits() ^ peer.to_bits()).leading_zeros() >= bits,
                (IpAddr::V6(network), IpAddr::V6(peer)) => (network.to_bits() ^ peer.to_bits()).leading_zeros() >= bits,
                _ => false,
            },
        }
    }
}

/// Takes a line apart: fields between white space, each of words between commas. `#` begins a comment.
fn fields(line: &str) -> Result<Vec<Vec<Word>>, String> {
    let mut fields: Vec<Vec<Word>> = Vec::new();
    let mut characters = line.chars().peekable();
    // Whether the next word belongs to the field before it, because a comma stands behind that.
    let mut goes_on = false;
    while let Some(&character) = characters.peek() {
        if character == '#' {
            break;
        }
        if character == ',' || character.is_whitespace() {
            characters.next();
            continue;
        }
        let word = word(&mut characters)?;
        match fields.last_mut() {
            Some(field) if goes_on => field.push(word),
            _ => fields.push(vec![word]),
        }
        goes_on = characters.peek() == Some(&',');
    }
    Ok(fields)
}

fn word(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Word, String> {
    let (mut text, mut is_quoted, mut in_quotes) = (String::new(), false, false);
    while let Some(&character) = characters.peek() {
        match character {
            '"' => (in_quotes, is_quoted) = (!in_quotes, true),
            '#' | ',' if !in_quotes => break,
            character if character.is_whitespace() && !in_quotes => break,
            character => text.push(character),
        }
        characters.next();
    }
    if in_quotes { Err("a quote is not closed".to_owned()) } else { Ok(Word { text, is_quoted }) }
}

fn rule(fields: Vec<Vec<Word>>) -> Result<Rule, String> {
    let mut fields = fields.into_iter();
    let kind = match one(fields.next(), "type")?.text.as_str() {
        "local" => Kind::Local,
        "host" => Kind::Host,
        "hostssl" => Kind::HostSsl,
        "hostnossl" => Kind::HostNoSsl,
        other => return Err(format!("connection type \"{other}\" is not supported")),
    };
    let databases = fields.next().ok_or("it names no database")?;
    let databases = databases.into_iter().map(database).collect::<Result<_, _>>()?;
    let users = fields.next().ok_or("it names no user")?.into_iter().map(user).collect::<Result<_, _>>()?;
    let address = match kind {
        Kind::Local => AddressPattern::All,
        _ => address(&one(fields.next(), "address")?, &mut fields)?,
    };
    let method = match one(fields.next(), "method")?.text.as_str() {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "scram-sha-256" => Method::ScramSha256,
        "password" if kind == Kind::HostSsl => Method::Password,
        "password" => return Err("method \"password\" is for hostssl rules only".to_owned()),
        other => return Err(format!("authentication method \"{other}\" is not supported")),
    };
    match fields.next() {
        None => Ok(Rule { kind, databases, users, address, method }),
        Some(option) => Err(format!("option \"{}\" is not supported", option[0].text)),
    }
}

fn one(field: Option<Vec<Word>>, what: &str) -> Result<Word, String> {
    match field.map(<[Word; 1]>::try_from) {
        None => Err(format!("it has no {what}")),
        Some(Ok([word])) => Ok(word),
        Some(Err(_)) => Err(format!("it has more than one {what}")),
    }
}

fn database(word: Word) -> Result<DatabasePattern, String> {
    Ok(match plain(&word, "database")? {
        Some("all") => DatabasePattern::All,
        Some("sameuser") => DatabasePattern::SameUser,
        Some("samerole" | "samegroup") => DatabasePattern::SameRole,
        Some("replication") => return Err("database \"replication\" is not supported".to_owned()),
        _ => DatabasePattern::Name(word.text),
    })
}

fn user(word: Word) -> Result<UserPattern, String> {
    Ok(match plain(&word, "user")? {
        Some("all") => UserPattern::All,
        Some(text) if text.starts_with('+') => UserPattern::Group(text[1..].to_owned()),
        _ => UserPattern::Name(word.text),
    })
}

/// The text of a word that may be a keyword; `None` for one in quotes. Errors: references to files and expressions.
fn plain<'a>(word: &'a Word, what: &str) -> Result<Option<&'a str>, String> {
    match word.text.as_bytes().first() {
        Some(b'@') if !word.is_quoted => Err(format!("{what} lists in files ({}) are not supported", word.text)),
        Some(b'/') if !word.is_quoted => Err(format!("regular expressions ({}) are not supported", word.text)),
        _ => Ok((!word.is_quoted).then_some(word.text.as_str())),
    }
}

/// An address with the length of its network behind a slash, or with a mask in the next field.
fn address(word: &Word, rest: &mut impl Iterator<Item = Vec<Word>>) -> Result<AddressPattern, String> {
    match word.text.as_str() {
        "all" if !word.is_quoted => return Ok(AddressPattern::All),
        "samehost" if !word.is_quoted => return Ok(AddressPattern::SameHost),
        "samenet" if !word.is_quoted => return Err("address \"samenet\" is not supported".to_owned()),
        _ => {}
    }
    let (text, bits) = match word.text.split_once('/') {
        Some((text, bits)) => (text, Some(bits)),
        None => (word.text.as_str(), None),
    };
    let address: IpAddr =
        text.parse().map_err(|_| format!("\"{text}\" is no address; names of hosts are not supported"))?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) => bits.parse().ok().filter(|bits| *bits <= bits_max),
        None => mask_bits(&one(rest.next(), "mask")?.text, address),
    };
    let bits = bits.ok_or_else(|| format!("the network of address \"{}\" has no valid size", word.text))?;
    Ok(AddressPattern::Network { address, bits })
}

/// The length of a network from its mask, whose ones are in front.
fn mask_bits(text: &str, address: IpAddr) -> Option<u32> {
    let (ones, is_network) = match (text.parse().ok()?, address) {
        (IpAddr::V4(mask), IpAddr::V4(_)) => (mask.to_bits().leading_ones(), mask.to_bits().count_ones()),
        (IpAddr::V6(mask), IpAddr::V6(_)) => (mask.to_bits().leading_ones(), mask.to_bits().count_ones()),
        _ => return None,
    };
    (ones == is_network).then_some(ones)
}

#[cfg(test)]
mod tests {
    use super::{Guest, Method, Rules};
    use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};

    const RULES: &str = r#"
# who comes from where
local   all             all                             trust
host    all             mallory         all             reject
hostssl all             +staff          10.0.0.0/8      scram-sha-256 # over TLS
hostssl sales,"all"     alice, bob      all \
                                                        password
hostnossl sameuser      all             192.168.1.0 255.255.255.0 trust
host    samerole        all             ::1/128         scram-sha-256
host    all             "all"           samehost        trust
"#;

    fn method(user: &str, database: &str, peer: &str, is_encrypted: bool) -> Option<Method> {
        let rules = Rules::parse(RULES).expect("well-formed");
        let guest = Guest {
            user,
            database,
            peer: Some(peer.parse().expect("an address")),
            local: Some("172.16.0.1".parse().expect("an address")),
            is_encrypted,
        };
        rules.method_for(guest, |user, group| user == group || (user == "carol" && group == "staff"))
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        for (user, database, peer, is_encrypted, expected) in [
            ("mallory", "sales", "10.0.0.1", true, Some(Method::Reject)),
            ("carol", "any", "10.255.0.1", true, Some(Method::ScramSha256)),
            ("carol", "any", "10.255.0.1", false, None),
            ("carol", "any", "11.0.0.1", true, None),
            ("carol", "any", "::ffff:10.0.0.1", true, Some(Method::ScramSha256)),
            ("staff", "any", "10.0.0.1", true, Some(Method::ScramSha256)),
            ("alice", "sales", "8.8.8.8", true, Some(Method::Password)),
            ("bob", "all", "8.8.8.8", true, Some(Method::Password)),
            ("bob", "other", "8.8.8.8", true, None),
            ("dave", "dave", "192.168.1.77", false, Some(Method::Trust)),
            ("dave", "dave", "192.168.1.77", true, None),
            ("dave", "dave", "192.168.2.77", false, None),
            ("carol", "staff", "::1", false, Some(Method::ScramSha256)),
            ("dave", "staff", "::1", false, None),
            ("all", "x", "172.16.0.1", false, Some(Method::Trust)),
            ("all", "x", "172.16.0.2", false, None),
        ] {
            assert_eq!(method(user, database, peer, is_encrypted), expected, "{user} {database} {peer} {is_encrypted}");
        }
    }

    #[test]
    fn without_a_file_this_machine_is_trusted() {
        let rules = Rules::local();
        for (peer, expected) in [
            ("127.0.0.1", Some(Method::Trust)),
            ("127.8.0.1", Some(Method::Trust)),
            ("::1", Some(Method::Trust)),
            ("10.0.0.1", None),
            ("fe80::1", None),
        ] {
            let peer = Some(peer.parse().expect("an address"));
            let guest = Guest { user: "u", database: "d", peer, local: peer, is_encrypted: false };
            assert_eq!(rules.method_for(guest, |_, _| false), expected, "{peer:?}");
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (line, expected) in [
            ("host all all all cert", "line 1: authentication method \"cert\" is not supported"),
            ("host all all all md5", "line 1: authentication method \"md5\" is not supported"),
            ("host all all all password", "line 1: method \"password\" is for hostssl rules only"),
            ("hostgssenc all all all trust", "line 1: connection type \"hostgssenc\" is not supported"),
            ("include other.conf", "line 1: connection type \"include\" is not supported"),
            ("host all all samenet trust", "line 1: address \"samenet\" is not supported"),
            (
                "host all all example.com trust",
                "line 1: \"example.com\" is no address; names of hosts are not supported",
            ),
            ("host all /^a all trust", "line 1: regular expressions (/^a) are not supported"),
            ("host @list all all trust", "line 1: database lists in files (@list) are not supported"),
            ("hostssl all all all trust clientcert=1", "line 1: option \"clientcert=1\" is not supported"),
            ("\nhost all all 10.0.0.0/33 trust", "line 2: the network of address \"10.0.0.0/33\" has no valid size"),
            (
                "host all all 10.0.0.0 255.0.255.0 trust",
                "line 1: the network of address \"10.0.0.0\" has no valid size",
            ),
            ("host all all 10.0.0.0 trust", "line 1: the network of address \"10.0.0.0\" has no valid size"),
            ("host all all", "line 1: it has no address"),
            ("host all all all", "line 1: it has no method"),
            ("host all all all trust,reject", "line 1: it has more than one method"),
            ("host \"all", "line 1: a quote is not closed"),
        ] {
            assert_eq!(Rules::parse(line).expect_err(line), expected);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in prop_oneof![
            any::<String>(),
            prop::collection::vec(prop::sample::select(vec![
                "host", "all", " ", "\t", "\n", ",", "\"", "#", "\\", "10.0.0.0/8", "::1", "trust", "+", "@",
            ]), 0..20).prop_map(|words| words.concat()),
        ]) {
            let _ = Rules::parse(&text);
        }
    }
}
