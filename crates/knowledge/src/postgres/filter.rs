//! The filters of a search as a condition on a record.

/// A condition that holds for a record `r` that passes the filters, which are five parameters from `first` on.
pub(super) fn condition(first: usize) -> String {
    let [namespaces, record_type, tags, from, to] = [0, 1, 2, 3, 4].map(|place| first + place);
    format!(
        "r.namespace = ANY(${namespaces}) AND (${record_type}::text IS NULL OR r.type = ${record_type}) \
         AND r.tags @> ${tags} AND (${from}::bigint IS NULL OR r.updated >= ${from}) \
         AND (${to}::bigint IS NULL OR r.updated <= ${to})"
    )
}
