//! Reading that never fails on shape: a field that is missing, `null` or of another type is simply not there.
//!
//! The CLI ships almost daily and its frames change with it; a summary that misses one number is useful, a stream
//! that died of it is not. serde's derive would refuse the first surprise, hence the small trait and its macro.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::raw::{RawJson, Source};

/// A type that takes what it can from any JSON value; `None` when the value is of another kind.
pub(crate) trait Lax: Sized {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &Source) -> Result<Option<Self>, D::Error>;
}

/// Reads a piece of a message that nobody has typed yet; `None` when it is of another kind.
#[cfg(feature = "sdk")]
pub(crate) fn from_raw<T: Lax>(raw: &RawJson) -> Option<T> {
    let read = |text: &str| {
        let source = Source::new(text);
        T::read(&mut serde_json::Deserializer::from_str(source.text()), &source).ok().flatten()
    };
    read(raw.as_str()).or_else(|| read(&super::repair::lone_surrogates(raw.as_str())?))
}

/// Hands the source on to the values within a map or a list.
pub(crate) struct Seed<'s, T>(&'s Source, PhantomData<T>);

impl<'s, T> Seed<'s, T> {
    pub(crate) fn new(source: &'s Source) -> Self {
        Self(source, PhantomData)
    }
}

impl<'de, T: Lax> DeserializeSeed<'de> for Seed<'_, T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Option<T>, D::Error> {
        T::read(input, self.0)
    }
}

/// Completes a visitor: every kind of value that is not listed by the caller is read over and gives `None`.
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
        $($crate::frame::lax::otherwise_none!(@$kind);)*
    };
}
pub(crate) use otherwise_none;

/// Declares a public struct whose fields are read from the named keys, in any order, each of them optional.
///
/// With `raw` as its first word the struct is a message of its own and keeps its text.
macro_rules! lax_struct {
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
            /// The message as the CLI wrote it.
            #[must_use]
            pub fn raw(&self) -> &$crate::frame::raw::RawJson {
                &self.raw
            }
        }

        $crate::frame::lax::lax_struct!(@read $name, source => source.whole(), $($field = $key,)*);
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

        $crate::frame::lax::lax_struct!(@read $name, source => , $($field = $key,)*);
    };
    (@read $name:ident, $source:ident => $($raw:expr)?, $($field:ident = $key:literal,)*) => {
        impl $crate::frame::lax::Lax for $name {
            fn read<'de, D: serde::de::Deserializer<'de>>(
                input: D,
                source: &$crate::frame::raw::Source,
            ) -> Result<Option<Self>, D::Error> {
                struct Fields<'s>(&'s $crate::frame::raw::Source);

                impl<'de> serde::de::Visitor<'de> for Fields<'_> {
                    type Value = Option<$name>;

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        let mut value = $name::default();
                        while let Some(key) = map.next_key_seed($crate::frame::lax::Key)? {
                            match &*key {
                                $($key => {
                                    let seed = $crate::frame::lax::Seed::new(self.0);
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

                    $crate::frame::lax::otherwise_none!(seq str);
                }

                input.deserialize_any(Fields(source))
            }
        }
    };
}
pub(crate) use lax_struct;

/// The key of an object, borrowed wherever it has no escapes.
pub(crate) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
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

/// Any value that is neither a list nor an object.
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

impl Lax for String {
    fn read<'de, D: Deserializer<'de>>(input: D, _: &Source) -> Result<Option<Self>, D::Error> {
        Ok(match Scalar::read(input)? {
            Some(Scalar::Text(text)) => Some(text.into_owned()),
            _ => None,
        })
    }
}

impl Lax for bool {
    fn read<'de, D: Deserializer<'de>>(input: D, _: &Source) -> Result<Option<Self>, D::Error> {
        Ok(match Scalar::read(input)? {
            Some(Scalar::Bool(value)) => Some(value),
            _ => None,
        })
    }
}

impl Lax for u64 {
    fn read<'de, D: Deserializer<'de>>(input: D, _: &Source) -> Result<Option<Self>, D::Error> {
        Ok(match Scalar::read(input)? {
            Some(Scalar::Natural(value)) => Some(value),
            // `retry_delay_ms` is 620.6190184923364 in 2.1.120.
            Some(Scalar::Real(value)) if value >= 0.0 => Some(value.round() as u64),
            _ => None,
        })
    }
}

impl Lax for u16 {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &Source) -> Result<Option<Self>, D::Error> {
        Ok(u64::read(input, source)?.and_then(|value| value.try_into().ok()))
    }
}

impl Lax for i64 {
    fn read<'de, D: Deserializer<'de>>(input: D, _: &Source) -> Result<Option<Self>, D::Error> {
        Ok(match Scalar::read(input)? {
            Some(Scalar::Natural(value)) => value.try_into().ok(),
            Some(Scalar::Negative(value)) => Some(value),
            _ => None,
        })
    }
}

impl Lax for f64 {
    fn read<'de, D: Deserializer<'de>>(input: D, _: &Source) -> Result<Option<Self>, D::Error> {
        Ok(match Scalar::read(input)? {
            Some(Scalar::Natural(value)) => Some(value as f64),
            Some(Scalar::Negative(value)) => Some(value as f64),
            Some(Scalar::Real(value)) => Some(value),
            _ => None,
        })
    }
}

impl Lax for RawJson {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &Source) -> Result<Option<Self>, D::Error> {
        let raw = <&RawValue>::deserialize(input).map_err(D::Error::custom)?.get();
        Ok((raw != "null").then(|| source.part(raw)))
    }
}

impl<T: Lax> Lax for Option<T> {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &Source) -> Result<Option<Self>, D::Error> {
        T::read(input, source).map(Some)
    }
}

/// Elements of another kind are left out.
impl<T: Lax> Lax for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &Source) -> Result<Option<Self>, D::Error> {
        struct Elements<'s, T>(&'s Source, PhantomData<T>);

        impl<'de, T: Lax> Visitor<'de> for Elements<'_, T> {
            type Value = Option<Vec<T>>;

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = seq.next_element_seed(Seed::new(self.0))? {
                    elements.extend(element);
                }
                Ok(Some(elements))
            }

            otherwise_none!(map str);
        }

        input.deserialize_any(Elements(source, PhantomData))
    }
}

/// Entries of another kind are left out.
impl<T: Lax> Lax for BTreeMap<String, T> {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &Source) -> Result<Option<Self>, D::Error> {
        struct Entries<'s, T>(&'s Source, PhantomData<T>);

        impl<'de, T: Lax> Visitor<'de> for Entries<'_, T> {
            type Value = Option<BTreeMap<String, T>>;

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some(key) = map.next_key_seed(Key)? {
                    if let Some(value) = map.next_value_seed(Seed::new(self.0))? {
                        entries.insert(key.into_owned(), value);
                    }
                }
                Ok(Some(entries))
            }

            otherwise_none!(seq str);
        }

        input.deserialize_any(Entries(source, PhantomData))
    }
}

#[cfg(test)]
mod tests;
