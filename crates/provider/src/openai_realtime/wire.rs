//! The server's events as they are written. Lenient: a value of a wrong type counts as missing, and fields of no interest are
//! skipped.

use crate::message::{Count, List, PassedOver, Path, Shape, Text, leaf, message};
use serde::de::{IgnoredAny, MapAccess, SeqAccess};
use std::borrow::Cow;

message! {
    ServerEvent<'a> {
        kind: Text<'a> = "type",
        response_id: Text<'a> = "response_id",
        item_id: Text<'a> = "item_id",
        output_index: Count = "output_index",
        delta: Text<'a> = "delta",
        call_id: Text<'a> = "call_id",
        name: Text<'a> = "name",
        arguments: Arguments<'a> = "arguments",
        transcript: Text<'a> = "transcript",
        status: Text<'a> = "status",
        item: Item<'a> = "item",
        response: Response<'a> = "response",
        session: Session<'a> = "session",
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
    Item<'a> {
        id: Text<'a> = "id",
        kind: Text<'a> = "type",
        status: Text<'a> = "status",
        call_id: Text<'a> = "call_id",
        name: Text<'a> = "name",
        arguments: Arguments<'a> = "arguments",
    }
    skips others
}

message! {
    Response<'a> {
        id: Text<'a> = "id",
        status: Text<'a> = "status",
        status_details: Details<'a> = "status_details",
        output: List<Item<'a>> = "output",
        usage: Usage<'a> = "usage",
    }
    skips others
}

/// The cause of a response's end. xAI sends the same word with every response, which means nothing.
#[derive(Debug)]
pub(super) enum Details<'a> {
    Said(StatusDetails<'a>),
    Word,
}

impl<'a> Details<'a> {
    pub(super) fn said(&self) -> Option<&StatusDetails<'a>> {
        match self {
            Self::Said(details) => Some(details),
            Self::Word => None,
        }
    }
}

impl<'de> Shape<'de> for Details<'de> {
    fn of_text(_: Cow<'de, str>) -> Option<Self> {
        Some(Self::Word)
    }

    fn of_object<A: MapAccess<'de>>(object: A, place: &mut Option<Self>) -> Result<(), A::Error> {
        let mut details = None;
        StatusDetails::of_object(object, &mut details)?;
        *place = details.map(Self::Said);
        Ok(())
    }
}

impl PassedOver for Details<'_> {
    fn is_whole(&self) -> bool {
        self.said().is_none_or(StatusDetails::is_whole)
    }

    fn passed_over(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
        if let Self::Said(details) = self {
            details.passed_over(path, report);
        }
    }
}

message! {
    StatusDetails<'a> {
        reason: Text<'a> = "reason",
        error: ServerError<'a> = "error",
    }
    skips others
}

message! {
    ServerError<'a> {
        kind: Text<'a> = "type",
        code: Text<'a> = "code",
        param: Text<'a> = "param",
        // The id of our event that the error is about.
        event_id: Text<'a> = "event_id",
    }
    skips others
}

message! {
    Usage<'a> {
        total_tokens: Count = "total_tokens",
        input_tokens: Count = "input_tokens",
        output_tokens: Count = "output_tokens",
        input_token_details: InputTokens<'a> = "input_token_details",
    }
    skips others
}

message! {
    InputTokens<'a> {
        cached_tokens: Count = "cached_tokens",
    }
    skips others
}

/// The arguments of a call: a text that holds an object. A value of any other type is unfit, which the model is told; no call
/// runs with arguments that the model did not give.
#[derive(Debug)]
pub(super) enum Arguments<'a> {
    Text(Cow<'a, str>),
    Unfit,
}

leaf!(Arguments<'_>);

impl<'de> Shape<'de> for Arguments<'de> {
    fn of_text(text: Cow<'de, str>) -> Option<Self> {
        Some(Self::Text(text))
    }

    fn of_flag(_: bool) -> Option<Self> {
        Some(Self::Unfit)
    }

    fn of_number(_: u64) -> Option<Self> {
        Some(Self::Unfit)
    }

    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Some(Self::Unfit))
    }

    fn of_object<A: MapAccess<'de>>(
        mut object: A,
        place: &mut Option<Self>,
    ) -> Result<(), A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        *place = Some(Self::Unfit);
        Ok(())
    }
}

/// The text of a field; empty for a missing field.
pub(super) fn text<'t>(field: &'t Option<Text<'_>>) -> &'t str {
    field.as_ref().map_or("", |text| &*text.0)
}
