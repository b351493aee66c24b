//! Fetches records by their ids, suggests near ids for an unknown one, and lists the namespaces that a user may read. Has no ranking of
//! its own.

use crate::catalogue::{self, Allowed};
use crate::index::IndexError;
use crate::near;
use crate::record::{self, ID_BYTES_MAX};
use crate::search::{Base, unavailable};
use windlass_contract::handler::{GetRequest, KnowledgeError, KnowledgeReader, Record};

/// The most ids that a failed look-up suggests.
pub(crate) const NEAR_IDS_MAX: usize = 5;

impl Base {
    /// The namespace of that name, or the default one. A namespace that the user may not read counts as unknown.
    pub(crate) fn readable<'a>(
        &'a self,
        name: Option<&'a str>,
        reader: &KnowledgeReader,
    ) -> Result<&'a str, KnowledgeError> {
        catalogue::readable(self.catalogue.facets(), &self.access, name, reader)
    }

    pub(crate) fn get(
        &self,
        request: &GetRequest,
    ) -> Result<Result<Record, Vec<String>>, KnowledgeError> {
        let reader = &request.reader;
        let namespace = match &request.namespace {
            Some(name) => Some(self.readable(Some(name), reader)?),
            None => None,
        };
        let is_in_reach = |record: &Record| match namespace {
            Some(namespace) => record.namespace == namespace,
            None => self.access.may_read(reader, &record.namespace),
        };
        let found = self
            .catalogue
            .find(&record::id(&request.id))
            .filter(|record| is_in_reach(record));
        match found {
            Some(record) => Ok(Ok(Record::clone(record))),
            None => self
                .near_ids(&request.id, &is_in_reach)
                .map(Err)
                .map_err(unavailable),
        }
    }

    /// The ids that may have been meant: first those with a similar spelling, then those whose record has such words.
    fn near_ids(
        &self,
        id: &str,
        is_in_reach: &dyn Fn(&Record) -> bool,
    ) -> Result<Vec<String>, IndexError> {
        let wanted = WantedId::of(id);
        let reachable = self
            .catalogue
            .records()
            .filter(|record| is_in_reach(record));
        let mut ids = wanted.spelt_almost_so(reachable.map(|record| record.id.as_str()));
        let allowed: Allowed = self.catalogue.allowed_where(is_in_reach);
        let terms = self.understand(&wanted.words(), &allowed)?.terms;
        for ranked in self.index.rank(&terms, &allowed, NEAR_IDS_MAX)? {
            if let Some(record) = self.catalogue.record(ranked.ordinal) {
                add_near(&mut ids, &record.id);
            }
        }
        Ok(ids)
    }
}

/// A requested id that does not exist, as far as it can be read.
pub(crate) struct WantedId(String);

impl WantedId {
    pub(crate) fn of(id: &str) -> Self {
        let wanted = &id[..id.floor_char_boundary(ID_BYTES_MAX)];
        Self(wanted.trim().to_lowercase().replace([' ', '-'], "_"))
    }

    fn name(&self) -> &str {
        self.0.split_once(':').map_or(&self.0, |(_, name)| name)
    }

    /// The id's name as a question.
    pub(crate) fn words(&self) -> String {
        self.name().replace(['_', '.'], " ")
    }

    /// The ids that differ in a few letters, the nearest first.
    pub(crate) fn spelt_almost_so<'a>(&self, ids: impl Iterator<Item = &'a str>) -> Vec<String> {
        let distance_max = (self.0.len() / 5).clamp(1, 3);
        let mut near: Vec<(usize, &str)> = ids
            .filter_map(|id| {
                let name = id.split_once(':').map_or("", |(_, name)| name);
                // The right name under another type counts as one step, like the slightest misspelling.
                let distance = if name == self.name() {
                    Some(1)
                } else {
                    near::distance(&self.0, id, distance_max)
                };
                Some((distance?, id))
            })
            .collect();
        near.sort_unstable();
        near.truncate(NEAR_IDS_MAX);
        near.into_iter().map(|(_, id)| id.to_owned()).collect()
    }
}

/// Adds an id to the suggestions, if it is new and there is room.
pub(crate) fn add_near(ids: &mut Vec<String>, id: &str) {
    if ids.len() < NEAR_IDS_MAX && !ids.iter().any(|known| known == id) {
        ids.push(id.to_owned());
    }
}
