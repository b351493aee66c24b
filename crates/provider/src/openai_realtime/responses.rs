//! The requests for a response of the model: one for each input, and none while a response is active. Knows the order of the
//! protocol's events; knows neither a response's contents nor its interrupters.

use std::collections::VecDeque;

/// Ended responses that are remembered, to recognize late and repeated events.
const OVER_MAX: usize = 4;

/// The one response that a conversation can have at a time, and the request that waits for its end.
#[derive(Debug, Default)]
pub(super) struct Responses {
    state: ResponseState,
    wanted: Option<Reason>,
    /// The reason of the last request, in case it is refused.
    asked_for: Option<Reason>,
    items_sent: u64,
    items_acknowledged: u64,
    /// The items that the last request was to answer, and how many of them the response that came instead has seen.
    asked_items: u64,
    seen_items: u64,
    user_speaks: bool,
    cancel_when_created: bool,
    /// Responses that are over, the newest last.
    over: VecDeque<String>,
    requests: u64,
}

#[derive(Debug, Default)]
enum ResponseState {
    #[default]
    Idle,
    /// Requested, and not yet begun.
    Asked,
    Active {
        /// The response's id; empty if the server never said it.
        id: String,
        is_void: bool,
    },
}

/// The reason for a request to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// Results of the model's calls are there; the turn goes on.
    Results,
    /// The user wants an answer, which begins a turn.
    Input,
}

impl Responses {
    /// Counts an item of ours that goes out. Returns its number.
    pub(super) fn item_sent(&mut self) -> u64 {
        self.items_sent += 1;
        self.items_sent
    }

    /// Counts an item of ours that the server has put into the conversation.
    pub(super) fn item_acknowledged(&mut self) {
        self.items_acknowledged = (self.items_acknowledged + 1).min(self.items_sent);
    }

    pub(super) fn want(&mut self, reason: Reason) {
        self.wanted = self.wanted.max(Some(reason));
    }

    pub(super) fn wants(&self) -> Option<Reason> {
        self.wanted
    }

    /// The number of the request to be sent now, if one is due.
    pub(super) fn take_request(&mut self) -> Option<u64> {
        if !matches!(self.state, ResponseState::Idle) || self.user_speaks {
            return None;
        }
        self.asked_for = Some(self.wanted.take()?);
        self.asked_items = self.items_sent;
        self.state = ResponseState::Asked;
        self.requests += 1;
        Some(self.requests)
    }

    /// Notes whether the user speaks. Meanwhile no response is requested: the server answers by itself afterwards.
    pub(super) fn user_speaks(&mut self, speaks: bool) {
        self.user_speaks = speaks;
    }

    /// Whether a beginning with this id is new: the response is neither over nor known to be active. Some servers have one id for
    /// all; then a beginning is new if a response was requested.
    pub(super) fn is_new(&self, id: &str) -> bool {
        let is_known = match &self.state {
            ResponseState::Active { id: active, .. } => active == id || self.is_over(id),
            ResponseState::Idle => self.is_over(id),
            ResponseState::Asked => false,
        };
        !id.is_empty() && !is_known
    }

    fn is_over(&self, id: &str) -> bool {
        self.over.iter().any(|over| over == id)
    }

    /// Whether an end with this id was read before.
    pub(super) fn is_ended_before(&self, id: &str) -> bool {
        let is_active =
            matches!(&self.state, ResponseState::Active { id: active, .. } if active == id);
        !id.is_empty() && !is_active && self.is_over(id)
    }

    /// A response has begun, at our request or not. Returns its id if it is to be cancelled at once.
    pub(super) fn created(&mut self, id: &str) -> Option<&str> {
        let is_void = std::mem::take(&mut self.cancel_when_created);
        self.over.retain(|over| over != id);
        self.seen_items = self.items_acknowledged;
        if self.seen_items >= self.items_sent {
            // The response has seen every item that needs an answer.
            self.wanted = None;
        }
        self.state = ResponseState::Active {
            id: id.to_owned(),
            is_void,
        };
        match &self.state {
            ResponseState::Active { id, is_void: true } => Some(id),
            ResponseState::Active { .. } | ResponseState::Idle | ResponseState::Asked => None,
        }
    }

    /// Notes a piece of a response, perhaps without the response's beginning, which some servers leave out. A piece without an id
    /// belongs to no response that could be awaited.
    pub(super) fn heard_of(&mut self, id: &str) {
        if !matches!(self.state, ResponseState::Active { .. })
            && !id.is_empty()
            && !self.is_over(id)
        {
            self.created(id);
        }
    }

    pub(super) fn is_active(&self) -> bool {
        matches!(self.state, ResponseState::Active { .. })
    }

    pub(super) fn is_void(&self, id: &str) -> bool {
        match &self.state {
            ResponseState::Active {
                id: active,
                is_void,
            } => *is_void && (active.is_empty() || active == id),
            ResponseState::Idle | ResponseState::Asked => {
                self.over.back().is_some_and(|over| over == id)
            }
        }
    }

    /// Makes later pieces of the active response void, because the server ends it. Returns whether a response was active.
    pub(super) fn void(&mut self) -> bool {
        match &mut self.state {
            ResponseState::Active { is_void, .. } => {
                *is_void = true;
                true
            }
            ResponseState::Idle | ResponseState::Asked => false,
        }
    }

