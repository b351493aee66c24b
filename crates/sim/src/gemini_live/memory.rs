//! The parts of a session that outlive its connection, and the handles that resume it. Knows no frames.

use crate::demo;
use crate::runner::ConnectionId;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use windlass_session::time::Timestamp;

/// A conversation in the model's memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    history: VecDeque<Said>,
    /// The number of entries that were dropped because the memory was full.
    forgotten: usize,
    pub(crate) turns: u32,
    pub(crate) results: BTreeMap<String, Value>,
    pub(crate) latest: Option<Value>,
    pub(crate) demo: demo::Model,
}

#[derive(Clone, Debug)]
struct Said {
    by_user: bool,
    text: String,
}

const HISTORY_MAX: usize = 400;
const RESULTS_MAX: usize = 64;

impl Memory {
    pub(crate) fn user_said(&mut self, text: &str) {
        self.push(true, text);
    }

    pub(crate) fn model_said(&mut self, text: &str) {
        self.push(false, text);
    }

    fn push(&mut self, by_user: bool, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.history.len() >= HISTORY_MAX {
            self.history.pop_front();
            self.forgotten += 1;
        }
        self.history.push_back(Said {
            by_user,
            text: text.to_owned(),
        });
    }

    pub(crate) fn record_result(&mut self, name: &str, response: &Value) {
        if self.results.len() < RESULTS_MAX || self.results.contains_key(name) {
            self.results.insert(name.to_owned(), response.clone());
        }
        self.latest = Some(response.clone());
    }

    pub(crate) fn characters(&self) -> usize {
        self.history.iter().map(|said| said.text.len()).sum()
    }

    /// The user's words before the input `heard`.
    pub(crate) fn remembered(&self, heard: &str) -> String {
        let mut texts: Vec<&str> = self
            .history
            .iter()
            .filter(|said| said.by_user)
            .map(|said| said.text.as_str())
            .collect();
        if texts.last() == Some(&heard) {
            texts.pop();
        }
        texts.join("; ")
    }

    fn length(&self) -> usize {
        self.forgotten + self.history.len()
    }

    /// Forgets the history after the creation of a handle.
    fn cut(&mut self, length: usize) {
        self.history.truncate(length.saturating_sub(self.forgotten));
    }
}

/// The lifetime of a handle after the end of its connection, as the service documents it.
const HANDLE_LIFE: Duration = Duration::from_secs(2 * 60 * 60);
const HANDLES_PER_SESSION_MAX: usize = 16;
const SESSIONS_MAX: usize = 10_000;

#[derive(Debug)]
struct Stored {
    model: String,
    memory: Memory,
    /// The number of each handle, and the length of the history at its creation.
    handles: VecDeque<(u32, usize)>,
    minted: u32,
    held_by: Option<ConnectionId>,
    released_at: Timestamp,
}

/// Every session that may be resumed.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    stored: BTreeMap<u64, Stored>,
    next: u64,
}

/// The reason why a handle is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleProblem {
    Unknown,
    /// The handle's connection is still open.
    Held,
    OtherModel,
}

impl Sessions {
    /// Begins a new session that can be resumed later.
    pub(crate) fn begin(&mut self, connection: ConnectionId, model: &str) -> u64 {
        self.next += 1;
        if self.stored.len() >= SESSIONS_MAX {
            let oldest = self
                .stored
                .iter()
                .find(|(_, stored)| stored.held_by.is_none());
            if let Some(key) = oldest.map(|(key, _)| *key) {
                self.stored.remove(&key);
            }
        }
        self.stored.insert(
            self.next,
            Stored {
                model: model.to_owned(),
                memory: Memory::default(),
                handles: VecDeque::new(),
                minted: 0,
                held_by: Some(connection),
                released_at: Timestamp::default(),
            },
        );
        self.next
    }

    /// A handle for the session's current state.
    pub(crate) fn mint(&mut self, session: u64, memory: &Memory) -> Option<String> {
        let stored = self.stored.get_mut(&session)?;
        stored.minted += 1;
        if stored.handles.len() >= HANDLES_PER_SESSION_MAX {
            stored.handles.pop_front();
        }
        stored.handles.push_back((stored.minted, memory.length()));
        Some(format!("sim-{session:08x}-{:04}", stored.minted))
    }

    /// Ends the connection; its memory is kept for a client that resumes.
    pub(crate) fn release(&mut self, session: u64, memory: Memory, now: Timestamp) {
        if let Some(stored) = self.stored.get_mut(&session) {
            stored.memory = memory;
            stored.held_by = None;
            stored.released_at = now;
        }
    }

    pub(crate) fn resume(
        &mut self,
        handle: &str,
        model: &str,
        connection: ConnectionId,
        now: Timestamp,
    ) -> Result<(u64, Memory), HandleProblem> {
        let (session, number) = parse(handle).ok_or(HandleProblem::Unknown)?;
        let stored = self
            .stored
            .get_mut(&session)
            .ok_or(HandleProblem::Unknown)?;
        let length = stored
            .handles
            .iter()
            .find(|(minted, _)| *minted == number)
            .map(|(_, length)| *length)
            .ok_or(HandleProblem::Unknown)?;
        if stored.held_by.is_some() {
            return Err(HandleProblem::Held);
        }
        if now.since(stored.released_at) > HANDLE_LIFE {
            self.stored.remove(&session);
            return Err(HandleProblem::Unknown);
        }
        if stored.model != model {
            return Err(HandleProblem::OtherModel);
        }
        stored.held_by = Some(connection);
        let mut memory = std::mem::take(&mut stored.memory);
        memory.cut(length);
        Ok((session, memory))
    }
}

fn parse(handle: &str) -> Option<(u64, u32)> {
    let (session, number) = handle.strip_prefix("sim-")?.split_once('-')?;
    Some((u64::from_str_radix(session, 16).ok()?, number.parse().ok()?))
}
