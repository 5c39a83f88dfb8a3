//! Lenient deserialization: a field that is missing, `null` or of an unexpected type gets its default value.
//!
//! The CLI is released almost daily and its frames change with it. A summary without one number is still useful; an
//! aborted stream is not. serde's derive would fail on the first unexpected type, hence this trait and macro.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::raw::{RawJson, SourceText};

/// A type that can be read from any JSON value; `None` if the value has an unexpected type.
pub(crate) trait LenientDeserialize: Sized {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &SourceText) -> Result<Option<Self>, D::Error>;
}

/// Deserializes raw JSON; `None` if the value has an unexpected type.
#[cfg(feature = "sdk")]
pub(crate) fn from_raw<T: LenientDeserialize>(raw: &RawJson) -> Option<T> {
    let read = |text: &str| {
        let source = SourceText::new(text);
        T::read(&mut serde_json::Deserializer::from_str(source.text()), &source).ok().flatten()
    };
    read(raw.as_str()).or_else(|| read(&super::repair::lone_surrogates(raw.as_str())?))
}

/// Passes the source text on to the values of a map or list.
pub(crate) struct LenientSeed<'s, T>(&'s SourceText, PhantomData<T>);

impl<'s, T> LenientSeed<'s, T> {
    pub(crate) fn new(source: &'s SourceText) -> Self {
        Self(source, PhantomData)
    }
}

impl<'de, T: LenientDeserialize> DeserializeSeed<'de> for LenientSeed<'_, T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Option<T>, D::Error> {
        T::read(input, self.0)
    }
}

/// Completes a visitor: types that the caller does not handle are skipped and give `None`.
macro_rules! otherwise_none {
    (@seq) => {
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
            Ok(None)
        }
    };
    (@map) => {
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<serde::de::IgnoredAny, serde::de::IgnoredAny>()?.is_some() {}
            Ok(None)
        }
    };
    (@str) => {
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok(None)
        }
    };
    ($($kind:tt)*) => {
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("any JSON value")
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        $($crate::frame::lenient::otherwise_none!(@$kind);)*
    };
}
pub(crate) use otherwise_none;

/// Declares a struct whose fields are read from the given keys, in any order, all of them optional.
///
/// With `raw` as the first entry, the struct also keeps the JSON text.
macro_rules! lenient_struct {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            raw,
            $($(#[$about:meta])* $field:ident: $type:ty = $key:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        #[non_exhaustive]
        $vis struct $name {
            $($(#[$about])* $vis $field: $type,)*
            pub(crate) raw: $crate::frame::raw::RawJson,
        }

        impl $name {
            /// Returns the original JSON.
            #[must_use]
            pub fn raw(&self) -> &$crate::frame::raw::RawJson {
                &self.raw
            }
        }

        $crate::frame::lenient::lenient_struct!(@read $name, source => source.whole(), $($field = $key,)*);
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$about:meta])* $field:ident: $type:ty = $key:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        #[non_exhaustive]
        $vis struct $name {
            $($(#[$about])* $vis $field: $type,)*
        }

        $crate::frame::lenient::lenient_struct!(@read $name, source => , $($field = $key,)*);
    };
    (@read $name:ident, $source:ident => $($raw:expr)?, $($field:ident = $key:literal,)*) => {
        impl $crate::frame::lenient::LenientDeserialize for $name {
            fn read<'de, D: serde::de::Deserializer<'de>>(
                input: D,
                source: &$crate::frame::raw::SourceText,
            ) -> Result<Option<Self>, D::Error> {
                struct Fields<'s>(&'s $crate::frame::raw::SourceText);

                impl<'de> serde::de::Visitor<'de> for Fields<'_> {
                    type Value = Option<$name>;

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        let mut value = $name::default();
                        while let Some(key) = map.next_key_seed($crate::frame::lenient::KeySeed)? {
                            match &*key {
                                $($key => {
                                    let seed = $crate::frame::lenient::LenientSeed::new(self.0);
                                    value.$field = map.next_value_seed(seed)?.unwrap_or_default();
                                })*
                                _ => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                }
                            }
                        }
                        $(
                            let $source = self.0;
                            value.raw = $raw;
                        )?
                        Ok(Some(value))
                    }

                    $crate::frame::lenient::otherwise_none!(seq str);
                }

                input.deserialize_any(Fields(source))
            }
        }
    };
}
pub(crate) use lenient_struct;

/// Reads the key of an object, borrowed if it has no escapes.
pub(crate) struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