    /// Gives up the active or requested response. Returns the id that has to be cancelled.
    pub(super) fn give_up(&mut self) -> Option<&str> {
        match &mut self.state {
            ResponseState::Active { is_void: true, .. } | ResponseState::Idle => None,
            ResponseState::Asked => {
                // A cancellation before the response's beginning would be lost.
                self.cancel_when_created = true;
                None
            }
            ResponseState::Active { id, is_void } => {
                *is_void = true;
                Some(id)
            }
        }
    }

    pub(super) fn done(&mut self, id: &str) {
        let active = match std::mem::take(&mut self.state) {
            ResponseState::Active { id, .. } => Some(id).filter(|id| !id.is_empty()),
            ResponseState::Idle | ResponseState::Asked => None,
        };
        self.cancel_when_created = false;
        self.asked_for = None;
        let over = if id.is_empty() {
            active
        } else {
            Some(id.to_owned())
        };
        if let Some(over) = over {
            if self.over.len() == OVER_MAX {
                self.over.pop_front();
            }
            self.over.push_back(over);
        }
    }

    /// The server has nothing to cancel. If the active response had been given up, it is over; returns whether it had.
    pub(super) fn nothing_to_cancel(&mut self) -> bool {
        let is_void = matches!(self.state, ResponseState::Active { is_void: true, .. });
        if is_void {
            self.done("");
        }
        is_void
    }

    /// Forgets the state of the response. A request without a response is repeated. If a response is active after all, the server
    /// refuses the next request, and that refusal is understood.
    pub(super) fn resynchronize(&mut self) {
        if let ResponseState::Asked = std::mem::take(&mut self.state)
            && let Some(reason) = self.asked_for.take()
        {
            self.want(reason);
        }
        self.user_speaks = false;
        self.cancel_when_created = false;
    }

    /// The server refused the request because another response is active.
    pub(super) fn refused_for_another(&mut self) {
        if self.seen_items < self.asked_items
            && let Some(reason) = self.asked_for.take()
        {
            self.want(reason);
        }
        if matches!(self.state, ResponseState::Asked) {
            self.state = ResponseState::Active {
                id: String::new(),
                is_void: false,
            };
        }
    }

    /// The server refused the request for good. Returns whether one was open.
    pub(super) fn refused(&mut self) -> bool {
        let was_asked = matches!(self.state, ResponseState::Asked);
        if was_asked {
            self.state = ResponseState::Idle;
            self.asked_for = None;
            self.cancel_when_created = false;
        }
        was_asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a script, one word per event, and marks each request with `!`.
    fn played(script: &str) -> String {
        let mut responses = Responses::default();
        let mut log = String::new();
        for word in script.split_whitespace() {
            match word {
                "item" => {
                    responses.item_sent();
                }
                "ack" => responses.item_acknowledged(),
                "results" => responses.want(Reason::Results),
                "input" => responses.want(Reason::Input),
                "speaks" => responses.user_speaks(true),
                "silent" => responses.user_speaks(false),
                "busy" => responses.refused_for_another(),
                "refused" => {
                    responses.refused();
                }
                "resync" => responses.resynchronize(),
                "no-such" => {
                    responses.nothing_to_cancel();
                }
                "give-up" => {
                    if let Some(id) = responses.give_up() {
                        log.push_str(&format!("x{id}"));
                    }
                }
                other => match other.split_at(1) {
                    ("+", id) => {
                        if responses.is_new(id)
                            && let Some(id) = responses.created(id)
                        {
                            log.push_str(&format!("x{id}"));
                        }
                    }
                    ("~", id) => responses.heard_of(id),
                    ("-", id) => responses.done(id),
                    _ => panic!("no word {other}"),
                },
            }
            if responses.take_request().is_some() {
                log.push('!');
            }
            log.push('.');
        }
        log
    }

    #[test]
    fn one_response_is_asked_for_at_a_time() {
        for (script, expected) in [
            // The plain case, and two requests in one.
            ("item input ack +a -a", ".!...."),
            ("item results item results ack ack +a -a", ".!......."),
            // A request during a response waits for its end.
            ("+a item ack results -a +b -b", "....!..."),
            // A response of the server's own that has seen the item makes ours needless.
            ("speaks item ack results silent", "....!."),
            ("speaks item results ack +v silent -v", "......."),
            // A response that began before the item does not.
            ("+v item results ack -v", "....!."),
            // The race: the server's own response begins while our request is under way.
            ("item input +v busy ack -v", ".!....!."),
            ("item ack input +v busy -v", "..!...."),
            // A response that was not announced to us.
            ("item input busy ack -v", ".!...!."),
            // A failed response may come without its beginning.
            ("item input -a item input", ".!...!."),
            ("item input refused item input", ".!...!."),
            // Some servers never say that a response begins.
            ("~a item results -a", "...!."),
            ("-a ~a item results", "...!."),
            // A response given up before and after it began.
            ("item input give-up +a -a", ".!..xa.."),
            ("+a give-up give-up -a", ".xa..."),
            // A response that is believed active and is not.
            ("+a give-up item input no-such", ".xa...!."),
            ("+a item input resync", "...!."),
            ("+a no-such item input", "...."),
            // A lost request, or a lost end of the user's speech.
            ("item input resync +b -b", ".!.!..."),
            ("speaks item input resync", "...!."),
            // A response that is over does not come back.
            ("+a -a +a item input", "....!."),
            ("+a -a ~a item input", "....!."),
            // An end without an id ends the active response.
            ("+a - ~a item input", "....!."),
            // A piece without an id says nothing of the active response.
            ("+ ~ item input", "...!."),
        ] {
            assert_eq!(played(script), expected, "{script}");
        }
    }
}
