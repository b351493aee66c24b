//! Checks the depth of a handler's result. Knows no tool.

use super::{Cause, Failure, HandlerResult, Loss};
use crate::depth::{DEPTH_MAX, dismantle, is_too_deep};
use crate::intent::Intent;

/// A result within the depth limit. A failure that is too deep becomes that of a broken handler; a success loses the parts that are too
/// deep.
pub fn judged(mut result: HandlerResult) -> HandlerResult {
    let mut is_deep = false;
    let intents = match &mut result {
        Ok(success) => {
            is_deep |= success.data.take_if(|data| data.was_too_deep()).is_some();
            &mut success.intents
        }
        Err(failure) => {
            if let Cause::Reported(report) = &mut failure.cause {
                is_deep |= report.details.as_ref().is_some_and(is_too_deep);
                if is_deep {
                    report.details.take().into_iter().for_each(dismantle);
                }
            }
            &mut failure.intents
        }
    };
    intents.retain_mut(|intent| match intent {
        Intent::Unknown(value) if is_too_deep(value) => {
            is_deep = true;
            dismantle(value.take());
            false
        }
        Intent::SetState { value, .. } if is_too_deep(value.expose()) => {
            is_deep = true;
            dismantle(value.0.take());
            false
        }
        _ => true,
    });
    if !is_deep {
        return result;
    }
    let problem = format!("its result is nested deeper than {DEPTH_MAX} levels; make it flatter");
    match result {
        Ok(success) => Ok(success.with_loss(Loss::breach(problem))),
        Err(_) => Err(Failure {
            cause: Cause::Broken(problem),
            intents: Vec::new(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;
    use crate::error::FailureKind;
    use crate::handler::{HandlerMessage, Report, Success};
    use serde_json::Value;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inside, level| match level % 2 {
            0 => Value::Array(vec![inside]),
            _ => Value::Object([("in".to_owned(), inside)].into_iter().collect()),
        })
    }

    fn check(result: HandlerResult, is_sound: bool) {
        let is_broken = match judged(result) {
            Ok(success) => success.loss.is_some_and(|loss| loss.breach.is_some()),
            Err(failure) => matches!(failure.cause, Cause::Broken(_)),
        };
        assert_eq!(!is_broken, is_sound);
    }

    #[test]
    fn a_result_of_any_depth_is_judged_and_dropped_without_going_into_it() {
        for (levels, is_sound) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false), (100_000, false)] {
            check(Ok(Success::new(nested(levels))), is_sound);
            check(
                Err(Report {
                    details: Some(nested(levels)),
                    ..Report::new(FailureKind::Permanent, "no")
                }
                .into()),
                is_sound,
            );
            check(
                Ok(Success {
                    intents: vec![Intent::Unknown(nested(levels))],
                    ..Success::default()
                }),
                is_sound,
            );
            for message in [
                HandlerMessage::Client(nested(levels)),
                HandlerMessage::Audit {
                    event: "e".into(),
                    data: nested(levels),
                },
            ] {
                assert_eq!(message.into_shallow().is_some(), is_sound);
            }
        }
        let data = Data::from(nested(100_000));
        assert_eq!(*data.clone(), Value::Null);
    }

    #[test]
    fn what_is_written_down_level_by_level_ends_at_the_limit() {
        assert!(Success::of(&nested(DEPTH_MAX)).is_ok());
        assert!(Success::of(&nested(DEPTH_MAX + 1)).is_err());
        let texts = vec!["[\"\\[{"; 2 * DEPTH_MAX];
        assert!(Success::of(&texts).is_ok());
    }
}
