//! From words to an expression, within limits of depth and size.

use serde_json::Value;

use super::lexer::{Token, words};
use super::{Expression, Kind, Mistake, Operator};

/// Parts of one expression. Nothing that a person writes has so many, and no stack is too small for it.
const MAX_PARTS: usize = 400;
const MAX_DEPTH: usize = 40;

/// The expression in a text; none if there is nothing but space and comments.
pub(crate) fn parse(text: &str) -> Result<Option<Expression>, Mistake> {
    let words = words(text)?;
    if words.is_empty() {
        return Ok(None);
    }
    let mut parser = Parser { words, next: 0, end: text.len(), parts: 0, depth: 0 };
    let expression = parser.choice()?;
    match parser.words.get(parser.next) {
        None => Ok(Some(expression)),
        Some((at, Token::Sign("="))) => {
            Err(Mistake::new(*at, "an assignment").hint("nothing can be set here; to compare, write `==`"))
        }
        Some((at, Token::Sign("=>"))) => {
            Err(Mistake::new(*at, "a function").hint("only `<ForEach>` takes one: `{(item) => (<>…</>)}`"))
        }
        Some((at, word)) => Err(Mistake::new(*at, format!("unexpected {}", describe(word)))),
    }
}

fn describe(word: &Token) -> String {
    match word {
        Token::Name(name) => format!("name: `{name}`"),
        Token::Text(_) => "text".to_owned(),
        Token::Number(number) => format!("number: `{number}`"),
        Token::Sign(sign) => format!("`{sign}`"),
    }
}

