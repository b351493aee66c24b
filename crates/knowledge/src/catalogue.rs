//! Holds the records in the order of their ids, and selects the records that pass a filter. Knows no ranking.

use crate::access::Access;
use crate::date::{self, DayEdge, Microseconds};
use crate::record::{self, DEFAULT_NAMESPACE};
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_contract::handler::{Facets, KnowledgeError, KnowledgeReader, Record, SearchRequest};

/// The most other namespaces that an answer without hits names.
const NAMED_NAMESPACES_MAX: usize = 8;

/// A record's place in the order of the ids, which is its number in the index too.
pub(crate) type Ordinal = u32;

pub(crate) struct Catalogue {
    entries: Vec<Entry>,
    facets: Facets,
}

struct Entry {
    record: Arc<Record>,
    updated: Option<Microseconds>,
}

/// The records that a search may return: all, or a bitmap.
pub(crate) enum Allowed {
    All,
    Only(Vec<u64>),
}

impl Allowed {
    /// Whether no record may be returned.
    pub(crate) fn is_none(&self) -> bool {
        match self {
            Self::All => false,
            Self::Only(bits) => bits.iter().all(|word| *word == 0),
        }
    }

    pub(crate) fn contains(&self, ordinal: Ordinal) -> bool {
        match self {
            Self::All => true,
            Self::Only(bits) => {
                let ordinal = ordinal as usize;
                bits.get(ordinal / 64)
                    .is_some_and(|word| word >> (ordinal % 64) & 1 == 1)
            }
        }
    }
}

/// The filters of a request, checked.
pub(crate) struct Filter<'a> {
    pub(crate) namespaces: Vec<&'a str>,
    pub(crate) record_type: Option<&'a str>,
    /// Tags in their stored form.
    pub(crate) tags: Vec<String>,
    pub(crate) from: Option<Microseconds>,
    pub(crate) to: Option<Microseconds>,
}

