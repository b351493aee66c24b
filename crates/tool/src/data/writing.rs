//! Writes what a tool brought back as JSON without white space, and notes its names and lists on the way. serde_json writes the
//! same, and writes the numbers here; but it looks at each byte of a text alone, and results are texts. Knows no name.

use super::names::Names;
use crate::depth::DEPTH_MAX;
use crate::json::write_string;
use serde::Serialize;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;
use std::mem;

/// How the names begin that serde_json gives to what is JSON text already, and no object.
const WRITTEN_ELSEWHERE: &str = "$serde_json::private::";

/// JSON under way, and what was noted of it.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    pub(super) names: Names,
    /// Lists and objects that are open.
    depth: usize,
}

impl Writer {
    pub(super) fn with_room(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            names: Names::default(),
            depth: 0,
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        write_string(text, &mut self.bytes);
        Ok(())
    }

    /// A number, a truth or nothing.
    fn scalar(&mut self, scalar: impl Serialize) -> Result<(), Error> {
        serde_json::to_writer(&mut self.bytes, &scalar)
    }

    fn name(&mut self, name: &'static str) {
        self.names.note(name.as_bytes(), self.depth);
        write_string(name, &mut self.bytes);
        self.bytes.push(b':');
    }

    fn open(&mut self, bracket: u8) -> Result<(), Error> {
        if self.depth == DEPTH_MAX {
            let problem = format!("it is nested deeper than {DEPTH_MAX} levels");
            return Err(serde::ser::Error::custom(problem));
        }
        self.depth += 1;
        self.bytes.push(bracket);
        Ok(())
    }

    fn close(&mut self, bracket: u8) {
        self.depth -= 1;
        self.bytes.push(bracket);
    }

    /// Numbers and truths become texts where they are keys, and other values are no keys: serde_json knows which and how. It
    /// writes the beginning of an object, of which the key is wanted alone.
    fn rewrite_as_key<T: Serialize + ?Sized>(
        &mut self,
        key: &T,
        start: usize,
    ) -> Result<(), Error> {
        self.bytes.truncate(start);
        let mut serializer = serde_json::Serializer::new(&mut self.bytes);
        serializer.serialize_map(None)?.serialize_key(key)?;
        self.bytes.remove(start);
        Ok(())
    }

    /// The key that was written last.
    fn note_key(&mut self, start: usize) {
        match &self.bytes[start..] {
            [b'"', name @ .., b'"'] if !name.contains(&b'\\') => {
                self.names.note(name, self.depth);
            }
            _ => self.names = Names::ANY,
        }
    }

    /// A variant with content is an object whose one name is the variant's.
    fn open_variant(&mut self, variant: &'static str) -> Result<(), Error> {
        self.open(b'{')?;
        self.name(variant);
        Ok(())
    }

    fn list(&mut self, is_variant: bool) -> Result<List<'_>, Error> {
        self.open(b'[')?;
        Ok(List {
            writer: self,
            is_empty: true,
            is_variant,
        })
    }

    fn object(&mut self, is_variant: bool) -> Result<Object<'_>, Error> {
        self.open(b'{')?;
        Ok(Object {
            writer: self,
            is_empty: true,
            is_variant,
            written_elsewhere: None,
        })
    }
}

/// A list that is open.
#[derive(Debug)]
pub(super) struct List<'w> {
    writer: &'w mut Writer,
    is_empty: bool,
    /// Around it is the object of a variant, which ends with it.
    is_variant: bool,
}

impl List<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        if !mem::take(&mut self.is_empty) {
            self.writer.bytes.push(b',');
        }
        item.serialize(&mut *self.writer)
    }

    fn close(self) -> Result<(), Error> {
        self.writer.names.note_list(self.is_empty);
        self.writer.close(b']');
        if self.is_variant {
            self.writer.close(b'}');
        }
        Ok(())
    }
}

/// An object that is open.
#[derive(Debug)]
pub(super) struct Object<'w> {
    writer: &'w mut Writer,
    is_empty: bool,
    /// Around it is the object of a variant, which ends with it.
    is_variant: bool,
    /// It is none, but JSON that was written before, under this name.
    written_elsewhere: Option<&'static str>,
}

impl Object<'_> {
    fn separate(&mut self) {
        if !mem::take(&mut self.is_empty) {
            self.writer.bytes.push(b',');
        }
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        if let Some(text) = self.written_elsewhere {
            let mut serializer = serde_json::Serializer::new(&mut self.writer.bytes);
            let mut written = serializer.serialize_struct(text, 1)?;
            SerializeStruct::serialize_field(&mut written, name, value)?;
            return SerializeStruct::end(written);
        }
        self.separate();
        self.writer.name(name);
        value.serialize(&mut *self.writer)
    }

    fn close(self) -> Result<(), Error> {
        if self.written_elsewhere.is_some() {
            return Ok(());
        }
        self.writer.close(b'}');
        if self.is_variant {
            self.writer.close(b'}');
        }
        Ok(())
    }
}

macro_rules! scalars {
    ($($method:ident: $type:ty),+) => {
        $(fn $method(self, scalar: $type) -> Result<(), Error> {
            self.scalar(scalar)
        })+
    };
}

impl<'w> Serializer for &'w mut Writer {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'w>;
    type SerializeTuple = List<'w>;
    type SerializeTupleStruct = List<'w>;
    type SerializeTupleVariant = List<'w>;
    type SerializeMap = Object<'w>;
    type SerializeStruct = Object<'w>;
    type SerializeStructVariant = Object<'w>;

    scalars! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_f32: f32, serialize_f64: f64
    }

    fn serialize_char(self, letter: char) -> Result<(), Error> {
        self.text(letter.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<(), Error> {
        self.text(text)
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Error> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.scalar(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.text(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.open_variant(variant)?;
        value.serialize(&mut *self)?;
        self.close(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'w>, Error> {
        self.list(false)
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'w>, Error> {
        self.list(false)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List<'w>, Error> {
        self.list(false)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List<'w>, Error> {
        self.open_variant(variant)?;
        self.list(true)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Object<'w>, Error> {
        self.object(false)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Object<'w>, Error> {
        if name.starts_with(WRITTEN_ELSEWHERE) {
            self.names = Names::ANY;
            return Ok(Object {
                writer: self,
                is_empty: true,
                is_variant: false,
                written_elsewhere: Some(name),
            });
        }
        self.object(false)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Object<'w>, Error> {
        self.open_variant(variant)?;
        self.object(true)
    }
}

macro_rules! lists {
    ($($kind:ident: $method:ident),+) => {
        $(impl $kind for List<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
                self.item(item)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        })+
    };
}

lists! {
    SerializeSeq: serialize_element, SerializeTuple: serialize_element, SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field
}

macro_rules! objects {
    ($($kind:ident),+) => {
        $(impl $kind for Object<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        })+
    };
}

objects! { SerializeStruct, SerializeStructVariant }

impl SerializeMap for Object<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.separate();
        let start = self.writer.bytes.len();
        key.serialize(&mut *self.writer)?;
        if self.writer.bytes.get(start) != Some(&b'"') {
            self.writer.rewrite_as_key(key, start)?;
        }
        self.writer.note_key(start);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.writer.bytes.push(b':');
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}
