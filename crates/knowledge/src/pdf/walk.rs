//! Goes the ways of a PDF file that the library will go, and refuses those that have no end or are too long. Knows pages, forms
//! and fonts as far as they lead to others.

use super::cmap;
use super::inflate::find;
use super::{INFLATED_BYTES_MAX, PAGES_MAX, Refusal};
use pdf_extract::content::Content;
use pdf_extract::{Dictionary, Document, Object, Stream};

/// Bytes of what is drawn at once. In memory each of its operations takes many times the room that it has in the file.
pub(super) const DRAWING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Forms in forms, and the ancestors of a page.
const DEPTH_MAX: usize = 32;
/// Bytes of fonts that are read, those of each page anew.
const FONT_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Bytes that a code of a font's map counts for.
const CODE_BYTES: usize = 64;

/// Refuses a document that would take too long or has no end.
pub(super) fn check(document: &Document) -> Result<(), Refusal> {
    let mut walk = Walk {
        document,
        drawing_bytes_left: INFLATED_BYTES_MAX,
        font_bytes_left: FONT_BYTES_MAX,
    };
    for (number, page) in document.page_iter().enumerate() {
        if number >= PAGES_MAX {
            return Err(Refusal::TooManyPages);
        }
        let page = document
            .get_dictionary(page)
            .map_err(|_| Refusal::Damaged)?;
        walk.page(page)?;
    }
    Ok(())
}

struct Walk<'a> {
    document: &'a Document,
    drawing_bytes_left: usize,
    font_bytes_left: usize,
}

impl<'a> Walk<'a> {
    fn page(&mut self, page: &'a Dictionary) -> Result<(), Refusal> {
        let empty = Dictionary::new();
        let resources = self.inherited_resources(page)?;
        self.fonts(resources.unwrap_or(&empty))?;
        let mut content = Vec::new();
        for stream in self.contents(page) {
            if content.len() + stream.content.len() > DRAWING_BYTES_MAX {
                return Err(Refusal::TooMuchDrawing);
            }
            content.extend_from_slice(&stream.content);
            content.push(b'\n');
        }
        self.drawing(&content, resources, 0)
    }

    /// What a page or the nearest of its ancestors has; all of these are asked for some other things.
    fn inherited_resources(&self, page: &'a Dictionary) -> Result<Option<&'a Dictionary>, Refusal> {
        let mut found = None;
        let mut node = page;
        for _ in 0..DEPTH_MAX {
            found = found.or_else(|| self.dictionary(node, b"Resources"));
            let parent = node.get(b"Parent").and_then(Object::as_reference);
            match parent.and_then(|parent| self.document.get_dictionary(parent)) {
                Ok(parent) => node = parent,
                Err(_) => return Ok(found),
            }
        }
        Err(Refusal::TooDeep)
    }

    /// The streams that a page is drawn by, as often as it names them.
    fn contents(&self, page: &'a Dictionary) -> Vec<&'a Stream> {
        let named = match self.value(page, b"Contents") {
            Some(Object::Array(parts)) => parts.iter().collect(),
            Some(other) => vec![other],
            None => Vec::new(),
        };
        let streams = named.into_iter().filter_map(|part| self.followed(part));
        streams.filter_map(|part| part.as_stream().ok()).collect()
    }

    /// Follows what is drawn into the forms that it names.
    fn drawing(
        &mut self,
        content: &[u8],
        resources: Option<&'a Dictionary>,
        depth: usize,
    ) -> Result<(), Refusal> {
        if depth >= DEPTH_MAX {
            return Err(Refusal::TooDeep);
        }
        if content.len() > DRAWING_BYTES_MAX {
            return Err(Refusal::TooMuchDrawing);
        }
        // A form of nothing takes some time as well.
        let cost = content.len() + size_of::<Content>();
        self.drawing_bytes_left = self
            .drawing_bytes_left
            .checked_sub(cost)
            .ok_or(Refusal::TooMuchDrawing)?;
        let (Some(resources), true) = (resources, find(content, b"Do").is_some()) else {
            return Ok(());
        };
        let Some(forms) = self.dictionary(resources, b"XObject") else {
            return Ok(());
        };
        let content = Content::decode(content).map_err(|_| Refusal::Damaged)?;
        let named = content
            .operations
            .iter()
            .filter(|operation| operation.operator == "Do");
        for operation in named {
            let name = operation
                .operands
                .first()
                .and_then(|name| name.as_name().ok());
            let form = name.and_then(|name| self.value(forms, name));
            if let Some(Object::Stream(form)) = form {
                let own = self.dictionary(&form.dict, b"Resources");
                let resources = own.unwrap_or(resources);
                self.fonts(resources)?;
                self.drawing(&form.content, Some(resources), depth + 1)?;
            }
        }
        Ok(())
    }

    /// Counts what reading the fonts takes.
    fn fonts(&mut self, resources: &Dictionary) -> Result<(), Refusal> {
        let Some(fonts) = self.dictionary(resources, b"Font") else {
            return Ok(());
        };
        for (_, font) in fonts.iter() {
            let Some(Object::Dictionary(font)) = self.followed(font) else {
                continue;
            };
            for map in [b"ToUnicode".as_slice(), b"Encoding"] {
                if let Some(Object::Stream(map)) = self.value(font, map) {
                    // Counted before it is looked at: many names may stand for one map.
                    self.read_font(map.content.len())?;
                    let codes = cmap::codes(&map.content)?;
                    self.read_font(codes.saturating_mul(CODE_BYTES))?;
                }
            }
            // Of a composite font's parts the library reads no streams.
            let descriptor = self.dictionary(font, b"FontDescriptor");
            for dictionary in std::iter::once(font).chain(descriptor) {
                for (_, value) in dictionary.iter() {
                    if let Some(Object::Stream(stream)) = self.followed(value) {
                        self.read_font(stream.content.len())?;
                    }
                }
            }
        }
        Ok(())
    }

    fn read_font(&mut self, bytes: usize) -> Result<(), Refusal> {
        let left = self.font_bytes_left.checked_sub(bytes);
        self.font_bytes_left = left.ok_or(Refusal::TooMuchFont)?;
        Ok(())
    }

    fn dictionary<'b>(&self, dictionary: &'b Dictionary, key: &[u8]) -> Option<&'b Dictionary>
    where
        'a: 'b,
    {
        self.value(dictionary, key)?.as_dict().ok()
    }

    fn value<'b>(&self, dictionary: &'b Dictionary, key: &[u8]) -> Option<&'b Object>
    where
        'a: 'b,
    {
        self.followed(dictionary.get(key).ok()?)
    }

    /// What a reference leads to.
    fn followed<'b>(&self, object: &'b Object) -> Option<&'b Object>
    where
        'a: 'b,
    {
        match object {
            Object::Reference(id) => self.document.get_object(*id).ok(),
            other => Some(other),
        }
    }
}
