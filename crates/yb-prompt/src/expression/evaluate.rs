//! Evaluation of expressions.

use serde_json::{Map, Value};

use super::{Expression, ExpressionError, ExpressionKind, Operator, filters};

/// The maximum length of a resulting string.
const MAX_TEXT: usize = 1 << 20;

/// Variables in scope, innermost first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    name: &'a str,
    value: &'a Value,
    outer: Option<&'a Scope<'a>>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(name: &'a str, value: &'a Value) -> Self {
        Self { name, value, outer: None }
    }

    pub(crate) fn with(&'a self, name: &'a str, value: &'a Value) -> Self {
        Self { name, value, outer: Some(self) }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        if self.name == name { Some(self.value) } else { self.outer.and_then(|outer| outer.get(name)) }
    }

    fn names(&self) -> Vec<&'a str> {
        let mut names = self.outer.map(Scope::names).unwrap_or_default();
        names.push(self.name);
        names
    }
}

impl Expression {
    pub(crate) fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        let value = match &self.kind {
            ExpressionKind::Literal(value) => value.clone(),
            ExpressionKind::Name(name) => match scope.get(name) {
                Some(value) => value.clone(),
                None => {
                    let known = scope.names().join("`, `");
                    return Err(ExpressionError::new(self.at, format!("unknown name: `{name}`"))
                        .hint(format!("known names: `{known}`")));
                }
            },
            ExpressionKind::Member(of, name) => member(&*of.evaluate_borrowed(scope)?, name),
            ExpressionKind::Index(of, index) => {
                let of = of.evaluate_borrowed(scope)?;
                match index.evaluate(scope)? {
                    Value::String(name) => member(&of, &name),
                    other => other
                        .as_f64()
                        .filter(|at| *at >= 0.0 && at.fract() == 0.0)
                        .and_then(|at| of.as_array().and_then(|items| items.get(at as usize)))
                        .cloned()
                        .unwrap_or_else(missing),
                }
            }
            ExpressionKind::Not(inner) => Value::Bool(!is_true(&inner.evaluate(scope)?)),
            ExpressionKind::Minus(inner) => number(-self.number(&inner.evaluate(scope)?)?),
            ExpressionKind::Binary(operator, left, right) => self.binary(*operator, left, right, scope)?,
            ExpressionKind::Conditional(condition, yes, no) => {
                return if is_true(&condition.evaluate(scope)?) { yes } else { no }.evaluate(scope);
            }
            ExpressionKind::Call(name, arguments) => {
                let arguments =
                    arguments.iter().map(|one| one.evaluate(scope)).collect::<Result<Vec<_>, _>>()?;
                filters::call(name, &arguments, self.at)?
            }
            ExpressionKind::List(items) => {
                Value::Array(items.iter().map(|one| one.evaluate(scope)).collect::<Result<_, _>>()?)
            }
            ExpressionKind::Object(entries) => {
                let mut map = Map::new();
                for (key, one) in entries {
                    map.insert(key.clone(), one.evaluate(scope)?);
                }
                Value::Object(map)
            }
        };
        if value.as_str().is_some_and(|text| text.len() > MAX_TEXT) {
            return Err(ExpressionError::new(self.at, format!("the string is longer than {MAX_TEXT} bytes")));
        }
        Ok(value)
    }

    /// Like [`evaluate`](Self::evaluate), but borrows members of variables instead of cloning all props.
    fn evaluate_borrowed<'a>(
        &self,
        scope: &Scope<'a>,
    ) -> Result<std::borrow::Cow<'a, Value>, ExpressionError> {
        use std::borrow::Cow;
        match &self.kind {
            ExpressionKind::Name(name) => {
                if let Some(value) = scope.get(name) {
                    return Ok(Cow::Borrowed(value));
                }
            }
            ExpressionKind::Member(of, name) => {
                return Ok(match of.evaluate_borrowed(scope)? {
                    Cow::Borrowed(value) => match value.get(name) {
                        Some(found) => Cow::Borrowed(found),
                        None => Cow::Owned(member(value, name)),
                    },
                    Cow::Owned(value) => Cow::Owned(member(&value, name)),
                });
            }
            _ => {}
        }
        self.evaluate(scope).map(Cow::Owned)
    }

    fn number(&self, value: &Value) -> Result<f64, ExpressionError> {
        value.as_f64().ok_or_else(|| {
            ExpressionError::new(self.at, format!("expected a number, found {}", describe(value)))
        })
    }

    fn binary(
        &self,
        operator: Operator,
        left: &Expression,
        right: &Expression,
        scope: &Scope<'_>,
    ) -> Result<Value, ExpressionError> {
        let one = left.evaluate(scope)?;
        match operator {
            Operator::Or => return if is_true(&one) { Ok(one) } else { right.evaluate(scope) },
            Operator::And => return if is_true(&one) { right.evaluate(scope) } else { Ok(one) },
            _ => {}
        }
        let two = right.evaluate(scope)?;
        Ok(match operator {
            Operator::Equal => Value::Bool(same(&one, &two)),
            Operator::Unequal => Value::Bool(!same(&one, &two)),
            Operator::Add if one.is_string() || two.is_string() => {
                Value::String(to_text(&one) + &to_text(&two))
            }
            Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
                let order = match (&one, &two) {
                    (Value::String(one), Value::String(two)) => one.cmp(two),
                    _ => self.number(&one)?.total_cmp(&self.number(&two)?),
                };
                Value::Bool(match operator {
                    Operator::Less => order.is_lt(),
                    Operator::LessOrEqual => order.is_le(),
                    Operator::Greater => order.is_gt(),
                    _ => order.is_ge(),
                })
            }
            _ => {
                let (one, two) = (self.number(&one)?, self.number(&two)?);
                if two == 0.0 && matches!(operator, Operator::Divide | Operator::Remainder) {
                    return Err(ExpressionError::new(self.at, "division by zero"));
                }
                number(match operator {
                    Operator::Add => one + two,
                    Operator::Subtract => one - two,
                    Operator::Multiply => one * two,
                    Operator::Divide => one / two,
                    _ => one % two,
                })
            }
        })
    }
}

/// The value of a missing member: an empty string.
fn missing() -> Value {
    Value::String(String::new())
}

fn member(value: &Value, name: &str) -> Value {
    match (value, name) {
        (Value::Array(items), "length") => Value::from(items.len()),
        (Value::String(text), "length") => Value::from(text.chars().count()),
        _ => value.get(name).cloned().unwrap_or_else(missing),
    }
}

fn same(one: &Value, two: &Value) -> bool {
    match (one.as_f64(), two.as_f64()) {
        (Some(one), Some(two)) => one == two,
        _ => one == two,
    }
}

/// Returns a JSON number, an integer if possible.
pub(super) fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT { Value::from(value as i64) } else { Value::from(value) }
}

/// Returns whether a value is neither `false`, `0`, an empty string nor null.
pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Returns a value as text in a prompt.
pub(crate) fn to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) if text.is_empty() => "an empty string (is the prop missing?)".to_owned(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => format!("`{other}`"),
    }
}
