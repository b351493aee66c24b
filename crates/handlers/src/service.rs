//! Failures of an outside service, in words for the model. Knows no service. Causes of outages are for operators only.

use crate::capability::mark_external;
use crate::outcome::{report, without_effect};
use serde_json::json;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Context, Report, ServiceError};

/// A tool's request to a service, as its failures name it.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    /// The thing asked for, as in "this prompt".
    pub(crate) request: &'static str,
    /// The missing result, as in "no picture was made"; `None` where a part of it was made.
    pub(crate) undone: Option<&'static str>,
    /// Whether a request without an answer may have cost something.
    pub(crate) is_charged: bool,
}

/// Reports a service's error. The service's own words count as external content.
pub(crate) fn service_report(error: &ServiceError, task: Task, context: &Context) -> Box<Report> {
    let Task {
        request,
        undone,
        is_charged,
    } = task;
    let definite = |kind: FailureKind, message: String| Report {
        partial_side_effects: Some(false),
        ..Report::new(kind, message)
    };
    let told = |text: &str| match undone {
        Some(undone) => format!("{text}; {undone}"),
        None => text.to_owned(),
    };
    match error {
        ServiceError::Off(text) => report(FailureKind::Permanent, told(text)),
        ServiceError::Refused(reason) => {
            if let Err(closed) = mark_external(context) {
                return closed;
            }
            // The service's text cannot end the quotation.
            let reason = reason.replace(['\u{201c}', '\u{201d}'], "'");
            Box::new(Report {
                suggestion: Some(
                    "Tell the user why. Call again only if the user wants something else."
                        .to_owned(),
                ),
                ..definite(
                    FailureKind::Permanent,
                    format!("the service refuses {request}, and says: \u{201c}{reason}\u{201d}"),
                )
            })
        }
        ServiceError::Setup(cause) => {
            note(context, cause);
            Box::new(definite(
                FailureKind::Permanent,
                told(
                    "the service does not work as this server is set up, by its key, account, model or address",
                ),
            ))
        }
        ServiceError::Busy { retry_after_ms } => Box::new(Report {
            retry_after_ms: *retry_after_ms,
            ..definite(
                FailureKind::RateLimit,
                told("the service has too much to do"),
            )
        }),
        ServiceError::Unavailable(cause) => {
            note(context, cause);
            without_effect(told("the service does not answer"))
        }
        ServiceError::Unanswered(cause) => {
            note(context, cause);
            let charged = match is_charged {
                true => ", though the request may be charged",
                false => "",
            };
            Box::new(Report {
                // Another attempt costs again; the user decides about it.
                retryable: is_charged.then_some(false),
                ..definite(
                    FailureKind::Transient,
                    told("the service sent no whole answer") + charged,
                )
            })
        }
        ServiceError::Unfit(text) => {
            note(context, text);
            Box::new(definite(FailureKind::Permanent, told(text)))
        }
    }
}

fn note(context: &Context, cause: &str) {
    // The caller's answer stays the same when the audit is closed.
    let _ = context.audit("service_failed", json!({"cause": cause}));
}
