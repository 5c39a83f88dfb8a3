//! The language between braces: `{props.name}`, `{upper(props.name)}`, `{props.n > 3 && "many"}`. It computes and looks up; it
//! can't call anything but filters, and always ends.

mod evaluate;
mod filters;
mod lexer;
mod parser;

use serde_json::Value;

pub(crate) use evaluate::{Scope, is_true, to_text};
pub(crate) use parser::{arrow, parse};

/// What is wrong with an expression, at a byte of its text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mistake {
    pub(crate) at: usize,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Whether it could still become an expression if more followed.
    pub(crate) incomplete: bool,
}

impl Mistake {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: None, incomplete: false }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn unfinished(at: usize, message: impl Into<String>) -> Self {
        Self { incomplete: true, ..Self::new(at, message) }
    }
}

/// An expression, and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    pub(crate) at: usize,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Literal(Value),
    Name(String),
    Member(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Minus(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    Call(String, Vec<Expression>),
    List(Vec<Expression>),
    Object(Vec<(String, Expression)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Expression {
    /// Whether it is `NAME.member` and nothing else.
    pub(crate) fn is_member(&self, name: &str, member: &str) -> bool {
        matches!(&self.kind, Kind::Member(of, found)
            if found == member && matches!(&of.kind, Kind::Name(found) if found == name))
    }

    /// The same, all places shifted.
    pub(crate) fn shifted(mut self, by: &dyn Fn(usize) -> usize) -> Self {
        self.shift(by);
        self
    }

    fn shift(&mut self, by: &dyn Fn(usize) -> usize) {
        self.at = by(self.at);
        match &mut self.kind {
            Kind::Literal(_) | Kind::Name(_) => {}
            Kind::Member(one, _) | Kind::Not(one) | Kind::Minus(one) => one.shift(by),
            Kind::Index(one, two) | Kind::Binary(_, one, two) => {
                one.shift(by);
                two.shift(by);
            }
            Kind::Choice(one, two, three) => {
                one.shift(by);
                two.shift(by);
                three.shift(by);
            }
            Kind::Call(_, all) | Kind::List(all) => all.iter_mut().for_each(|one| one.shift(by)),
            Kind::Object(all) => all.iter_mut().for_each(|(_, one)| one.shift(by)),
        }
    }
}

#[cfg(test)]
mod tests;
