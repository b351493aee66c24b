//! Which calls of a response have come: each item comes in a frame of its own, and once more in the list at the response's
//! end. Knows no call of another response; whether one of those is a repeat is the core's to say.

use std::sync::Arc;

/// The calls of the newest response, by the place of each item where it was said, and its id.
#[derive(Debug, Default)]
pub(super) struct Items {
    response_id: String,
    calls: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    place: Option<u64>,
    id: Option<Arc<str>>,
    /// The list at the end has it, too.
    is_listed: bool,
}

impl Items {
    /// What comes next is of this response.
    pub(super) fn of(&mut self, response_id: &str) {
        if self.response_id != response_id {
            self.begin(response_id);
        }
    }

    pub(super) fn begin(&mut self, response_id: &str) {
        self.calls.clear();
        response_id.clone_into(&mut self.response_id);
    }

    /// A call comes in a frame of its own. True where it is news. Behind the response's end, only an id is that the list has
    /// not.
    pub(super) fn framed(
        &mut self,
        place: Option<u64>,
        id: Option<&Arc<str>>,
        is_late: bool,
    ) -> bool {
        let is_same = |item: &Item| item.id.as_ref() == id && (is_late || item.place == place);
        !self.calls.iter().any(is_same) && self.add(place, id, is_late)
    }

    /// A call comes in a frame of a service whose places say nothing. True where its id is news.
    pub(super) fn framed_by_id(&mut self, id: Option<&Arc<str>>) -> bool {
        !self.calls.iter().any(|item| item.id.as_ref() == id) && self.add(None, id, false)
    }

    /// A call stands in the list at the response's end. True where no frame had it.
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