impl Catalogue {
    /// Takes admitted records, each id once, and sorts them by id.
    pub(crate) fn new(mut records: Vec<Record>) -> Self {
        records.sort_by(|left, right| left.id.cmp(&right.id));
        let mut types = BTreeSet::new();
        let mut namespaces = BTreeSet::new();
        for record in &records {
            types.insert(record.record_type.clone());
            namespaces.insert(record.namespace.clone());
        }
        let entries = records
            .into_iter()
            .map(|record| Entry {
                updated: record
                    .last_updated
                    .as_deref()
                    .and_then(|text| date::parse(text, DayEdge::First)),
                record: Arc::new(record),
            })
            .collect();
        Self {
            entries,
            facets: Facets {
                types: types.into_iter().collect(),
                namespaces: namespaces.into_iter().collect(),
            },
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn facets(&self) -> &Facets {
        &self.facets
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.entries.iter().map(|entry| &entry.record)
    }

    pub(crate) fn record(&self, ordinal: Ordinal) -> Option<&Arc<Record>> {
        self.entries
            .get(ordinal as usize)
            .map(|entry| &entry.record)
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Arc<Record>> {
        let index = self
            .entries
            .binary_search_by(|entry| entry.record.id.as_str().cmp(id))
            .ok()?;
        Some(&self.entries[index].record)
    }

    /// Resolves a request's filters once, before the ranking.
    pub(crate) fn allowed(
        &self,
        request: &SearchRequest,
        namespaces: Vec<&str>,
    ) -> Result<Allowed, KnowledgeError> {
        Ok(self.resolve(&Filter::of(request, namespaces)?))
    }

    /// The records that a condition holds for.
    pub(crate) fn allowed_where(&self, holds: &dyn Fn(&Record) -> bool) -> Allowed {
        self.bitmap(|entry| holds(&entry.record))
    }

    fn resolve(&self, filter: &Filter<'_>) -> Allowed {
        let is_every_namespace = filter.namespaces.len() >= self.facets.namespaces.len();
        if is_every_namespace
            && filter.record_type.is_none()
            && filter.tags.is_empty()
            && filter.from.is_none()
            && filter.to.is_none()
        {
            return Allowed::All;
        }
        self.bitmap(|entry| filter.lets_through(entry))
    }

    fn bitmap(&self, is_allowed: impl Fn(&Entry) -> bool) -> Allowed {
        let mut bits = vec![0; self.entries.len().div_ceil(64)];
        for (index, entry) in self.entries.iter().enumerate() {
            if is_allowed(entry) {
                bits[index / 64] |= 1 << (index % 64);
            }
        }
        Allowed::Only(bits)
    }
}

impl<'a> Filter<'a> {
    /// The filter of a request, within these namespaces in their order.
    pub(crate) fn of(
        request: &'a SearchRequest,
        namespaces: Vec<&'a str>,
    ) -> Result<Self, KnowledgeError> {
        Ok(Self {
            namespaces,
            record_type: request.record_type.as_deref(),
            tags: request.tags.iter().map(|tag| record::tag(tag)).collect(),
            from: bound("start", request.updated_from.as_deref(), DayEdge::First)?,
            to: bound("end", request.updated_to.as_deref(), DayEdge::Last)?,
        })
    }

    fn lets_through(&self, entry: &Entry) -> bool {
        let record = &entry.record;
        let in_range = match (self.from, self.to, entry.updated) {
            (None, None, _) => true,
            // A record without a date is in no range of dates.
            (Some(_), _, None) | (_, Some(_), None) => false,
            (from, to, Some(updated)) => {
                from.is_none_or(|from| updated >= from) && to.is_none_or(|to| updated <= to)
            }
        };
        in_range
            && (self.namespaces.binary_search(&record.namespace.as_str())).is_ok()
            && self
                .record_type
                .is_none_or(|wanted| record.record_type == wanted)
            && self.tags.iter().all(|tag| record.tags.contains(tag))
    }
}

/// The base's namespaces that a user may read; without a user, those that everybody may read.
pub(crate) fn namespaces_of<'a>(
    facets: &'a Facets,
    access: &Access,
    reader: Option<&KnowledgeReader>,
) -> impl Iterator<Item = &'a str> {
    let may_read = move |name: &&String| match reader {
        Some(reader) => access.may_read(reader, name),
        None => access.is_everybodys(name),
    };
    facets
        .namespaces
        .iter()
        .filter(may_read)
        .map(String::as_str)
}

/// The namespace that is searched where a request names none. The candidates are the namespaces that everybody may read; without any,
/// those that the user may read. `public` is taken if it is a candidate, else the first in order. Everybody's come first, also for
/// callers without a schema, because the schemas for models name them.
pub(crate) fn default_namespace<'a>(
    facets: &'a Facets,
    access: &Access,
    reader: Option<&KnowledgeReader>,
) -> &'a str {
    let usual_of = |reader| {
        let names = || namespaces_of(facets, access, reader);
        let public = names().find(|name| *name == DEFAULT_NAMESPACE);
        public.or_else(|| names().next())
    };
    usual_of(None)
        .or_else(|| usual_of(Some(reader?)))
        .unwrap_or(DEFAULT_NAMESPACE)
}

/// The namespace of that name, or the default one. A namespace that the user may not read counts as unknown.
pub(crate) fn readable<'a>(
    facets: &'a Facets,
    access: &Access,
    name: Option<&'a str>,
    reader: &KnowledgeReader,
) -> Result<&'a str, KnowledgeError> {
    let usual = default_namespace(facets, access, Some(reader));
    let namespace = name.unwrap_or(usual);
    let is_known = namespace == usual || facets.namespaces.iter().any(|known| known == namespace);
    if is_known && access.may_read(reader, namespace) {
        return Ok(namespace);
    }
    Err(KnowledgeError::UnknownNamespace {
        name: namespace.to_owned(),
        readable: namespaces_of(facets, access, Some(reader))
            .map(str::to_owned)
            .collect(),
    })
}

/// The base's namespaces that a user may read, without the searched one.
pub(crate) fn others<'a>(
    facets: &'a Facets,
    access: &Access,
    searched: &str,
    reader: &KnowledgeReader,
) -> Vec<&'a str> {
    namespaces_of(facets, access, Some(reader))
        .filter(|name| *name != searched)
        .collect()
}

/// Each namespace once, in the order of first occurrence, up to the number that an answer names.
pub(crate) fn named_namespaces<'a>(found: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in found {
        if names.len() < NAMED_NAMESPACES_MAX && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn bound(
    name: &str,
    text: Option<&str>,
    edge: DayEdge,
) -> Result<Option<Microseconds>, KnowledgeError> {
    let Some(text) = text else {
        return Ok(None);
    };
    date::parse(text, edge).map(Some).ok_or_else(|| {
        KnowledgeError::InvalidFilter(format!(
            "the {name} of the date range is no date: write 2024-05-31T18:00:00Z or 2024-05-31"
        ))
    })
}
