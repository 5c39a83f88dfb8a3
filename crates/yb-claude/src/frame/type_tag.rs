//! Reads an object's `type` and `subtype`, at any position, without parsing more than needed.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::lenient::{KeySeed, Scalar};

/// The fields that select the type of an object.
#[derive(Debug, Default)]
pub(crate) struct TypeTag<'a> {
    /// The `type`, if it is a string.
    pub(crate) kind: Option<Cow<'a, str>>,
    /// The `subtype`; read only for `system` messages.
    pub(crate) subtype: Option<Cow<'a, str>>,
}

impl<'a> TypeTag<'a> {
    /// Reads the tag of a JSON text; empty if the text is not an object.
    pub(crate) fn read(json: &'a str) -> Self {
        let mut type_tag = Self::default();
        // Stopping in the middle of the object is an error for the deserializer. The typed decoder validates the whole text.
        let _ = TypeTagVisitor(&mut type_tag).deserialize(&mut serde_json::Deserializer::from_str(json));
        type_tag
    }

    fn is_complete(&self) -> bool {
        match self.kind.as_deref() {
            None => false,
            Some("system") => self.subtype.is_some(),
            Some(_) => true,
        }
    }
}

struct TypeTagVisitor<'p, 'a>(&'p mut TypeTag<'a>);

impl<'de> DeserializeSeed<'de> for TypeTagVisitor<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TypeTagVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while !self.0.is_complete()
            && let Some(key) = map.next_key_seed(KeySeed)?
        {
            match &*key {
                "type" => self.0.kind = map.next_value_seed(StringSeed)?,
                "subtype" => self.0.subtype = map.next_value_seed(StringSeed)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a string, borrowed if it has no escapes; `None` for other types.
struct StringSeed;

impl<'de> DeserializeSeed<'de> for StringSeed {
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
        let type_tag = TypeTag::read(json);
        assert_eq!((type_tag.kind.as_deref(), type_tag.subtype.as_deref()), (kind, subtype), "{json}");
    }

    #[test]
    fn type_is_read_at_any_position() {
        check(r#"{"type":"user","x":"#, Some("user"), None);
        check(r#"{"a":{"type":"inner"},"b":[1,{}],"type":"result"}"#, Some("result"), None);
        check(r#"{"subtype":"init","n":1,"type":"system"}"#, Some("system"), Some("init"));
        check(r#"{"type":"system","n":1,"subtype":"init"}"#, Some("system"), Some("init"));
        check(r#"{"\u0074ype":"us\u0065r"}"#, Some("user"), None);
    }

    #[test]
    fn missing_type_is_none() {
        for json in ["{}", "{\"type\":3}", "[]", "5", "", "{", "{\"type\":", "{\"a\":}"] {
            check(json, None, None);
        }
    }
}
