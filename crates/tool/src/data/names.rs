//! What is noted of the names and lists of a JSON text while it is written, so that nobody has to read it again to know
//! what it does not hold. Knows no name.

use serde_json::ser::Formatter;
use std::io::{self, Write};

/// What was seen. It may suspect too much, and never overlooks anything.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Names {
    /// One bit for each member of the outermost object; two names may share one.
    top: u64,
    /// A name begins with `$`, at any depth.
    has_dollar: bool,
    /// A list has no items, at any depth.
    has_empty_list: bool,
}

impl Names {
    const ANY: Self = Self {
        top: u64::MAX,
        has_dollar: true,
        has_empty_list: true,
    };

    /// Whether the outermost value may be an object with this member.
    pub(super) fn may_have(self, name: &str) -> bool {
        self.top & bit(name) != 0
    }

    pub(super) fn may_begin_with_dollar(self) -> bool {
        self.has_dollar
    }

    pub(super) fn may_have_empty_list(self) -> bool {
        self.has_empty_list
    }
}

/// By length and first letter, which tell most names apart.
fn bit(name: &str) -> u64 {
    let first = name.as_bytes().first().copied().unwrap_or_default();
    1 << ((usize::from(first) + 7 * name.len()) % 64)
}

/// Writes JSON without white space, and takes notes.
#[derive(Debug)]
pub(super) struct Noting<'n> {
    names: &'n mut Names,
    depth: usize,
    place: Place,
    /// Nothing came yet of the list that began last.
    is_list_empty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    BeforeName,
    /// Behind a piece of a name, which is all of most.
    InName,
    Elsewhere,
}

impl<'n> Noting<'n> {
    pub(super) fn into(names: &'n mut Names) -> Self {
        Self {
            names,
            depth: 0,
            place: Place::Elsewhere,
            is_list_empty: false,
        }
    }

    fn note(&mut self, piece: &str) {
        if self.place == Place::InName {
            // A name in several pieces is none that can be told by its first.
            self.names.top = u64::MAX;
            return;
        }
        self.place = Place::InName;
        self.names.has_dollar |= piece.starts_with('$');
        if self.depth == 1 {
            self.names.top |= bit(piece);
        }
    }
}

impl Formatter for Noting<'_> {
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.place = Place::BeforeName;
        if first {
            Ok(())
        } else {
            writer.write_all(b",")
        }
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        if self.place == Place::BeforeName {
            // Empty, or written as a number.
            self.names.top = u64::MAX;
        }
        self.place = Place::Elsewhere;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if self.place != Place::Elsewhere {
            self.note(fragment);
        }
        writer.write_all(fragment.as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.is_list_empty = true;
        writer.write_all(b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.is_list_empty = false;
        if first {
            Ok(())
        } else {
            writer.write_all(b",")
        }
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        self.names.has_empty_list |= std::mem::take(&mut self.is_list_empty);
        writer.write_all(b"]")
    }

    /// JSON that was written elsewhere: nobody knows what is in it.
    fn write_raw_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        *self.names = Names::ANY;
        writer.write_all(fragment.as_bytes())
    }
}
