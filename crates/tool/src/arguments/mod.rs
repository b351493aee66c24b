//! The arguments of one call, kept so that they cost little: all texts in one buffer, all values in one list. A call's
//! arguments are read, completed, judged, compared and kept for repeats; few are ever taken apart, and a tree of `Value`s
//! costs an allocation for every name and text in them. Knows no schema.

mod form;
mod reading;

pub(crate) use reading::Kind;

use crate::json::{is_same_name, whole_number};
use crate::json_view::{Seen, View, are_same_members};
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;

/// A JSON object without repeated names. Names are sorted, and a number that is whole is an integer however it was written.
#[derive(Clone)]
pub struct Arguments {
    /// All names and texts, and perhaps something between them.
    text: String,
    /// The object itself is the first; empty where the object is.
    nodes: Vec<Node>,
}

/// A value at its place.
#[derive(Clone)]
struct Node {
    /// Empty but for members of objects.
    name: Span,
    /// The member or item behind this one.
    next: Option<Place>,
    content: Content,
}

#[derive(Clone)]
enum Content {
    Null,
    Bool(bool),
    Number(Number),
    Text(Span),
    /// With its first item.
    Array(Option<Place>),
    /// With its first member.
    Object(Option<Place>),
}

/// Bytes of the buffer. Both ends are boundaries of characters in it.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    end: u32,
}

/// Where a node is in the list. The object itself, which is the first, is nobody's member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(NonZeroU32);

/// Where something in the arguments is larger than can be pointed at: four billion bytes, or as many values.
#[derive(Clone, Copy, Debug)]
struct TooLarge;

impl Arguments {
    /// Those of a call that gives none.
    pub fn none() -> Self {
        Self {
            text: String::new(),
            nodes: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.first_of(None).is_none()
    }

    /// How many bytes they take when written, about.
    pub fn written_bytes(&self) -> usize {
        self.text.len() + 4 * self.nodes.len()
    }

    /// A copy of one argument.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.part(name).map(Part::to_value)
    }

    /// One argument that is an integer of 64 bits.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.part(name)?.see() {
            Seen::Number(number) => number.as_i64(),
            Seen::Null | Seen::Bool(_) | Seen::Text(_) | Seen::Array(_) | Seen::Object(_) => None,
        }
    }

    /// The arguments as a type of one's own, which may borrow their texts. Fails where the type does not take what the
    /// schema lets through.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        T::deserialize(self)
    }

    /// A copy as a map.
    pub fn to_map(&self) -> Map<String, Value> {
        self.members()
            .map(|(name, part)| (name.to_owned(), part.to_value()))
            .collect()
    }

    /// A copy as a value.
    pub fn to_value(&self) -> Value {
        Value::Object(self.to_map())
    }

    /// Feeds a hasher with the texts and numbers at the top, where calls differ most. Equal arguments feed it the same.
    pub fn hash_top(&self, hasher: &mut impl Hasher) {
        for node in self.parts(self.first_of(None)) {
            match &node.content {
                Content::Number(number) => number.hash(hasher),
                Content::Text(span) => hasher.write(self.bytes(*span)),
                Content::Null | Content::Bool(_) | Content::Array(_) | Content::Object(_) => {}
            }
        }
    }

    /// Puts an integer in the place of an argument that is there.
    pub fn replace_integer(&mut self, name: &str, integer: i64) {
        let mut place = self.first_of(None);
        while let Some(at) = place {
            let node = self.node(at);
            if is_same_name(self.bytes(node.name), name.as_bytes()) {
                self.node_mut(at).content = Content::Number(integer.into());
                return;
            }
            place = node.next;
        }
    }

    pub(crate) fn members(&self) -> Members<'_> {
        Members(self.parts(self.first_of(None)))
    }

    /// One argument, to be looked at.
    pub(crate) fn part(&self, name: &str) -> Option<Part<'_>> {
        self.parts(self.first_of(None))
            .find(|node| is_same_name(self.bytes(node.name), name.as_bytes()))
            .map(|node| self.part_at(node))
    }

    fn part_at<'a>(&'a self, node: &'a Node) -> Part<'a> {
        Part {
            arguments: self,
            content: &node.content,
        }
    }

    fn parts(&self, next: Option<Place>) -> Parts<'_> {
        Parts {
            arguments: self,
            next,
        }
    }

    fn node(&self, place: Place) -> &Node {
        &self.nodes[place.index()]
    }

    fn node_mut(&mut self, place: Place) -> &mut Node {
        &mut self.nodes[place.index()]
    }

    /// For comparisons, which need not know where characters begin.
    fn bytes(&self, span: Span) -> &[u8] {
        &self.text.as_bytes()[span.start as usize..span.end as usize]
    }

    fn str(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }
}

impl Place {
    fn index(self) -> usize {
        self.0.get() as usize
    }
}

/// One value of some arguments, to be looked at.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    arguments: &'a Arguments,
    content: &'a Content,
}

impl<'a> View<'a> for Part<'a> {
    type Items = Items<'a>;
    type Members = Members<'a>;

    fn see(self) -> Seen<'a, Self> {
        match self.content {
            Content::Null => Seen::Null,
            Content::Bool(flag) => Seen::Bool(*flag),
            Content::Number(number) => Seen::Number(number),
            Content::Text(span) => Seen::Text(self.arguments.str(*span)),
            Content::Array(first) => Seen::Array(Items(self.arguments.parts(*first))),
            Content::Object(first) => Seen::Object(Members(self.arguments.parts(*first))),
        }
    }

    fn next_member(members: &mut Members<'a>) -> Option<(&'a [u8], Self)> {
        let arguments = members.0.arguments;
        let node = members.0.next()?;
        Some((arguments.bytes(node.name), arguments.part_at(node)))
    }
}

impl Part<'_> {
    pub(crate) fn to_value(self) -> Value {
        match self.see() {
            Seen::Null => Value::Null,
            Seen::Bool(flag) => Value::Bool(flag),
            Seen::Number(number) => Value::Number(number.clone()),
            Seen::Text(text) => Value::String(text.to_owned()),
            Seen::Array(items) => Value::Array(items.map(Part::to_value).collect()),
            Seen::Object(members) => Value::Object(
                members
                    .map(|(name, part)| (name.to_owned(), part.to_value()))
                    .collect(),
            ),
        }
    }
}

/// What hangs together: one node after the other.
#[derive(Clone)]
struct Parts<'a> {
    arguments: &'a Arguments,
    next: Option<Place>,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a Node;

    fn next(&mut self) -> Option<&'a Node> {
        let node = self.arguments.node(self.next?);
        self.next = node.next;
        Some(node)
    }
}

#[derive(Clone)]
pub(crate) struct Items<'a>(Parts<'a>);

impl<'a> Iterator for Items<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        self.0.next().map(|node| self.0.arguments.part_at(node))
    }
}

#[derive(Clone)]
pub(crate) struct Members<'a>(Parts<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Part<'a>);

    fn next(&mut self) -> Option<(&'a str, Part<'a>)> {
        let arguments = self.0.arguments;
        self.0
            .next()
            .map(|node| (arguments.str(node.name), arguments.part_at(node)))
    }
}

impl Default for Arguments {
    fn default() -> Self {
        Self::none()
    }
}

impl PartialEq for Arguments {
    fn eq(&self, other: &Self) -> bool {
        are_same_members::<Part<'_>, Part<'_>>(self.members(), other.members())
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_map().fmt(formatter)
    }
}

#[cfg(test)]
mod tests;
