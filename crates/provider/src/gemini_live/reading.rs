//! How fields of a Gemini Live message are read: in both spellings, borrowed from the frame wherever the text holds no
//! escapes, with the names of those that are not listed. Knows no message.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::{Borrow, Cow};
use std::fmt;

/// Text that borrows from the frame where it can.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// A count. Protobuf JSON writes 64-bit integers as strings or numbers; what is neither counts as nothing, because no
/// count is worth the rest of its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count(pub(super) u64);

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an integer, or one in a string")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Count, E> {
        Ok(Count(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Count, E> {
        Ok(Count(u64::try_from(number).unwrap_or(0)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Count, E> {
        // A cast from a float saturates, and gives zero for what is no number.
        Ok(Count(number as u64))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Count, E> {
        Ok(Count(text.parse().unwrap_or(0)))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

/// Where in a message something is, as a chain on the stack, so that a path costs nothing until it is written.
pub(super) struct Path<'p> {
    pub(super) parent: Option<&'p Path<'p>>,
    pub(super) name: &'p str,
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(formatter, "{parent}.")?;
        }
        formatter.write_str(self.name)
    }
}

/// Finds the fields of a message that are not listed here.
pub(super) trait Unlisted {
    fn unlisted(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>));
}

macro_rules! leaf {
    ($($type:ty),*) => {$(
        impl Unlisted for $type {
            fn unlisted(&self, _: Option<&Path<'_>>, _: &mut dyn FnMut(&Path<'_>)) {}
        }
    )*};
}

leaf!(bool, Text<'_>, Count);

impl<T: Unlisted> Unlisted for Option<T> {
    fn unlisted(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
        if let Some(inner) = self {
            inner.unlisted(path, report);
        }
    }
}

impl<T: Unlisted> Unlisted for Vec<T> {
    fn unlisted(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
        for item in self {
            item.unlisted(path, report);
        }
    }
}

/// Declares one message: its fields with their spellings, and the spellings that are known and not needed. A field that
/// is there twice makes the message invalid: whichever were taken, somebody meant the other.
macro_rules! message {
    (
        $(#[$doc:meta])*
        $name:ident<$life:lifetime> {
            $($field:ident: $type:ty = $camel:literal $(or $alias:literal)*,)*
        }
        ignores [$($ignored:literal),*]
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name<$life> {
            $(pub(super) $field: Option<$type>,)*
            unknown: Vec<Cow<$life, str>>,
        }

        impl<$life> Deserialize<$life> for $name<$life> {
            fn deserialize<D: Deserializer<$life>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reader;

                impl<$life> Visitor<$life> for Reader {
                    type Value = $name<$life>;

                    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                        formatter.write_str("an object")
                    }

                    fn visit_map<A: MapAccess<$life>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        let mut message = $name::default();
                        while let Some(Text(key)) = map.next_key::<Text<$life>>()? {
                            match &*key {
                                $($camel $(| $alias)* => {
                                    if message.$field.is_some() {
                                        return Err(A::Error::duplicate_field($camel));
                                    }
                                    message.$field = map.next_value()?;
                                })*
                                $($ignored => {
                                    map.next_value::<IgnoredAny>()?;
                                })*
                                _ => {
                                    map.next_value::<IgnoredAny>()?;
                                    message.unknown.push(key);
                                }
                            }
                        }
                        Ok(message)
                    }
                }

                deserializer.deserialize_map(Reader)
            }
        }

        impl Unlisted for $name<'_> {
            fn unlisted(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
                for name in &self.unknown {
                    report(&Path { parent: path, name });
                }
                $(self.$field.unlisted(Some(&Path { parent: path, name: $camel }), report);)*
            }
        }
    };
}

pub(super) use message;
