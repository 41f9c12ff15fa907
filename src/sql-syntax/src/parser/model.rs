//! CREATE SEMANTIC MODEL, and the files of a model.

use super::cursor::Cursor;
use crate::ast::{CreateModel, ModelFile, Statement};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::tokenizer::Token;

/// What the file of a model is called that has only one and gives it no name.
pub const ONLY_FILE: &str = "model.yml";

/// What follows CREATE SEMANTIC MODEL.
pub(super) fn parse_create(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.name()?;
    Ok(Statement::CreateModel(CreateModel { name, if_not_exists, files: parse_files(cursor)? }))
}

/// `AS $$…$$`, or `AS FILE 'name' $$…$$, FILE …`.
pub(super) fn parse_files(cursor: &mut Cursor<'_>) -> Result<Vec<ModelFile>, SqlError> {
    cursor.expect(&["AS"])?;
    if !cursor.peek("FILE") {
        return Ok(vec![ModelFile { name: ONLY_FILE.to_owned(), text: cursor.string()? }]);
    }
    let mut files: Vec<ModelFile> = Vec::new();
    loop {
        cursor.expect(&["FILE"])?;
        let span = cursor.span();
        let name = cursor.string()?;
        if files.iter().any(|file| file.name == name) {
            let message = format!("file \"{name}\" is given twice");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(span));
        }
        files.push(ModelFile { name, text: cursor.string()? });
        if *cursor.token(0) != Token::Comma {
            return Ok(files);
        }
        cursor.advance();
    }
}