struct Parser {
    words: Vec<(usize, Token)>,
    next: usize,
    end: usize,
    parts: usize,
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
        self.words.get(self.next).map_or(self.end, |(at, _)| *at)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.words.get(self.next), Some((_, Token::Sign(found))) if *found == sign);
        self.next += usize::from(found);
        found
    }

    fn needs(&mut self, sign: &str) -> Result<(), Mistake> {
        if self.takes(sign) {
            return Ok(());
        }
        match self.words.get(self.next) {
            None => Err(Mistake::unfinished(self.end, format!("expected `{sign}`"))),
            Some((at, word)) => {
                Err(Mistake::new(*at, format!("expected `{sign}`, found {}", describe(word))))
            }
        }
    }

    fn name(&mut self) -> Result<String, Mistake> {
        match self.words.get(self.next) {
            Some((_, Token::Name(name))) => {
                let name = name.clone();
                self.next += 1;
                Ok(name)
            }
            None => Err(Mistake::unfinished(self.end, "expected a name")),
            Some((at, word)) => Err(Mistake::new(*at, format!("expected a name, found {}", describe(word)))),
        }
    }

    fn part(&mut self, at: usize, kind: Kind) -> Result<Expression, Mistake> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(Mistake::new(at, "the expression is too long").hint("give its result as a prop"));
        }
        Ok(Expression { at, kind })
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Mistake>) -> Result<T, Mistake> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Mistake::new(self.here(), "the expression is too deep"));
        }
        let found = inner(self);
        self.depth -= 1;
        found
    }

    fn choice(&mut self) -> Result<Expression, Mistake> {
        self.deeper(|parser| {
            let at = parser.here();
            let condition = parser.binary(0)?;
            if !parser.takes("?") {
                return Ok(condition);
            }
            let yes = parser.choice()?;
            parser.needs(":")?;
            let no = parser.choice()?;
            parser.part(at, Kind::Choice(Box::new(condition), Box::new(yes), Box::new(no)))
        })
    }

    fn binary(&mut self, level: usize) -> Result<Expression, Mistake> {
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            let at = self.here();
            let found = match self.words.get(self.next) {
                Some((_, Token::Sign(sign))) => signs.iter().find(|(known, _)| known == sign),
                _ => None,
            };
            let Some((_, operator)) = found else { return Ok(left) };
            self.next += 1;
            let right = self.binary(level + 1)?;
            left = self.part(at, Kind::Binary(*operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn unary(&mut self) -> Result<Expression, Mistake> {
        let at = self.here();
        if self.takes("!") {
            let inner = self.deeper(Self::unary)?;
            self.part(at, Kind::Not(Box::new(inner)))
        } else if self.takes("-") {
            let inner = self.deeper(Self::unary)?;
            self.part(at, Kind::Minus(Box::new(inner)))
        } else {
            self.postfix()
        }
    }

    fn postfix(&mut self) -> Result<Expression, Mistake> {
        let mut found = self.primary()?;
        loop {
            let at = self.here();
            if self.takes(".") || self.takes("?.") {
                let name = self.name()?;
                found = self.part(at, Kind::Member(Box::new(found), name))?;
            } else if self.takes("[") {
                let index = self.choice()?;
                self.needs("]")?;
                found = self.part(at, Kind::Index(Box::new(found), Box::new(index)))?;
            } else if self.takes("(") {
                let Kind::Name(name) = found.kind else {
                    return Err(Mistake::new(at, "a call of something that is no filter")
                        .hint("filters are called by name: `upper(props.name)`"));
                };
                let (at, arguments) = (found.at, self.list(")")?);
                found = self.part(at, Kind::Call(name, arguments))?;
            } else {
                return Ok(found);
            }
        }
    }

    fn list(&mut self, end: &str) -> Result<Vec<Expression>, Mistake> {
        let mut items = Vec::new();
        while !self.takes(end) {
            items.push(self.choice()?);
            if !self.takes(",") {
                self.needs(end)?;
                break;
            }
        }
        Ok(items)
    }

    fn primary(&mut self) -> Result<Expression, Mistake> {
        let at = self.here();
        let Some((_, word)) = self.words.get(self.next).cloned() else {
            return Err(Mistake::unfinished(self.end, "expected a value"));
        };
        self.next += 1;
        let kind = match word {
            Token::Text(text) => Kind::Literal(Value::from(text)),
            Token::Number(number) => Kind::Literal(super::evaluate::number(number)),
            Token::Name(name) => match name.as_str() {
                "true" => Kind::Literal(Value::Bool(true)),
                "false" => Kind::Literal(Value::Bool(false)),
                "null" | "undefined" => Kind::Literal(Value::Null),
                _ => Kind::Name(name),
            },
            Token::Sign("(") => {
                let inner = self.choice()?;
                self.needs(")")?;
                return Ok(inner);
            }
            Token::Sign("[") => Kind::List(self.list("]")?),
            Token::Sign("{") => Kind::Object(self.object()?),
            other => return Err(Mistake::new(at, format!("expected a value, found {}", describe(&other)))),
        };
        self.part(at, kind)
    }

    fn object(&mut self) -> Result<Vec<(String, Expression)>, Mistake> {
        let mut entries = Vec::new();
        while !self.takes("}") {
            let key = match self.words.get(self.next) {
                Some((_, Token::Text(text))) => {
                    let text = text.clone();
                    self.next += 1;
                    text
                }
                _ => self.name()?,
            };
            self.needs(":")?;
            entries.push((key, self.choice()?));
            if !self.takes(",") {
                self.needs("}")?;
                break;
            }
        }
        Ok(entries)
    }
}

/// `(item, index) => (BODY)`: what `<ForEach>` repeats.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arrow {
    pub(crate) item: String,
    pub(crate) index: Option<String>,
    /// Where its body is in the text, without its parentheses.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// The function in a text; none if it is none, which is no mistake yet.
pub(crate) fn arrow(text: &str) -> Option<Result<Arrow, Mistake>> {
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
    // An apostrophe among words is no quote, so braces are only counted; what is between them is read later.
    if whole.is_empty() || body.matches('{').count() != body.matches('}').count() {
        return Some(Err(Mistake::unfinished(text.len(), "a function that never ends")));
    }
    if whole.starts_with('(') {
        if !whole.ends_with(')') {
            return Some(Err(Mistake::unfinished(text.len(), "expected `)`")));
        }
        let inner = text.get(from + 1..to - 1).unwrap_or_default();
        from += 1 + (inner.len() - inner.trim_start().len());
        to = from + inner.trim().len();
    }
    Some(Ok(Arrow { item, index, from, to }))
}
