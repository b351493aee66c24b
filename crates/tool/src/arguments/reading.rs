//! How arguments come to be: read from text, copied from a map, completed with what a schema declares. Keeps names sorted
//! and without repeats.

use super::{Arguments, Content, Node, Place, Span, TooLarge, whole_number};
use crate::json::is_same_name;
use crate::json_reader::{DEPTH_MAX, Reader};
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;
use std::num::NonZeroU32;

/// Members of one object, whose names are compared one by one. Larger objects are the general parser's.
const MEMBERS_MAX: usize = 32;
/// Values that most calls stay below, those that a schema adds included. More would be a piece of memory of a size that
/// allocators do not keep at hand.
const NODES_ROOM: usize = 24;
/// Bytes that most schemas add at most.
const TEXT_ROOM: usize = 64;

impl Arguments {
    /// The object that a reader stands before. `None` says only that the general parser has to look.
    pub fn read_from(reader: &mut Reader<'_>) -> Option<Self> {
        let source = reader.rest();
        // Spans reach no further.
        u32::try_from(source.len()).ok()?;
        let start = reader.position();
        let mut arguments = Self::none();
        let mut reading = Reading {
            arguments: &mut arguments,
            reader,
            source,
            start,
        };
        reading.members(None, 0)?;
        let length = reader.position() - start;
        arguments.text = String::with_capacity(length + TEXT_ROOM);
        arguments.text.push_str(&source[..length]);
        Some(arguments)
    }

    /// Hangs a node behind another one, or under its parent where there is none.
    fn link(&mut self, parent: Option<Place>, before: Option<Place>, place: Place) {
        match before {
            Some(before) => self.node_mut(before).next = Some(place),
            None => self.set_first(parent, place),
        }
    }

    fn set_first(&mut self, parent: Option<Place>, place: Place) {
        let parent = parent.map_or(0, Place::index);
        match &mut self.nodes[parent].content {
            Content::Array(first) | Content::Object(first) => *first = Some(place),
            Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) => {}
        }
    }

    /// What is first in an object or an array; at the top where `parent` is `None`.
    pub(crate) fn first_of(&self, parent: Option<Place>) -> Option<Place> {
        let parent = parent.map_or(0, Place::index);
        match self.nodes.get(parent)?.content {
            Content::Array(first) | Content::Object(first) => first,
            Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) => None,
        }
    }

    /// Written in place where it is known what the content is: a copy of what was just written in pieces waits for them.
    #[inline(always)]
    fn add(&mut self, name: Span, content: Content) -> Result<Place, TooLarge> {
        if self.nodes.is_empty() {
            self.begin();
        }
        let place = u32::try_from(self.nodes.len())
            .ok()
            .and_then(NonZeroU32::new);
        let place = Place(place.ok_or(TooLarge)?);
        self.nodes.push(Node {
            name,
            next: None,
            content,
        });
        Ok(place)
    }

    /// Makes room, and puts the object itself into it.
    fn begin(&mut self) {
        self.nodes = Vec::with_capacity(NODES_ROOM);
        self.nodes.push(Node {
            name: Span::default(),
            next: None,
            content: Content::Object(None),
        });
    }

    fn add_text(&mut self, text: &str) -> Result<Span, TooLarge> {
        let start = u32::try_from(self.text.len()).map_err(|_| TooLarge)?;
        self.text.push_str(text);
        let end = u32::try_from(self.text.len()).map_err(|_| TooLarge)?;
        Ok(Span { start, end })
    }

    /// Adds a copy of a value that hangs nowhere yet.
    fn add_value(&mut self, name: Span, value: &Value) -> Result<Place, TooLarge> {
        match value {
            Value::Null => self.add(name, Content::Null),
            Value::Bool(flag) => self.add(name, Content::Bool(*flag)),
            Value::Number(number) => self.add(name, Content::Number(settled(number))),
            Value::String(text) => {
                let text = self.add_text(text)?;
                self.add(name, Content::Text(text))
            }
            Value::Array(items) => {
                let place = self.add(name, Content::Array(None))?;
                let mut last = None;
                for item in items {
                    let item = self.add_value(Span::default(), item)?;
                    self.link(Some(place), last.replace(item), item);
                }
                Ok(place)
            }
            Value::Object(map) => {
                let place = self.add(name, Content::Object(None))?;
                self.add_members(Some(place), map)?;
                Ok(place)
            }
        }
    }

    /// Adds a copy of a map's members, which are sorted, to an object without any.
    fn add_members(
        &mut self,
        parent: Option<Place>,
        map: &Map<String, Value>,
    ) -> Result<(), TooLarge> {
        let mut last = None;
        for (name, value) in map {
            let name = self.add_text(name)?;
            let member = self.add_value(name, value)?;
            self.link(parent, last.replace(member), member);
        }
        Ok(())
    }

    /// Goes through the members of an object, those at the top where `parent` is `None`.
    pub(crate) fn gaps(&mut self, parent: Option<Place>) -> Gaps<'_> {
        let behind = self.first_of(parent);
        Gaps {
            arguments: self,
            parent,
            before: None,
            behind,
        }
    }

    /// The member or item behind another one.
    pub(crate) fn behind(&self, place: Place) -> Option<Place> {
        self.node(place).next
    }

    pub(crate) fn kind(&self, place: Place) -> Kind {
        match self.node(place).content {
            Content::Object(_) => Kind::Object,
            Content::Array(_) => Kind::Array,
            Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) => {
                Kind::Scalar
            }
        }
    }
}

/// How two names are sorted. Most differ in their first byte, and need no look at the rest.
fn order(one: &[u8], other: &[u8]) -> Ordering {
    match (one.first(), other.first()) {
        (Some(first), Some(other_first)) if first != other_first => first.cmp(other_first),
        (_, _) if is_same_name(one, other) => Ordering::Equal,
        (_, _) => one.cmp(other),
    }
}

