//! The words of a record as the database stores them: the count of each word in each field. Uses the analysis of the index in memory, so
//! that both find the same.

use std::collections::BTreeMap;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::tokenizer::{TextAnalyzer, TokenStream};
use windlass_contract::handler::Record;

/// Title, aliases, tags and body; values for the fields have this order everywhere.
pub(super) const FIELDS: usize = 4;

/// The words of one record.
pub(super) struct Postings {
    /// The count of each term in each field.
    pub(super) terms: BTreeMap<String, [i32; FIELDS]>,
    /// The number of terms of each field, on the scale of the index in memory.
    pub(super) lengths: [i32; FIELDS],
}

impl Postings {
    pub(super) fn of(record: &Record, analyser: &mut TextAnalyzer) -> Self {
        let mut terms: BTreeMap<String, [i32; FIELDS]> = BTreeMap::new();
        let mut lengths = [0_u32; FIELDS];
        let fields = [
            std::slice::from_ref(&record.title),
            record.aliases.as_slice(),
            record.tags.as_slice(),
            std::slice::from_ref(&record.body),
        ];
        for (field, texts) in fields.into_iter().enumerate() {
            for text in texts {
                let mut stream = analyser.token_stream(text);
                while stream.advance() {
                    lengths[field] = lengths[field].saturating_add(1);
                    let term = stream.token().text.as_str();
                    match terms.get_mut(term) {
                        Some(counts) => counts[field] = counts[field].saturating_add(1),
                        None => {
                            let mut counts = [0; FIELDS];
                            counts[field] = 1;
                            terms.insert(term.to_owned(), counts);
                        }
                    }
                }
            }
        }
        Self {
            terms,
            lengths: lengths.map(on_scale),
        }
    }
}

/// A field's length as BM25 in memory sees it, stored there in one byte.
fn on_scale(length: u32) -> i32 {
    let length = FieldNormReader::id_to_fieldnorm(FieldNormReader::fieldnorm_to_id(length));
    i32::try_from(length).unwrap_or(i32::MAX)
}
