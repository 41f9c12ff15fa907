//! The RowDescription message, built once per plan and sent many times.

use crate::types;
use bytes::BufMut;
use repr::relation::{ColumnOrigin, RelationDesc};

/// The most columns that the message's 16-bit count can describe.
pub const COLUMN_COUNT_MAX: usize = 0x7fff;

/// Appends the complete RowDescription message for `desc`; `origins` says which of the columns are those of relations, and
/// `formats` gives the format code (0 text, 1 binary) of each.
///
/// The planner bounds the number of columns far below [`COLUMN_COUNT_MAX`]; columns beyond it are not described, so the
/// message is well formed in any case. A name ends at its first NUL byte, because the wire's strings do.
pub fn row_description(
    desc: &RelationDesc,
    origins: &[Option<ColumnOrigin>],
    formats: impl Fn(usize) -> i16,
    out: &mut Vec<u8>,
) {
    let count = desc.arity().min(COLUMN_COUNT_MAX);
    let start = out.len();
    out.put_u8(b'T');
    out.put_i32(0);
    out.put_i16(i16::try_from(count).expect("bounded by COLUMN_COUNT_MAX"));
    for (i, column) in desc.columns.iter().take(count).enumerate() {
        let name = column.name.as_bytes();
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        out.put_slice(&name[..end]);
        out.put_u8(0);
        let origin = origins.get(i).copied().flatten();
        out.put_u32(origin.map_or(0, |origin| origin.relation));
        out.put_i16(origin.map_or(0, |origin| origin.number));
        out.put_u32(types::oid(&column.ty));
        out.put_i16(types::typlen(&column.ty));
        out.put_i32(types::typmod(&column.ty));
        out.put_i16(formats(i));
    }
    let length = i32::try_from(out.len() - start - 1).expect("32 767 identifiers fit a message");
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::row_description;
    use repr::relation::{ColumnOrigin, RelationDesc};
    use repr::types::PgType;

    #[test]
    fn one_column() {
        let desc = RelationDesc::new([("v".to_owned(), PgType::Varchar(Some(3)), true)]);
        let mut out = Vec::new();
        row_description(&desc, &[], |_| 1, &mut out);
        let expected = b"T\0\0\0\x1a\0\x01v\0\0\0\0\0\0\0\0\0\x04\x13\xff\xff\0\0\0\x07\0\x01";
        assert_eq!(&out[..], &expected[..]);
        out.clear();
        row_description(&desc, &[Some(ColumnOrigin { relation: 16_385, number: 2 })], |_| 1, &mut out);
        let expected = b"T\0\0\0\x1a\0\x01v\0\0\0\x40\x01\0\x02\0\0\x04\x13\xff\xff\0\0\0\x07\0\x01";
        assert_eq!(&out[..], &expected[..]);
    }

    #[test]
    fn behind_another_message_it_is_the_same() {
        let desc = RelationDesc::new([("v".to_owned(), PgType::Int4, true)]);
        let (mut alone, mut behind) = (Vec::new(), b"before".to_vec());
        row_description(&desc, &[], |_| 0, &mut alone);
        row_description(&desc, &[], |_| 0, &mut behind);
        assert_eq!(behind, [&b"before"[..], &alone].concat());
    }
}
