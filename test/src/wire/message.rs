//! Messages of the server, parsed as far as tests look at them, and their one-line text form.

use std::fmt;

/// One message, without its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The type byte.
    pub tag: u8,
    /// What follows the length.
    pub body: Vec<u8>,
}

/// A column of RowDescription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The OID of the relation that it is a column of, which differs between any two servers; 0 if it is none's.
    pub relation: u32,
    /// Its number among the relation's columns, from 1; 0 if it is none's.
    pub number: i16,
    /// The OID of its type.
    pub oid: u32,
    /// The length of its type, negative when it varies.
    pub type_len: i16,
    /// The type modifier.
    pub type_mod: i32,
    /// 0 is text, 1 is binary.
    pub format: u16,
}

/// The fields of ErrorResponse that tests look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorFields {
    /// ERROR, FATAL or PANIC.
    pub severity: String,
    /// The SQLSTATE.
    pub code: String,
    /// The primary message.
    pub message: String,
    /// DETAIL.
    pub detail: Option<String>,
    /// HINT.
    pub hint: Option<String>,
}

impl fmt::Display for ErrorFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl Message {
    /// The error, if this is one.
    pub fn error(&self) -> Option<ErrorFields> {
        (self.tag == b'E').then(|| self.fields())
    }

    /// The notice, if this is one.
    pub fn notice(&self) -> Option<ErrorFields> {
        (self.tag == b'N').then(|| self.fields())
    }

    /// The values of a DataRow.
    pub fn row(&self) -> Vec<Option<Vec<u8>>> {
        let mut reader = Reader(&self.body);
        let columns = reader.u16();
        (0..columns)
            .map(|_| {
                let length = reader.i32();
                usize::try_from(length).ok().map(|length| reader.take(length).to_vec())
            })
            .collect()
    }

    /// The values of a DataRow as text.
    pub fn row_text(&self) -> Vec<Option<String>> {
        let text = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
        self.row().into_iter().map(|value| value.map(text)).collect()
    }

    /// The columns of a RowDescription.
    pub fn columns(&self) -> Vec<Column> {
        let mut reader = Reader(&self.body);
        let columns = reader.u16();
        (0..columns)
            .map(|_| {
                let name = reader.cstr();
                Column {
                    name,
                    relation: reader.u32(),
                    number: reader.u16().cast_signed(),
                    oid: reader.u32(),
                    type_len: reader.u16().cast_signed(),
                    type_mod: reader.i32(),
                    format: reader.u16(),
                }
            })
            .collect()
    }

    /// The command tag of CommandComplete.
    pub fn command_tag(&self) -> Option<String> {
        (self.tag == b'C').then(|| Reader(&self.body).cstr())
    }

    /// One line that says what tests compare.
    pub fn render(&self) -> String {
        let mut reader = Reader(&self.body);
        match self.tag {
            b'1' => "ParseComplete".to_owned(),
            b'2' => "BindComplete".to_owned(),
            b'3' => "CloseComplete".to_owned(),
            b'c' => "CopyDone".to_owned(),
            b'I' => "EmptyQueryResponse".to_owned(),
            b'n' => "NoData".to_owned(),
            b's' => "PortalSuspended".to_owned(),
            b'C' => format!("CommandComplete {}", reader.cstr()),
            b'Z' => format!("ReadyForQuery {}", char::from(self.body[0])),
            b'd' => format!("CopyData {}", quote(&self.body)),
            b'G' | b'H' => {
                let name = if self.tag == b'G' { "CopyInResponse" } else { "CopyOutResponse" };
                let format = reader.take(1)[0];
                format!("{name} {format} {}", reader.u16())
            }
            b't' => {
                let count = reader.u16();
                let oids: Vec<String> = (0..count).map(|_| reader.u32().to_string()).collect();
                format!("ParameterDescription {}", oids.join(" ")).trim_end().to_owned()
            }
            b'T' => {
                let column = |c: Column| format!("{}:{}:{}", c.name, c.oid, c.format);
                let columns: Vec<String> = self.columns().into_iter().map(column).collect();
                format!("RowDescription {}", columns.join(" "))
            }
            b'D' => {
                let value = |value: Option<Vec<u8>>| value.map_or_else(|| "NULL".to_owned(), |bytes| quote(&bytes));
                let values: Vec<String> = self.row().into_iter().map(value).collect();
                format!("DataRow {}", values.join(" "))
            }
            b'E' => {
                let error = self.fields();
                format!("{} {}", error.severity, error.code)
            }
            b'N' => format!("NOTICE {}", self.fields().code),
            b'S' => format!("ParameterStatus {} {}", reader.cstr(), reader.cstr()),
            tag => format!("message {:?} of {} bytes", char::from(tag), self.body.len()),
        }
    }

    fn fields(&self) -> ErrorFields {
        let mut fields = ErrorFields::default();
        let mut reader = Reader(&self.body);
        loop {
            match reader.take(1).first() {
                None | Some(0) => return fields,
                Some(b'V') => fields.severity = reader.cstr(),
                Some(b'C') => fields.code = reader.cstr(),
                Some(b'M') => fields.message = reader.cstr(),
                Some(b'D') => fields.detail = Some(reader.cstr()),
                Some(b'H') => fields.hint = Some(reader.cstr()),
                Some(_) => drop(reader.cstr()),
            }
        }
    }
}

/// Text in quotes when the bytes are printable, `x:` and hex otherwise.
pub fn quote(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') => format!("{text:?}"),
        _ => {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x:{}", hex.join(""))
        }
    }
}

/// Reads a body; what is missing reads as zero, and the comparison fails then.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(count.min(self.0.len()));
        self.0 = tail;
        head
    }

    fn u16(&mut self) -> u16 {
        self.take(2).try_into().map_or(0, u16::from_be_bytes)
    }

    fn u32(&mut self) -> u32 {
        self.take(4).try_into().map_or(0, u32::from_be_bytes)
    }

    fn i32(&mut self) -> i32 {
        self.u32().cast_signed()
    }

    fn cstr(&mut self) -> String {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        let text = String::from_utf8_lossy(self.take(end)).into_owned();
        self.take(1);
        text
    }
}
