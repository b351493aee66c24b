//! Takes the types out of TypeScript. swc's stripper leaves blanks in their place, so that every line and column stays. No type is
//! checked.

/// The reason why a file has no JavaScript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unstripped {
    /// Line and column, from 1.
    pub(crate) place: Option<(usize, usize)>,
    pub(crate) message: String,
    pub(crate) cure: &'static str,
}

pub(crate) fn is_typescript(path: &str) -> bool {
    path.ends_with(".ts")
}

#[cfg(not(feature = "typescript"))]
pub(crate) fn strip(_: &str) -> Result<String, Unstripped> {
    Err(Unstripped {
        place: None,
        message: "this program was built without TypeScript".to_owned(),
        cure: "build it with --features typescript, or write the file in JavaScript",
    })
}

#[cfg(feature = "typescript")]
pub(crate) use with_swc::strip;

#[cfg(feature = "typescript")]
mod with_swc {
    use super::Unstripped;
    use std::sync::{Arc, Mutex, PoisonError};
    use swc_common::errors::{DiagnosticBuilder, Emitter, Handler};
    use swc_common::sync::Lrc;
    use swc_common::{GLOBALS, Globals, SourceMap};
    use swc_ts_fast_strip::{ErrorCode, Options, operate};

    /// Keeps the first problem: those after it mostly follow from it.
    struct First {
        files: Lrc<SourceMap>,
        found: Arc<Mutex<Option<Unstripped>>>,
    }

    impl Emitter for First {
        fn emit(&mut self, diagnostic: &mut DiagnosticBuilder<'_>) {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            if found.is_some() {
                return;
            }
            let place = diagnostic.span.primary_span().map(|span| {
                let place = self.files.lookup_char_pos(span.lo());
                (place.line, place.col.0 + 1)
            });
            *found = Some(Unstripped {
                place,
                message: diagnostic.message(),
                cure: "",
            });
        }
    }

    /// The same text with blanks for types.
    ///
    /// # Errors
    ///
    /// A syntax error, or syntax beyond types: enums, namespaces, parameters that are properties.
    pub(crate) fn strip(source: &str) -> Result<String, Unstripped> {
        let files = Lrc::new(SourceMap::default());
        let found = Arc::default();
        let first = First {
            files: files.clone(),
            found: Arc::clone(&found),
        };
        let handler = Handler::with_emitter(true, false, Box::new(first));
        let options = Options {
            module: Some(true),
            ..Options::default()
        };
        let stripped = GLOBALS.set(&Globals::default(), || {
            operate(&files, &handler, source.to_owned(), options)
        });
        let error = match stripped {
            Ok(stripped) => return Ok(stripped.code),
            Err(error) => error,
        };
        let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (kind, cure) = match error.code {
            ErrorCode::UnsupportedSyntax => (
                "TypeScript that is more than types",
                "write it as JavaScript: types are taken out, and nothing is put in their place",
            ),
            _ => ("SyntaxError", "correct the syntax"),
        };
        let (place, message) = match found {
            Some(found) => (found.place, found.message),
            None => (None, error.message),
        };
        Err(Unstripped {
            place,
            message: format!("{kind}: {message}"),
            cure,
        })
    }
}
