//! One way to look at JSON, however it is kept: as a tree of `Value`s, or as the arguments of a call. Knows no schema.

use crate::json::is_same_name;
use serde_json::{Map, Number, Value};

/// What a value turns out to be.
pub(crate) enum Seen<'v, V: View<'v>> {
    Null,
    Bool(bool),
    Number(&'v Number),
    Text(&'v str),
    Array(V::Items),
    Object(V::Members),
}

/// Something that can be looked at as JSON. Cheap to copy.
pub(crate) trait View<'v>: Copy {
    type Items: Iterator<Item = Self> + Clone;
    /// In the order of their names.
    type Members: Iterator<Item = (&'v str, Self)> + Clone;

    fn see(self) -> Seen<'v, Self>;

    /// The next member, with its name as bytes: for comparisons, which need not know where characters begin.
    fn next_member(members: &mut Self::Members) -> Option<(&'v [u8], Self)> {
        members.next().map(|(name, value)| (name.as_bytes(), value))
    }
}

/// The members of a map, with names as plain text.
#[derive(Clone)]
pub(crate) struct MapMembers<'v>(serde_json::map::Iter<'v>);

impl<'v> MapMembers<'v> {
    pub(crate) fn of(map: &'v Map<String, Value>) -> Self {
        Self(map.iter())
    }
}

impl<'v> Iterator for MapMembers<'v> {
    type Item = (&'v str, &'v Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (name.as_str(), value))
    }
}

impl<'v> View<'v> for &'v Value {
    type Items = std::slice::Iter<'v, Value>;
    type Members = MapMembers<'v>;

    fn see(self) -> Seen<'v, Self> {
        match self {
            Value::Null => Seen::Null,
            Value::Bool(flag) => Seen::Bool(*flag),
            Value::Number(number) => Seen::Number(number),
            Value::String(text) => Seen::Text(text),
            Value::Array(items) => Seen::Array(items.iter()),
            Value::Object(map) => Seen::Object(MapMembers::of(map)),
        }
    }
}

/// Whether two values are the same, numbers by their spelling: `1` is not `1.0`.
pub(crate) fn is_same<'l, 'r, L: View<'l>, R: View<'r>>(left: L, right: R) -> bool {
    match (left.see(), right.see()) {
        (Seen::Null, Seen::Null) => true,
        (Seen::Bool(left), Seen::Bool(right)) => left == right,
        (Seen::Number(left), Seen::Number(right)) => left == right,
        (Seen::Text(left), Seen::Text(right)) => is_same_name(left.as_bytes(), right.as_bytes()),
        (Seen::Array(left), Seen::Array(right)) => are_same_items(left, right),
        (Seen::Object(left), Seen::Object(right)) => are_same_members::<L, R>(left, right),
        (
            Seen::Null
            | Seen::Bool(_)
            | Seen::Number(_)
            | Seen::Text(_)
            | Seen::Array(_)
            | Seen::Object(_),
            _,
        ) => false,
    }
}

fn are_same_items<'l, 'r>(
    mut left: impl Iterator<Item = impl View<'l>>,
    mut right: impl Iterator<Item = impl View<'r>>,
) -> bool {
    loop {
        match (left.next(), right.next()) {
            (None, None) => break true,
            (Some(left), Some(right)) if is_same(left, right) => {}
            (Some(_) | None, _) => break false,
        }
    }
}

pub(crate) fn are_same_members<'l, 'r, L: View<'l>, R: View<'r>>(
    mut left: L::Members,
    mut right: R::Members,
) -> bool {
    loop {
        match (L::next_member(&mut left), R::next_member(&mut right)) {
            (None, None) => break true,
            (Some((name, left)), Some((other, right)))
                if is_same_name(name, other) && is_same(left, right) => {}
            (Some(_) | None, _) => break false,
        }
    }
}
