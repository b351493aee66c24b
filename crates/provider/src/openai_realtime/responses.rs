//! When the model is asked for a response: once for what it is to answer, and never while one is active. Knows the order of
//! the protocol's events; knows neither what a response says nor who interrupts it.

use std::collections::VecDeque;

/// How many responses that are over are remembered, to know what comes late or twice.
const OVER_MAX: usize = 4;

/// The one response that a conversation can have at a time, and what waits for it to end.
#[derive(Debug, Default)]
pub(super) struct Responses {
    state: ResponseState,
    wanted: Option<Reason>,
    /// What the last request was for, in case it is refused.
    asked_for: Option<Reason>,
    items_sent: u64,
    items_acknowledged: u64,
    /// What the last request was to answer, and what of it the response that came instead has seen.
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
    /// Asked for, and not yet there.
    Asked,
    Active {
        /// Empty where the server never said.
        id: String,
        is_void: bool,
    },
}

/// Why the model is to say something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// Results of its calls are there; the turn goes on.
    Results,
    /// The user wants an answer, which begins a turn.
    Input,
}

impl Responses {
    /// An item of ours goes out, and is given this number.
    pub(super) fn item_sent(&mut self) -> u64 {
        self.items_sent += 1;
        self.items_sent
    }

    /// The server has put an item of ours into the conversation.
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

    /// While the user speaks nothing is asked for: the server answers by itself when they have ended.
    pub(super) fn user_speaks(&mut self, speaks: bool) {
        self.user_speaks = speaks;
    }

    /// Whether a beginning with this id says something new: not of a response that is over or known to be active. Some servers
    /// have one id for all; then it is new where one was asked for.
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

    /// A response has begun, at our request or not. Returns its id where it is to be cancelled at once.
    pub(super) fn created(&mut self, id: &str) -> Option<&str> {
        let is_void = std::mem::take(&mut self.cancel_when_created);
        self.over.retain(|over| over != id);
        self.seen_items = self.items_acknowledged;
        if self.seen_items >= self.items_sent {
            // It has all that there is to answer before it.
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

    /// Something of this response came, perhaps without its beginning, which some servers leave out. Without an id it is of
    /// none that could be waited for.
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

    /// What still comes of the active response is void, because the server ends it. True where one was active.
    pub(super) fn void(&mut self) -> bool {
        match &mut self.state {
            ResponseState::Active { is_void, .. } => {
                *is_void = true;
                true
            }
            ResponseState::Idle | ResponseState::Asked => false,
        }
    }

    /// Gives up the response that is active or asked for. Returns the id under which it has to be cancelled.
    pub(super) fn give_up(&mut self) -> Option<&str> {
        match &mut self.state {
            ResponseState::Active { is_void: true, .. } | ResponseState::Idle => None,
            ResponseState::Asked => {
                // A cancellation before it has begun would be lost.
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

    /// The server has nothing to cancel. True where a response that was given up was believed to be active: it is over.
    pub(super) fn nothing_to_cancel(&mut self) -> bool {
        let is_void = matches!(self.state, ResponseState::Active { is_void: true, .. });
        if is_void {
            self.done("");
        }
        is_void
    }

    /// Forgets what is believed to be under way. What was asked for and never came is wanted still. If the belief was right
    /// after all, the server refuses the next request, and that is understood.
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

    /// The server refused the request for good. True where one was open.
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

    /// Plays what happens, a word each, and collects where requests went out: `!`.
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
            // One that had begun before the item does not.
            ("+v item results ack -v", "....!."),
            // The race: the server's own response begins while our request is under way.
            ("item input +v busy ack -v", ".!....!."),
            ("item ack input +v busy -v", "..!...."),
            // A response that we know nothing of.
            ("item input busy ack -v", ".!...!."),
            // A failed response may come without its beginning.
            ("item input -a item input", ".!...!."),
            ("item input refused item input", ".!...!."),
            // Some servers never say that a response begins.
            ("~a item results -a", "...!."),
            ("-a ~a item results", "...!."),
            // Given up before and after it began.
            ("item input give-up +a -a", ".!..xa.."),
            ("+a give-up give-up -a", ".xa..."),
            // A response that is believed active and is not.
            ("+a give-up item input no-such", ".xa...!."),
            ("+a item input resync", "...!."),
            ("+a no-such item input", "...."),
            // A request, or the user's silence, that got lost.
            ("item input resync +b -b", ".!.!..."),
            ("speaks item input resync", "...!."),
            // What is over does not come back.
            ("+a -a +a item input", "....!."),
            ("+a -a ~a item input", "....!."),
            // An end without an id is of what is active.
            ("+a - ~a item input", "....!."),
            // What has no id says nothing of what is active.
            ("+ ~ item input", "...!."),
        ] {
            assert_eq!(played(script), expected, "{script}");
        }
    }
}
