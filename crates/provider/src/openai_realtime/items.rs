//! The calls of a response that have come: each item comes in a frame of its own, and once more in the list at the response's
//! end. Knows no call of another response; the core recognizes repeats among those.

use std::sync::Arc;

/// The calls of the newest response, by each item's place in its frame, and its id.
#[derive(Debug, Default)]
pub(super) struct Items {
    response_id: String,
    calls: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    place: Option<u64>,
    id: Option<Arc<str>>,
    /// Whether the list at the end has the call, too.
    is_listed: bool,
}

impl Items {
    /// Begins this response, unless it is the current one.
    pub(super) fn of(&mut self, response_id: &str) {
        if self.response_id != response_id {
            self.begin(response_id);
        }
    }

    pub(super) fn begin(&mut self, response_id: &str) {
        self.calls.clear();
        response_id.clone_into(&mut self.response_id);
    }

    /// Adds a call from a frame of its own. Returns whether the call is new. After the response's end, only an id that the list
    /// lacks is new.
    pub(super) fn framed(
        &mut self,
        place: Option<u64>,
        id: Option<&Arc<str>>,
        is_late: bool,
    ) -> bool {
        let is_same = |item: &Item| item.id.as_ref() == id && (is_late || item.place == place);
        !self.calls.iter().any(is_same) && self.add(place, id, is_late)
    }

    /// Adds a call from a frame of a service whose places have no meaning. Returns whether its id is new.
    pub(super) fn framed_by_id(&mut self, id: Option<&Arc<str>>) -> bool {
        !self.calls.iter().any(|item| item.id.as_ref() == id) && self.add(None, id, false)
    }

    /// Adds a call from the list at the response's end. Returns whether no frame had the call.
    pub(super) fn listed(&mut self, id: Option<&Arc<str>>) -> bool {
        let mut items = self.calls.iter_mut();
        let known = items.find(|item| item.id.as_ref() == id && !item.is_listed);
        match known {
            Some(item) => {
                item.is_listed = true;
                false
            }
            None => self.add(None, id, true),
        }
    }

    fn add(&mut self, place: Option<u64>, id: Option<&Arc<str>>, is_listed: bool) -> bool {
        self.calls.push(Item {
            place,
            id: id.cloned(),
            is_listed,
        });
        true
    }
}
