//! The reading of the live protocols' messages: field by field, so that a value of a wrong type costs its own field and nothing
//! else. Borrows from the frame wherever the text holds no escapes. Knows no protocol.

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use windlass_contract::json::NUMBER;

/// A type that a field's value is read as. A JSON value of an unexpected kind yields nothing, and is passed over.
pub(crate) trait Shape<'de>: Sized {
    fn of_text(_: Cow<'de, str>) -> Option<Self> {
        None
    }

    fn of_flag(_: bool) -> Option<Self> {
        None
    }

    fn of_number(_: u64) -> Option<Self> {
        None
    }

    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// Fills the place of the value instead of returning it: messages are large, and every move of one is a copy.
    fn of_object<A: MapAccess<'de>>(mut object: A, _: &mut Option<Self>) -> Result<(), A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    /// The element for a `null` in a list. A `null` field counts as missing.
    fn of_null_in_list() -> Option<Self> {
        None
    }
}

/// The result of reading a value's place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A value, which the place now holds.
    Value,
    Null,
    /// A value of an unexpected type.
    Unfit,
}

/// An empty place that a value is read into.
pub(crate) struct FieldSlot<'p, T>(pub(crate) &'p mut Option<T>);

impl<T> FieldSlot<'_, T> {
    #[inline]
    fn fill(self, value: Option<T>) -> Found {
        *self.0 = value;
        self.found()
    }

    #[inline]
    fn found(self) -> Found {
        if self.0.is_some() {
            Found::Value
        } else {
            Found::Unfit
        }
    }
}

