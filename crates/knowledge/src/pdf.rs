//! Reads the text of PDF files, with limits on what a file may grow to. Knows the library that reads them and what it would do
//! without limits; nothing of records.
//!
//! The library inflates whatever it meets, follows forms into forms, and asks a page's ancestors for what the page lacks. A file
//! of some kilobytes can have it fill the memory or go round in circles until the stack ends, which no panic handler
//! catches. So everything is inflated here, within a budget, and the ways that the library will go are gone before it.

mod cmap;
mod inflate;
mod structure;
mod walk;

use inflate::Budget;
use pdf_extract::{Document, LoadOptions, Object, ObjectId, PlainTextOutput, output_doc};
use std::cell::RefCell;
use std::io::{self, Write};

/// Bytes of all that is compressed in a file, once it is not any more.
pub(crate) const INFLATED_BYTES_MAX: usize = 64 * 1024 * 1024;
pub(crate) const PAGES_MAX: usize = 5_000;

/// Why a file is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the file cannot be read as a PDF: it is damaged or encrypted; save it anew")]
    Damaged,
    #[error(
        "the file holds more than {INFLATED_BYTES_MAX} bytes once it is unpacked: split it into several"
    )]
    TooLarge,
    #[error("the file has more than {PAGES_MAX} pages: split it into several")]
    TooManyPages,
    #[error(
        "the pages hold too much drawing, of which {} bytes a page are read: save the file without its drawings",
        walk::DRAWING_BYTES_MAX
    )]
    TooMuchDrawing,
    #[error("reading the fonts of all pages takes too long: split the file into several")]
    TooMuchFont,
    #[error("the file is encrypted: save it without a password")]
    Encrypted,
    #[error("parts of the file are nested too deeply or in circles: save it anew")]
    TooDeep,
    #[error("the text is longer than {0} bytes: split the file into several")]
    TooMuchText(usize),
}

thread_local! {
    /// What is left of the file that is being loaded: the library calls back without anything of ours.
    static BUDGET: RefCell<Budget> = const { RefCell::new(Budget::new(0)) };
}

/// The text of all pages, of at most so many bytes. May panic where the library does.
pub(crate) fn text(bytes: &[u8], bytes_max: usize) -> Result<String, Refusal> {
    structure::check(bytes)?;
    BUDGET.set(Budget::new(INFLATED_BYTES_MAX));
    let options = LoadOptions::with_filter(unpack);
    let loaded = Document::load_mem_with_options(bytes, options);
    BUDGET.take().verdict()?;
    let document = loaded.map_err(|_| Refusal::Damaged)?;
    if document.trailer.has(b"Encrypt") {
        return Err(Refusal::Encrypted);
    }
    walk::check(&document)?;
    let mut text = Limited {
        bytes: Vec::new(),
        bytes_max,
        is_full: false,
    };
    let written = {
        let writer: &mut dyn Write = &mut text;
        output_doc(&document, &mut PlainTextOutput::new(writer))
    };
    match written {
        Ok(()) => String::from_utf8(text.bytes).map_err(|_| Refusal::Damaged),
        Err(_) if text.is_full => Err(Refusal::TooMuchText(bytes_max)),
        Err(_) => Err(Refusal::Damaged),
    }
}

/// Leaves nothing for the library to inflate.
fn unpack(id: ObjectId, object: &mut Object) -> Option<(ObjectId, Object)> {
    if let Object::Stream(stream) = object {
        BUDGET
            .with_borrow_mut(|budget| budget.unpack(stream))
            .ok()?;
    }
    Some((id, object.clone()))
}

/// Text up to a limit.
struct Limited {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_full: bool,
}

impl Write for Limited {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > self.bytes_max {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