/// What may lie inside a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    Scalar,
}

/// Arguments under way. Their text is copied when all of it was read; until then it is where it stands.
struct Reading<'a, 'r, 't> {
    arguments: &'a mut Arguments,
    reader: &'r mut Reader<'t>,
    /// From the object's first byte to the end of everything.
    source: &'t str,
    start: usize,
}

impl<'t> Reading<'_, '_, 't> {
    fn members(&mut self, parent: Option<Place>, depth: usize) -> Option<()> {
        let mut last: Option<(Place, &[u8])> = None;
        let mut count = 0;
        self.reader.token(b'{')?;
        while self.reader.goes_on(b'}', count > 0)? {
            count += 1;
            let name = self.text()?;
            self.reader.token(b':')?;
            let place = (count <= MEMBERS_MAX)
                .then(|| self.value(name, depth + 1))
                .flatten()?;
            // Most come sorted, or few enough that looking for their place from the first costs little.
            let spelt = self.bytes(name);
            let is_sorted = last.is_none_or(|(_, largest)| order(largest, spelt).is_lt());
            if is_sorted {
                let before = last.replace((place, spelt)).map(|(before, _)| before);
                self.arguments.link(parent, before, place);
            } else {
                self.link_sorted(parent, place, name)?;
            }
        }
        Some(())
    }

    fn value(&mut self, name: Span, depth: usize) -> Option<Place> {
        if depth > DEPTH_MAX {
            return None;
        }
        let content = match self.reader.peek()? {
            b'"' => Content::Text(self.text()?),
            b'{' => {
                let place = self.arguments.add(name, Content::Object(None)).ok()?;
                self.members(Some(place), depth)?;
                return Some(place);
            }
            b'[' => {
                let place = self.arguments.add(name, Content::Array(None)).ok()?;
                self.items(place, depth)?;
                return Some(place);
            }
            _ => match self.reader.scalar()? {
                Value::Null => Content::Null,
                Value::Bool(flag) => Content::Bool(flag),
                Value::Number(number) => Content::Number(number),
                Value::String(_) | Value::Array(_) | Value::Object(_) => return None,
            },
        };
        self.arguments.add(name, content).ok()
    }

    fn items(&mut self, parent: Place, depth: usize) -> Option<()> {
        let mut last = None;
        self.reader.token(b'[')?;
        while self.reader.goes_on(b']', last.is_some())? {
            let item = self.value(Span::default(), depth + 1)?;
            self.arguments.link(Some(parent), last.replace(item), item);
        }
        Some(())
    }

    fn text(&mut self) -> Option<Span> {
        let found = self.reader.span()?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the source is no longer than spans reach"
        )]
        let span = Span {
            start: (found.start - self.start) as u32,
            end: (found.end - self.start) as u32,
        };
        Some(span)
    }

    fn bytes(&self, span: Span) -> &'t [u8] {
        &self.source.as_bytes()[span.start as usize..span.end as usize]
    }

    /// Puts a member between those before and behind it. `None` where its name is there already.
    fn link_sorted(&mut self, parent: Option<Place>, place: Place, name: Span) -> Option<()> {
        let (mut before, mut behind) = (None, self.arguments.first_of(parent));
        while let Some(at) = behind {
            let node = self.arguments.node(at);
            match order(self.bytes(node.name), self.bytes(name)) {
                Ordering::Less => (before, behind) = (behind, node.next),
                Ordering::Equal => return None,
                Ordering::Greater => break,
            }
        }
        self.arguments.node_mut(place).next = behind;
        self.arguments.link(parent, before, place);
        Some(())
    }
}

/// One way through the members of an object, in the order of their names.
pub(crate) struct Gaps<'a> {
    pub(crate) arguments: &'a mut Arguments,
    parent: Option<Place>,
    before: Option<Place>,
    behind: Option<Place>,
}

impl Gaps<'_> {
    /// The member of this name. Names have to come sorted.
    pub(crate) fn find(&mut self, name: &str) -> Option<Place> {
        while let Some(at) = self.behind {
            let node = self.arguments.node(at);
            match order(self.arguments.bytes(node.name), name.as_bytes()) {
                Ordering::Less => (self.before, self.behind) = (self.behind, node.next),
                Ordering::Equal => return Some(at),
                Ordering::Greater => break,
            }
        }
        None
    }

    /// Adds a member unless one of this name is there; true where it was added. Names have to come sorted.
    pub(crate) fn fill(&mut self, name: &str, value: &Value) -> bool {
        if self.find(name).is_some() {
            return false;
        }
        let Ok(place) = self
            .arguments
            .add_text(name)
            .and_then(|name| self.arguments.add_value(name, value))
        else {
            return false;
        };
        self.arguments.node_mut(place).next = self.behind;
        self.arguments.link(self.parent, self.before, place);
        self.before = Some(place);
        true
    }
}

/// JSON knows one kind of number; `3.0` is the integer 3, for handlers and for every comparison of arguments.
fn settled(number: &Number) -> Number {
    let whole = number
        .as_f64()
        .filter(|_| number.is_f64())
        .and_then(whole_number);
    whole.map_or_else(|| number.clone(), Number::from)
}

impl From<Map<String, Value>> for Arguments {
    /// Of a map beyond all limits, of four billion bytes, nothing is left; no frame is so large.
    fn from(map: Map<String, Value>) -> Self {
        let mut arguments = Self::none();
        match arguments.add_members(None, &map) {
            Ok(()) => arguments,
            Err(TooLarge) => Self::none(),
        }
    }
}
