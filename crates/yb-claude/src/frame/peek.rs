//! A look at an object's `type`, which may stand anywhere in it, reading no further than needed.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::lax::{Key, Scalar};

/// What decides how an object is read.
#[derive(Debug, Default)]
pub(crate) struct Peek<'a> {
    /// The `type`, if it is a string.
    pub(crate) kind: Option<Cow<'a, str>>,
    /// The `subtype`; looked for only in `system` messages.
    pub(crate) subtype: Option<Cow<'a, str>>,
}

impl<'a> Peek<'a> {
    /// Whatever can be seen; nothing when the text is no object.
    pub(crate) fn at(json: &'a str) -> Self {
        let mut peek = Self::default();
        // It stops in the middle of the object, which the deserializer reports as an error; whether the whole text
        // is valid is for the typed reading to say.
        let _ = Look(&mut peek).deserialize(&mut serde_json::Deserializer::from_str(json));
        peek
    }

    fn is_enough(&self) -> bool {
        match self.kind.as_deref() {
            None => false,
            Some("system") => self.subtype.is_some(),
            Some(_) => true,
        }
    }
}

struct Look<'p, 'a>(&'p mut Peek<'a>);

impl<'de> DeserializeSeed<'de> for Look<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Look<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while !self.0.is_enough()
            && let Some(key) = map.next_key_seed(Key)?
        {
            match &*key {
                "type" => self.0.kind = map.next_value_seed(Word)?,
                "subtype" => self.0.subtype = map.next_value_seed(Word)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A string, borrowed where it has no escapes; `None` for anything else.
struct Word;

impl<'de> DeserializeSeed<'de> for Word {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        Ok(match Scalar::read(input)? {
            Some(Scalar::Text(text)) => Some(text),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, kind: Option<&str>, subtype: Option<&str>) {
        let peek = Peek::at(json);
        assert_eq!((peek.kind.as_deref(), peek.subtype.as_deref()), (kind, subtype), "{json}");
    }

    #[test]
    fn type_may_be_anywhere() {
        check(r#"{"type":"user","x":"#, Some("user"), None);
        check(r#"{"a":{"type":"inner"},"b":[1,{}],"type":"result"}"#, Some("result"), None);
        check(r#"{"subtype":"init","n":1,"type":"system"}"#, Some("system"), Some("init"));
        check(r#"{"type":"system","n":1,"subtype":"init"}"#, Some("system"), Some("init"));
        check(r#"{"\u0074ype":"us\u0065r"}"#, Some("user"), None);
    }

    #[test]
    fn what_has_no_type_shows_none() {
        for json in ["{}", "{\"type\":3}", "[]", "5", "", "{", "{\"type\":", "{\"a\":}"] {
            check(json, None, None);
        }
    }
}
