//! The expression language between braces: `{props.name}`, `{upper(props.name)}`, `{props.n > 3 && "many"}`. It has no side
//! effects, can call only filters, and always terminates.

mod evaluate;
mod filters;
mod lexer;
mod parser;

use serde_json::Value;

pub(crate) use evaluate::{Scope, is_true, to_text};
pub(crate) use parser::{arrow, parse};

/// An error in an expression, at a byte offset of its text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExpressionError {
    pub(crate) at: usize,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Whether more input could complete the expression.
    pub(crate) incomplete: bool,
}

impl ExpressionError {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: None, incomplete: false }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn incomplete(at: usize, message: impl Into<String>) -> Self {
        Self { incomplete: true, ..Self::new(at, message) }
    }
}

/// An expression and its byte offset.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    pub(crate) at: usize,
    pub(crate) kind: ExpressionKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExpressionKind {
    Literal(Value),
    Name(String),
    Member(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Minus(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
    Conditional(Box<Expression>, Box<Expression>, Box<Expression>),
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
    /// Returns whether the expression is exactly `NAME.member`.
    pub(crate) fn is_member(&self, name: &str, member: &str) -> bool {
        matches!(&self.kind, ExpressionKind::Member(of, found)
            if found == member && matches!(&of.kind, ExpressionKind::Name(found) if found == name))
    }

    /// Maps all offsets.
    pub(crate) fn shifted(mut self, by: &dyn Fn(usize) -> usize) -> Self {
        self.shift(by);
        self
    }

    fn shift(&mut self, by: &dyn Fn(usize) -> usize) {
        self.at = by(self.at);
        match &mut self.kind {
            ExpressionKind::Literal(_) | ExpressionKind::Name(_) => {}
            ExpressionKind::Member(one, _) | ExpressionKind::Not(one) | ExpressionKind::Minus(one) => {
                one.shift(by);
            }
            ExpressionKind::Index(one, two) | ExpressionKind::Binary(_, one, two) => {
                one.shift(by);
                two.shift(by);
            }
            ExpressionKind::Conditional(one, two, three) => {
                one.shift(by);
                two.shift(by);
                three.shift(by);
            }
            ExpressionKind::Call(_, all) | ExpressionKind::List(all) => {
                all.iter_mut().for_each(|one| one.shift(by));
            }
            ExpressionKind::Object(all) => all.iter_mut().for_each(|(_, one)| one.shift(by)),
        }
    }
}

#[cfg(test)]
mod tests;
