//! `/api/tasks`: the tasks of a client, one task, and stopping one. Knows statuses and query parameters; the chat has the content.

use super::chat::{error, refused};
use super::ledger::answered;
use super::owner::{OwnersQuery, OwnersRequest, bad};
use super::{ServerState, typed};
use crate::chat::tasks::{TaskCursor, TasksRequest};
use crate::chat::{ChatRefusal, request};
use axum::body::Body;
use axum::extract::{Path, State as Extract};
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use windlass_contract::handler::TaskCancel;
use windlass_contract::id::{ConversationId, EffectId};

/// Tasks of a list: the usual number, and the most.
const LISTED: usize = 20;
const LISTED_MAX: usize = 100;
/// The answer about a task that the caller does not have, whether or not another caller has it.
const UNKNOWN: (&str, &str) = ("unknown_task", "there is no such task");

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    limit: Option<usize>,
    cursor: Option<String>,
    state: Option<String>,
    conversation_id: Option<String>,
    /// The user for whom a program speaks that vouches for users.
    user_id: Option<String>,
}

impl OwnersQuery for Asked {
    const PROBLEM: &str = "limit must be a whole number";

    fn user_id(&self) -> Option<&str> {
        self.user_id.as_deref()
    }
}

type Reading = OwnersRequest<Asked>;

fn wanted(asked: &Asked) -> Result<TasksRequest, String> {
    let conversation = match asked.conversation_id.as_deref() {
        Some(id) => {
            request::check_id(id).map_err(|problem| problem.to_string())?;
            Some(ConversationId::new(id))
        }
        None => None,
    };
    Ok(TasksRequest {
        tasks_max: match asked.limit {
            None => LISTED,
            Some(limit) if (1..=LISTED_MAX).contains(&limit) => limit,
            Some(_) => return Err(format!("limit must be 1 to {LISTED_MAX}")),
        },
        only_running: match asked.state.as_deref() {
            None | Some("all") => false,
            Some("running") => true,
            Some(_) => return Err("state is neither running nor all".to_owned()),
        },
        conversation,
        behind: match asked.cursor.as_deref() {
            None => None,
            Some(cursor) => {
                let cursor = TaskCursor::parse(cursor);
                Some(cursor.ok_or("cursor must be the next of an earlier answer")?)
            }
        },
    })
}

/// `GET /api/tasks`.
pub(super) async fn list(
    Extract(state): Extract<Arc<ServerState>>,
    reading: Reading,
) -> Response<Body> {
    let response = match wanted(&reading.asked) {
        Ok(wanted) => {
            let shown = state.chat.tasks(&reading.caller, wanted).await;
            let problem = "there is no such conversation";
            answered(shown, "unknown_conversation", problem)
        }
        Err(problem) => bad(&problem),
    };
    reading.entrance.finish(response)
}

fn id_of(id: String) -> Result<EffectId, ChatRefusal> {
    match request::check_id(&id) {
        Ok(()) => Ok(EffectId::new(id)),
        Err(_) => Err(ChatRefusal::Unknown),
    }
}

/// `GET /api/tasks/{id}`.
pub(super) async fn one(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    reading: Reading,
) -> Response<Body> {
    let conversation = reading.asked.conversation_id.as_deref();
    let shown = id_of(id).and_then(|id| state.chat.task(&reading.caller, &id, conversation));
    let (code, problem) = UNKNOWN;
    reading.entrance.finish(answered(shown, code, problem))
}

/// `POST /api/tasks/{id}/cancel`.
pub(super) async fn cancel(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    reading: Reading,
) -> Response<Body> {
    let conversation = reading.asked.conversation_id.as_deref();
    let cancelled = match id_of(id) {
        Ok(id) => {
            state
                .chat
                .cancel_task(&reading.caller, &id, conversation)
                .await
        }
        Err(refusal) => Err(refusal),
    };
    let response = match cancelled {
        Ok((task, outcome)) => {
            let (status, word) = match outcome {
                TaskCancel::Requested => (StatusCode::OK, "stopping"),
                TaskCancel::GivenUp => (StatusCode::OK, "given_up"),
                TaskCancel::Ended => (StatusCode::CONFLICT, "ended"),
            };
            let mut body = json!({"ok": status == StatusCode::OK, "outcome": word, "task": task});
            if outcome == TaskCancel::Ended {
                body["error"] = json!({"code": "task_ended", "message": "the task has ended"});
            }
            let mut answer = typed("application/json", body.to_string());
            *answer.status_mut() = status;
            answer
        }
        Err(ChatRefusal::Unknown) => error(StatusCode::NOT_FOUND, UNKNOWN.0, UNKNOWN.1),
        Err(refusal) => refused(&refusal),
    };
    reading.entrance.finish(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_bounded_and_goes_on_at_its_cursor() {
        let asked = |limit: Option<usize>, state: Option<&str>, cursor: Option<&str>| Asked {
            limit,
            state: state.map(str::to_owned),
            cursor: cursor.map(str::to_owned),
            ..Asked::default()
        };
        for (one, is_good) in [
            (asked(None, None, None), true),
            (asked(Some(100), Some("running"), Some("17.e-1")), true),
            (asked(Some(1), Some("all"), None), true),
            (asked(Some(0), None, None), false),
            (asked(Some(101), None, None), false),
            (asked(None, Some("done"), None), false),
            (asked(None, None, Some("e-1")), false),
            (asked(None, None, Some("x.e-1")), false),
        ] {
            let wanted = wanted(&one);
            assert_eq!(wanted.is_ok(), is_good, "{wanted:?}");
        }
    }
}