/// A value that is neither a list nor an object.
pub(crate) enum Scalar<'de> {
    Bool(bool),
    Natural(u64),
    Negative(i64),
    Real(f64),
    Text(Cow<'de, str>),
}

impl<'de> Scalar<'de> {
    pub(crate) fn read<D: Deserializer<'de>>(input: D) -> Result<Option<Self>, D::Error> {
        input.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Option<Scalar<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Negative(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Natural(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Real(value)))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl LenientDeserialize for String {
    fn read<'de, D: Deserializer<'de>>(input: D, _: &SourceText) -> Result<Option<Self>, D::Error> {
        Ok(match Scalar::read(input)? {
            Some(Scalar::Text(text)) => Some(text.into_owned()),
            _ => None,
        })
    }
}

impl LenientDeserialize for bool {
    fn read<'de, D: Deserializer<'de>>(input: D, _: &SourceText) -> Result<Option<Self>, D::Error> {
        Ok(match Scalar::read(input)? {
            Some(Scalar::Bool(value)) => Some(value),
            _ => None,
        })
    }
}

impl LenientDeserialize for u64 {
    fn read<'de, D: Deserializer<'de>>(input: D, _: &SourceText) -> Result<Option<Self>, D::Error> {
        Ok(match Scalar::read(input)? {
            Some(Scalar::Natural(value)) => Some(value),
            // `retry_delay_ms` is 620.6190184923364 in 2.1.120.
            Some(Scalar::Real(value)) if value >= 0.0 => Some(value.round() as u64),
            _ => None,
        })
    }
}

impl LenientDeserialize for u16 {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &SourceText) -> Result<Option<Self>, D::Error> {
        Ok(u64::read(input, source)?.and_then(|value| value.try_into().ok()))
    }
}

impl LenientDeserialize for i64 {
    fn read<'de, D: Deserializer<'de>>(input: D, _: &SourceText) -> Result<Option<Self>, D::Error> {
        Ok(match Scalar::read(input)? {
            Some(Scalar::Natural(value)) => value.try_into().ok(),
            Some(Scalar::Negative(value)) => Some(value),
            _ => None,
        })
    }
}

impl LenientDeserialize for f64 {
    fn read<'de, D: Deserializer<'de>>(input: D, _: &SourceText) -> Result<Option<Self>, D::Error> {
        Ok(match Scalar::read(input)? {
            Some(Scalar::Natural(value)) => Some(value as f64),
            Some(Scalar::Negative(value)) => Some(value as f64),
            Some(Scalar::Real(value)) => Some(value),
            _ => None,
        })
    }
}

impl LenientDeserialize for RawJson {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &SourceText) -> Result<Option<Self>, D::Error> {
        let raw = <&RawValue>::deserialize(input).map_err(D::Error::custom)?.get();
        Ok((raw != "null").then(|| source.part(raw)))
    }
}

impl<T: LenientDeserialize> LenientDeserialize for Option<T> {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &SourceText) -> Result<Option<Self>, D::Error> {
        T::read(input, source).map(Some)
    }
}

/// Skips elements of an unexpected type.
impl<T: LenientDeserialize> LenientDeserialize for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &SourceText) -> Result<Option<Self>, D::Error> {
        struct ListVisitor<'s, T>(&'s SourceText, PhantomData<T>);

        impl<'de, T: LenientDeserialize> Visitor<'de> for ListVisitor<'_, T> {
            type Value = Option<Vec<T>>;

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = seq.next_element_seed(LenientSeed::new(self.0))? {
                    elements.extend(element);
                }
                Ok(Some(elements))
            }

            otherwise_none!(map str);
        }

        input.deserialize_any(ListVisitor(source, PhantomData))
    }
}

/// Skips entries of an unexpected type.
impl<T: LenientDeserialize> LenientDeserialize for BTreeMap<String, T> {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &SourceText) -> Result<Option<Self>, D::Error> {
        struct MapVisitor<'s, T>(&'s SourceText, PhantomData<T>);

        impl<'de, T: LenientDeserialize> Visitor<'de> for MapVisitor<'_, T> {
            type Value = Option<BTreeMap<String, T>>;

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some(key) = map.next_key_seed(KeySeed)? {
                    if let Some(value) = map.next_value_seed(LenientSeed::new(self.0))? {
                        entries.insert(key.into_owned(), value);
                    }
                }
                Ok(Some(entries))
            }

            otherwise_none!(seq str);
        }

        input.deserialize_any(MapVisitor(source, PhantomData))
    }
}

#[cfg(test)]
mod tests;
