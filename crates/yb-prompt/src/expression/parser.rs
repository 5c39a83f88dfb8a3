//! The parser, with limits on depth and size.

use serde_json::Value;

use super::lexer::{Token, tokenize};
use super::{Expression, ExpressionError, ExpressionKind, Operator};

/// The maximum number of nodes of an expression. It is large enough for hand-written ones and small enough for any stack.
const MAX_NODES: usize = 400;
const MAX_DEPTH: usize = 40;

/// Parses an expression. Returns `None` for only whitespace and comments.
pub(crate) fn parse(text: &str) -> Result<Option<Expression>, ExpressionError> {
    let tokens = tokenize(text)?;
    if tokens.is_empty() {
        return Ok(None);
    }
    let mut parser = Parser { tokens, next: 0, end: text.len(), nodes: 0, depth: 0 };
    let expression = parser.conditional()?;
    match parser.tokens.get(parser.next) {
        None => Ok(Some(expression)),
        Some((at, Token::Symbol("="))) => {
            Err(ExpressionError::new(*at, "assignments are not supported").hint("to compare, write `==`"))
        }
        Some((at, Token::Symbol("=>"))) => {
            Err(ExpressionError::new(*at, "functions are only allowed in `<ForEach>`")
                .hint("write `<ForEach arr={props.items}>{(item) => (<>…</>)}</ForEach>`"))
        }
        Some((at, token)) => Err(ExpressionError::new(*at, format!("unexpected {}", describe(token)))),
    }
}

fn describe(token: &Token) -> String {
    match token {
        Token::Name(name) => format!("name: `{name}`"),
        Token::Text(_) => "string".to_owned(),
        Token::Number(number) => format!("number: `{number}`"),
        Token::Symbol(symbol) => format!("`{symbol}`"),
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    end: usize,
    nodes: usize,
    depth: usize,
}

const LEVELS: [&[(&str, Operator)]; 6] = [
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[
        ("==", Operator::Equal),
        ("===", Operator::Equal),
        ("!=", Operator::Unequal),
        ("!==", Operator::Unequal),
    ],
    &[
        ("<", Operator::Less),
        ("<=", Operator::LessOrEqual),
        (">", Operator::Greater),
        (">=", Operator::GreaterOrEqual),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)],
];