impl<'de, T: Shape<'de>> DeserializeSeed<'de> for FieldSlot<'_, T> {
    type Value = Found;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Shape<'de>> Visitor<'de> for FieldSlot<'_, T> {
    type Value = Found;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Found, E> {
        Ok(self.fill(T::of_flag(flag)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Found, E> {
        Ok(self.fill(T::of_number(number)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Found, E> {
        Ok(self.fill(T::of_number(u64::try_from(number).unwrap_or(0))))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Found, E> {
        Ok(self.fill(T::of_number(saturated(number))))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Found, E> {
        Ok(self.fill(T::of_text(Cow::Borrowed(text))))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Found, E> {
        Ok(self.fill(T::of_text(Cow::Owned(text.to_owned()))))
    }

    fn visit_unit<E: Error>(self) -> Result<Found, E> {
        Ok(Found::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Found, A::Error> {
        Ok(self.fill(T::of_list(list)?))
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Found, A::Error> {
        T::of_object(object, self.0)?;
        Ok(self.found())
    }
}

/// A type that knows how its field's value is taken.
pub(crate) trait Field<'de>: Sized {
    fn take<A: MapAccess<'de>>(map: &mut A, place: &mut Option<Self>) -> Result<Found, A::Error>;
}

impl<'de, T: Shape<'de>> Field<'de> for T {
    #[inline]
    fn take<A: MapAccess<'de>>(map: &mut A, place: &mut Option<Self>) -> Result<Found, A::Error> {
        map.next_value_seed(FieldSlot(place))
    }
}

/// A value's raw text, for later.
impl<'de> Field<'de> for &'de RawValue {
    fn take<A: MapAccess<'de>>(map: &mut A, place: &mut Option<Self>) -> Result<Found, A::Error> {
        *place = map.next_value()?;
        Ok(if place.is_some() {
            Found::Value
        } else {
            Found::Null
        })
    }
}

/// Text that borrows from the frame where it can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de> Shape<'de> for Text<'de> {
    #[inline]
    fn of_text(text: Cow<'de, str>) -> Option<Self> {
        Some(Text(text))
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Text<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

/// A text as the key of an object.
impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

impl Shape<'_> for bool {
    fn of_flag(flag: bool) -> Option<Self> {
        Some(flag)
    }
}

/// A count. Protobuf JSON writes 64-bit integers as strings or numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl<'de> Shape<'de> for Count {
    fn of_number(number: u64) -> Option<Self> {
        Some(Self(number))
    }

    /// The parser gives a number as an object, so that none of its digits is lost.
    fn of_object<A: MapAccess<'de>>(
        mut object: A,
        place: &mut Option<Self>,
    ) -> Result<(), A::Error> {
        while let Some(Text(key)) = object.next_key()? {
            if key == NUMBER {
                let Text(digits) = object.next_value()?;
                let float = || digits.parse().map_or(0, saturated);
                *place = Some(Self(digits.parse().unwrap_or_else(|_| float())));
                return Ok(());
            }
            object.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn of_text(text: Cow<'de, str>) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

/// A cast from a float saturates, and gives zero for NaN.
fn saturated(number: f64) -> u64 {
    number as u64
}

/// The elements of a list that have the expected type.
#[derive(Debug)]
pub(crate) struct List<T> {
    pub(crate) items: Vec<T>,
    has_unfit: bool,
}

impl<'de, T: Shape<'de>> Shape<'de> for List<T> {
    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        // Most lists have one element.
        let (mut items, mut has_unfit) = (Vec::with_capacity(1), false);
        loop {
            let mut item = None;
            let Some(found) = list.next_element_seed(FieldSlot(&mut item))? else {
                return Ok(Some(Self { items, has_unfit }));
            };
            if found == Found::Null {
                item = T::of_null_in_list();
            }
            has_unfit |= item.is_none();
            items.extend(item);
        }
    }
}

/// The place of a value in a message, as a chain on the stack, so that a path costs nothing until it is written.
pub(crate) struct Path<'p> {
    pub(crate) parent: Option<&'p Path<'p>>,
    pub(crate) name: &'p str,
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(formatter, "{parent}.")?;
        }
        formatter.write_str(self.name)
    }
}

/// Finds the parts of a message that were passed over: fields that are not listed, and values of a wrong type.
pub(crate) trait PassedOver {
    /// Whether nothing was passed over. Reading finds that out, so that a usual frame is not walked again.
    fn is_whole(&self) -> bool;

    fn passed_over(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>));
}

macro_rules! leaf {
    ($($type:ty),*) => {$(
        impl crate::message::PassedOver for $type {
            #[inline]
            fn is_whole(&self) -> bool {
                true
            }

            fn passed_over(
                &self,
                _: Option<&crate::message::Path<'_>>,
                _: &mut dyn FnMut(&crate::message::Path<'_>),
            ) {
            }
        }
    )*};
}

pub(crate) use leaf;

leaf!(bool, Text<'_>, Count, &RawValue);

impl<T: PassedOver> PassedOver for Option<T> {
    #[inline]
    fn is_whole(&self) -> bool {
        self.as_ref().is_none_or(T::is_whole)
    }

    fn passed_over(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
        if let Some(inner) = self {
            inner.passed_over(path, report);
        }
    }
}

impl<T: PassedOver> PassedOver for List<T> {
    fn is_whole(&self) -> bool {
        !self.has_unfit && self.items.iter().all(T::is_whole)
    }

    fn passed_over(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
        if let Some(path) = path.filter(|_| self.has_unfit) {
            report(path);
        }
        for item in &self.items {
            item.passed_over(path, report);
        }
    }
}

/// Declares one message: its fields with their spellings, and whether a field that is not listed is worth a report. A repeated
/// field makes the message invalid: either value might be the intended one.
macro_rules! message {
    (
        $(#[$doc:meta])*
        $name:ident<$life:lifetime> {
            $($field:ident: $type:ty = $camel:literal $(or $alias:literal)*,)*
        }
        $others:ident others
        $(but [$($ignored:literal),*])?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name<$life> {
            $(pub(super) $field: Option<$type>,)*
            passed_over: Vec<std::borrow::Cow<$life, str>>,
            has_broken_field: bool,
        }

        impl<$life> crate::message::Shape<$life> for $name<$life> {
            fn of_object<A: serde::de::MapAccess<$life>>(
                mut map: A,
                place: &mut Option<Self>,
            ) -> Result<(), A::Error> {
                let message = place.insert($name::default());
                while let Some(crate::message::Text(key)) = map.next_key()? {
                    match &*key {
                        $($camel $(| $alias)* => {
                            if message.$field.is_some() {
                                return Err(serde::de::Error::duplicate_field($camel));
                            }
                            match crate::message::Field::take(&mut map, &mut message.$field)? {
                                crate::message::Found::Value => {
                                    message.has_broken_field |=
                                        !crate::message::PassedOver::is_whole(&message.$field);
                                }
                                crate::message::Found::Null => {}
                                crate::message::Found::Unfit => message.passed_over.push($camel.into()),
                            }
                        })*
                        $($($ignored)|* => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                        })?
                        // A number came in place of the message.
                        windlass_contract::json::NUMBER => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                            *place = None;
                            return Ok(());
                        }
                        _ => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                            crate::message::message!(@$others message key);
                        }
                    }
                }
                Ok(())
            }
        }

        impl crate::message::PassedOver for $name<'_> {
            #[inline]
            fn is_whole(&self) -> bool {
                self.passed_over.is_empty() && !self.has_broken_field
            }

            fn passed_over(
                &self,
                path: Option<&crate::message::Path<'_>>,
                report: &mut dyn FnMut(&crate::message::Path<'_>),
            ) {
                for name in &self.passed_over {
                    report(&crate::message::Path { parent: path, name });
                }
                if self.has_broken_field {
                    $(self.$field.passed_over(Some(&crate::message::Path { parent: path, name: $camel }), report);)*
                }
            }
        }
    };
    (@reports $message:ident $key:ident) => {
        $message.passed_over.push($key);
    };
    (@skips $message:ident $key:ident) => {};
}

pub(crate) use message;

/// Reads one frame as a message.
pub(crate) fn read<'f, T: Shape<'f>>(frame: &'f str) -> serde_json::Result<Option<T>> {
    let mut message = None;
    let mut deserializer = serde_json::Deserializer::from_str(frame);
    FieldSlot(&mut message).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(message)
}

/// Reads the value that a text begins with. Returns the rest of the text with it.
pub(crate) fn read_first<'f, T: Shape<'f>>(
    text: &'f str,
) -> serde_json::Result<(Option<T>, &'f str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Alone<T>>();
    let value = values.next().transpose()?.and_then(|alone| alone.0);
    Ok((value, &text[values.byte_offset()..]))
}

struct Alone<T>(Option<T>);

impl<'de, T: Shape<'de>> Deserialize<'de> for Alone<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = None;
        FieldSlot(&mut value).deserialize(deserializer)?;
        Ok(Self(value))
    }
}
