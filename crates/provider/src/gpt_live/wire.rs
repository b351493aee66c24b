//! The server's events in their wire form, without their meaning.

use crate::message::{Count, Text, message};

message! {
    ServerEvent<'a> {
        kind: Text<'a> = "type",
        delta: Text<'a> = "delta",
        session: Session<'a> = "session",
        delegation: Delegation<'a> = "delegation",
        usage: Usage<'a> = "usage",
        reason: Text<'a> = "reason",
        error: ServerError<'a> = "error",
    }
    skips others
}

message! {
    Session<'a> {
        id: Text<'a> = "id",
    }
    skips others
}

message! {
    Delegation<'a> {
        id: Text<'a> = "id",
        target: Text<'a> = "target",
    }
    skips others
}

message! {
    Usage<'a> {
        seconds: Count = "seconds",
    }
    skips others
}

message! {
    ServerError<'a> {
        kind: Text<'a> = "type",
        code: Text<'a> = "code",
        param: Text<'a> = "param",
    }
    skips others
}

/// The text of a field; empty for a missing field.
pub(super) fn text<'t>(field: &'t Option<Text<'_>>) -> &'t str {
    field.as_ref().map_or("", |text| &*text.0)
}