impl Parser {
    fn here(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(at, _)| *at)
    }

    fn consume(&mut self, symbol: &str) -> bool {
        let found = matches!(self.tokens.get(self.next), Some((_, Token::Symbol(found))) if *found == symbol);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ExpressionError> {
        if self.consume(symbol) {
            return Ok(());
        }
        match self.tokens.get(self.next) {
            None => Err(ExpressionError::incomplete(self.end, format!("expected `{symbol}`"))),
            Some((at, token)) => {
                Err(ExpressionError::new(*at, format!("expected `{symbol}`, found {}", describe(token))))
            }
        }
    }

    fn name(&mut self) -> Result<String, ExpressionError> {
        match self.tokens.get(self.next) {
            Some((_, Token::Name(name))) => {
                let name = name.clone();
                self.next += 1;
                Ok(name)
            }
            None => Err(ExpressionError::incomplete(self.end, "expected a name")),
            Some((at, token)) => {
                Err(ExpressionError::new(*at, format!("expected a name, found {}", describe(token))))
            }
        }
    }

    fn node(&mut self, at: usize, kind: ExpressionKind) -> Result<Expression, ExpressionError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(
                ExpressionError::new(at, "the expression is too long").hint("pass its result as a prop")
            );
        }
        Ok(Expression { at, kind })
    }

    fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, ExpressionError>,
    ) -> Result<T, ExpressionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExpressionError::new(self.here(), "the expression is nested too deeply"));
        }
        let found = inner(self);
        self.depth -= 1;
        found
    }

    fn conditional(&mut self) -> Result<Expression, ExpressionError> {
        self.deeper(|parser| {
            let at = parser.here();
            let condition = parser.binary(0)?;
            if !parser.consume("?") {
                return Ok(condition);
            }
            let yes = parser.conditional()?;
            parser.expect(":")?;
            let no = parser.conditional()?;
            parser.node(at, ExpressionKind::Conditional(Box::new(condition), Box::new(yes), Box::new(no)))
        })
    }

    fn binary(&mut self, level: usize) -> Result<Expression, ExpressionError> {
        let Some(symbols) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            let at = self.here();
            let found = match self.tokens.get(self.next) {
                Some((_, Token::Symbol(symbol))) => symbols.iter().find(|(known, _)| known == symbol),
                _ => None,
            };
            let Some((_, operator)) = found else { return Ok(left) };
            self.next += 1;
            let right = self.binary(level + 1)?;
            left = self.node(at, ExpressionKind::Binary(*operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn unary(&mut self) -> Result<Expression, ExpressionError> {
        let at = self.here();
        if self.consume("!") {
            let inner = self.deeper(Self::unary)?;
            self.node(at, ExpressionKind::Not(Box::new(inner)))
        } else if self.consume("-") {
            let inner = self.deeper(Self::unary)?;
            self.node(at, ExpressionKind::Minus(Box::new(inner)))
        } else {
            self.postfix()
        }
    }

    fn postfix(&mut self) -> Result<Expression, ExpressionError> {
        let mut found = self.primary()?;
        loop {
            let at = self.here();
            if self.consume(".") || self.consume("?.") {
                let name = self.name()?;
                found = self.node(at, ExpressionKind::Member(Box::new(found), name))?;
            } else if self.consume("[") {
                let index = self.conditional()?;
                self.expect("]")?;
                found = self.node(at, ExpressionKind::Index(Box::new(found), Box::new(index)))?;
            } else if self.consume("(") {
                let ExpressionKind::Name(name) = found.kind else {
                    return Err(ExpressionError::new(at, "only filters can be called")
                        .hint("filters are called by name: `upper(props.name)`"));
                };
                let (at, arguments) = (found.at, self.list(")")?);
                found = self.node(at, ExpressionKind::Call(name, arguments))?;
            } else {
                return Ok(found);
            }
        }
    }

    fn list(&mut self, end: &str) -> Result<Vec<Expression>, ExpressionError> {
        let mut items = Vec::new();
        while !self.consume(end) {
            items.push(self.conditional()?);
            if !self.consume(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(items)
    }

    fn primary(&mut self) -> Result<Expression, ExpressionError> {
        let at = self.here();
        let Some((_, token)) = self.tokens.get(self.next).cloned() else {
            return Err(ExpressionError::incomplete(self.end, "expected a value"));
        };
        self.next += 1;
        let kind = match token {
            Token::Text(text) => ExpressionKind::Literal(Value::from(text)),
            Token::Number(number) => ExpressionKind::Literal(super::evaluate::number(number)),
            Token::Name(name) => match name.as_str() {
                "true" => ExpressionKind::Literal(Value::Bool(true)),
                "false" => ExpressionKind::Literal(Value::Bool(false)),
                "null" | "undefined" => ExpressionKind::Literal(Value::Null),
                _ => ExpressionKind::Name(name),
            },
            Token::Symbol("(") => {
                let inner = self.conditional()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Symbol("[") => ExpressionKind::List(self.list("]")?),
            Token::Symbol("{") => ExpressionKind::Object(self.object()?),
            other => {
                return Err(ExpressionError::new(
                    at,
                    format!("expected a value, found {}", describe(&other)),
                ));
            }
        };
        self.node(at, kind)
    }

    fn object(&mut self) -> Result<Vec<(String, Expression)>, ExpressionError> {
        let mut entries = Vec::new();
        while !self.consume("}") {
            let key = match self.tokens.get(self.next) {
                Some((_, Token::Text(text))) => {
                    let text = text.clone();
                    self.next += 1;
                    text
                }
                _ => self.name()?,
            };
            self.expect(":")?;
            entries.push((key, self.conditional()?));
            if !self.consume(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(entries)
    }
}

/// `(item, index) => (BODY)`, the body of `<ForEach>`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arrow {
    pub(crate) item: String,
    pub(crate) index: Option<String>,
    /// The offsets of the body, without its parentheses.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Parses an arrow function. Returns `None` if the text is something else.
pub(crate) fn arrow(text: &str) -> Option<Result<Arrow, ExpressionError>> {
    let (head, body) = text.split_once("=>")?;
    let head = head.trim();
    let names = head.strip_prefix('(').and_then(|head| head.strip_suffix(')')).unwrap_or(head);
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let mut names = names.split(',').map(str::trim);
    let item = names.next().filter(|name| is_name(name))?.to_owned();
    let index = match names.next() {
        Some(name) if is_name(name) => Some(name.to_owned()),
        None => None,
        Some(_) => return None,
    };
    if names.next().is_some() {
        return None;
    }
    let (mut from, mut to) = (text.len() - body.trim_start().len(), text.trim_end().len());
    let whole = text.get(from..to).unwrap_or_default();
    // An apostrophe in text is not a quote, so braces are only counted here. Their content is parsed later.
    if whole.is_empty() || body.matches('{').count() != body.matches('}').count() {
        return Some(Err(ExpressionError::incomplete(text.len(), "unterminated function")));
    }
    if whole.starts_with('(') {
        if !whole.ends_with(')') {
            return Some(Err(ExpressionError::incomplete(text.len(), "expected `)`")));
        }
        let inner = text.get(from + 1..to - 1).unwrap_or_default();
        from += 1 + (inner.len() - inner.trim_start().len());
        to = from + inner.trim().len();
    }
    Some(Ok(Arrow { item, index, from, to }))
}
