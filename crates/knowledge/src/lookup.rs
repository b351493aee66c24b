//! Fetches records by their ids, suggests near ones on a miss, and says which namespaces a user may read. Knows no
//! ranking of its own.

use crate::catalogue::Allowed;
use crate::index::IndexError;
use crate::near;
use crate::record::ID_BYTES_MAX;
use crate::search::{Base, unavailable};
use windlass_tool::handler::{GetRequest, KnowledgeError, Record};
use windlass_tool::id::UserId;

/// Ids that a look-up without success suggests.
const NEAR_IDS_MAX: usize = 5;

impl Base {
    /// The namespace of that name, or the default one. One that the user may not read is not there.
    pub(crate) fn readable<'a>(
        &'a self,
        name: Option<&'a str>,
        user: &UserId,
    ) -> Result<&'a str, KnowledgeError> {
        let namespace = self.catalogue.namespace(name)?;
        if self.access.may_read(user, namespace) {
            return Ok(namespace);
        }
        Err(KnowledgeError::UnknownNamespace(namespace.to_owned()))
    }

    pub(crate) fn get(
        &self,
        request: &GetRequest,
    ) -> Result<Result<Record, Vec<String>>, KnowledgeError> {
        let user = &request.user_id;
        let namespace = match &request.namespace {
            Some(name) => Some(self.readable(Some(name), user)?),
            None => None,
        };
        let is_in_reach = |record: &Record| match namespace {
            Some(namespace) => record.namespace == namespace,
            None => self.access.may_read(user, &record.namespace),
        };
        let found = self
            .catalogue
            .find(&request.id)
            .filter(|record| is_in_reach(record));
        match found {
            Some(record) => Ok(Ok(Record::clone(record))),
            None => self
                .near_ids(&request.id, &is_in_reach)
                .map(Err)
                .map_err(unavailable),
        }
    }

    /// The ids that may have been meant: first those that are spelt almost so, then those whose record has such words.
    fn near_ids(
        &self,
        id: &str,
        is_in_reach: &dyn Fn(&Record) -> bool,
    ) -> Result<Vec<String>, IndexError> {
        let wanted = &id[..id.floor_char_boundary(ID_BYTES_MAX)];
        let wanted = wanted.trim().to_lowercase().replace([' ', '-'], "_");
        let (_, wanted_name) = wanted.split_once(':').unwrap_or(("", &wanted));
        let distance_max = (wanted.len() / 5).clamp(1, 3);
        let mut near: Vec<(usize, &str)> = self
            .catalogue
            .records()
            .filter(|record| is_in_reach(record))
            .filter_map(|record| {
                let name = record.id.split_once(':').map_or("", |(_, name)| name);
                // The right name under another type is one step away, like the slightest misspelling.
                let distance = if name == wanted_name {
                    Some(1)
                } else {
                    near::distance(wanted.as_bytes(), record.id.as_bytes(), distance_max)
                };
                Some((distance?, record.id.as_str()))
            })
            .collect();
        near.sort_unstable();
        near.truncate(NEAR_IDS_MAX);
        let mut ids: Vec<String> = near.into_iter().map(|(_, id)| id.to_owned()).collect();
        let words = wanted_name.replace(['_', '.'], " ");
        let terms = self.understand(&words)?.terms;
        let allowed: Allowed = self.catalogue.allowed_where(is_in_reach);
        for ranked in self.index.rank(&terms, &allowed, NEAR_IDS_MAX)? {
            if let Some(record) = self.catalogue.record(ranked.ordinal)
                && ids.len() < NEAR_IDS_MAX
                && !ids.contains(&record.id)
            {
                ids.push(record.id.clone());
            }
        }
        Ok(ids)
    }
}
