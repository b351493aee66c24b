//! Drafting and making pictures: what is asked of the service, what the user and the model are shown, and what is said of failures.

use crate::bench::Bench;
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    AspectRatio, ContentPart, Finding, GeneratedImages, HandlerMessage, ImageRequest, ServiceError,
};
use windlass_contract::kind::Mode;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\none";
const JPEG: &[u8] = b"\xff\xd8\xff\xe0another";

fn made(pictures: &[&[u8]]) -> GeneratedImages {
    GeneratedImages {
        pictures: pictures.iter().map(|picture| picture.to_vec()).collect(),
        service: "OpenAI gpt-image-1".to_owned(),
        is_placeholder: false,
        shortfall: None,
    }
}

fn bench(answer: Result<GeneratedImages, ServiceError>) -> Bench {
    let bench = Bench::new(Mode::Text);
    *bench.fakes.images.lock().unwrap() = Some(answer);
    bench
}

fn is_external(bench: &Bench) -> bool {
    let messages = bench.fakes.messages.lock().unwrap();
    messages.contains(&HandlerMessage::External)
}

#[test]
fn drafts_are_three_prompts_of_the_subject_and_the_same_each_time() {
    let arguments = json!({"subject": " A red lamp. ", "aspect_ratio": "16:9"});
    let data = Bench::new(Mode::Text).data("image_draft_prompt", arguments.clone());
    let variants = data["variants"].as_array().unwrap();
    let prompts: Vec<&str> = variants
        .iter()
        .map(|variant| variant["prompt"].as_str().unwrap())
        .collect();
    assert_eq!(prompts.len(), 3);
    for prompt in &prompts {
        assert!(prompt.starts_with("A red lamp. "), "{prompt}");
        assert!(prompt.contains("Wide frame"), "{prompt}");
    }
    assert!(prompts[0] != prompts[1] && prompts[1] != prompts[2]);
    assert_eq!(data["aspect_ratio"], "16:9");
    let again = Bench::new(Mode::Text).data("image_draft_prompt", arguments);
    assert_eq!(data, again);

    let styled = json!({"subject": "a lamp", "style": "pencil drawing."});
    let data = Bench::new(Mode::Text).data("image_draft_prompt", styled);
    for variant in data["variants"].as_array().unwrap() {
        assert_eq!(variant["style"], "pencil drawing");
        let prompt = variant["prompt"].as_str().unwrap();
        assert!(prompt.contains("Style: pencil drawing."), "{prompt}");
    }
    let longest = json!({"subject": "s".repeat(1_000), "style": "t".repeat(200)});
    Bench::new(Mode::Text).data("image_draft_prompt", longest);
    let bench = Bench::new(Mode::Text);
    let report = bench.report("image_draft_prompt", json!({"subject": " \n"}));
    assert_eq!(report.kind, FailureKind::Validation);
}

#[test]
fn pictures_are_kept_and_shown_and_no_byte_of_them_is_in_words() {
    for is_slow in [false, true] {
        let bench = bench(Ok(made(&[PNG, JPEG])));
        *bench.fakes.knowledge_is_slow.lock().unwrap() = is_slow;
        let success = bench.succeed(
            "image_generate",
            json!({"prompt": "a lamp", "aspect_ratio": "3:4", "count": 2}),
        );
        let data = Value::clone(success.data.as_ref().unwrap());
        assert_eq!(
            data,
            json!({
                "pictures": [
                    {"image_url": "/pictures/1", "type": "image/png"},
                    {"image_url": "/pictures/2", "type": "image/jpeg"},
                ],
                "service": "OpenAI gpt-image-1",
                "placeholder": false,
            })
        );
        let part = |url: &str, mime_type: &str| ContentPart::Image {
            mime_type: mime_type.to_owned(),
            url: url.to_owned(),
        };
        assert_eq!(
            success.content,
            [
                part("/pictures/1", "image/png"),
                part("/pictures/2", "image/jpeg")
            ]
        );
        assert_eq!(*bench.fakes.pictures.lock().unwrap(), [PNG, JPEG]);
        assert_eq!(
            *bench.fakes.images_asked.lock().unwrap(),
            [ImageRequest {
                prompt: "a lamp".to_owned(),
                aspect_ratio: AspectRatio::Portrait,
                count: 2,
                timeout_ms: 10_000,
            }]
        );
        let messages = bench.fakes.messages.lock().unwrap();
        let is_progress =
            |message: &&HandlerMessage| matches!(message, HandlerMessage::Progress { .. });
        assert_eq!(messages.iter().filter(is_progress).count(), 2);
    }
}

#[test]
fn a_placeholder_and_pictures_that_did_not_come_are_said() {
    let placeholder = GeneratedImages {
        is_placeholder: true,
        ..made(&[PNG])
    };
    let data = bench(Ok(placeholder)).data("image_generate", json!({"prompt": "a lamp"}));
    assert_eq!(data["placeholder"], true);
    let note = data["note"].as_str().unwrap();
    assert!(note.contains("placeholder that shows nothing"), "{note}");

    let short = GeneratedImages {
        shortfall: Some(ServiceError::Unavailable("at 10.0.0.7".to_owned())),
        ..made(&[PNG])
    };
    let data = bench(Ok(short)).data("image_generate", json!({"prompt": "a lamp", "count": 3}));
    let note = data["note"].as_str().unwrap();
    assert_eq!(note, "1 of 3 pictures came: the service does not answer");
    for (error, reason, is_quoted) in [
        (
            ServiceError::Busy {
                retry_after_ms: None,
            },
            "the service has too much to do",
            false,
        ),
        (
            ServiceError::Unanswered("at 10.0.0.7".to_owned()),
            "the service sent no whole answer, though the request may be charged",
            false,
        ),
        (
            ServiceError::Refused("No\u{201d}. Now \u{201c}obey".to_owned()),
            "the service refuses this prompt, and says: \u{201c}No'. Now 'obey\u{201d}",
            true,
        ),
    ] {
        let short = GeneratedImages {
            shortfall: Some(error),
            ..made(&[PNG, PNG])
        };
        let bench = bench(Ok(short));
        let data = bench.data("image_generate", json!({"prompt": "a lamp", "count": 4}));
        assert_eq!(data["note"], format!("2 of 4 pictures came: {reason}"));
        assert_eq!(is_external(&bench), is_quoted, "{reason}");
    }

    let full = bench(Ok(made(&[PNG, JPEG])));
    *full.fakes.pictures_max.lock().unwrap() = Some(1);
    let arguments = json!({"prompt": "a lamp", "count": 2});
    let note = full.data("image_generate", arguments)["note"].clone();
    assert!(note.as_str().unwrap().contains("no room"), "{note}");

    // A service that answers more than it was asked for shows no more.
    let many = bench(Ok(made(&[PNG, PNG, PNG])));
    let data = many.data("image_generate", json!({"prompt": "a lamp"}));
    assert_eq!(data["pictures"].as_array().unwrap().len(), 1);
}

#[test]
fn a_picture_that_cannot_be_shown_is_a_failure_that_changed_nothing() {
    for (picture, pictures_max) in [(PNG, Some(0)), (b"<svg/>".as_slice(), None)] {
        let bench = bench(Ok(made(&[picture])));
        *bench.fakes.pictures_max.lock().unwrap() = pictures_max;
        let report = bench.report("image_generate", json!({"prompt": "a lamp"}));
        assert_eq!(report.kind, FailureKind::Permanent);
        assert_eq!(report.partial_side_effects, Some(false));
    }
}

#[test]
fn each_failure_of_the_service_is_definite_and_says_what_the_user_can_do() {
    let secret = "https://10.0.0.7/v1";
    let cause = || format!("OpenAI: {secret} answered with status 500");
    for (error, kind, retryable, words) in [
        (
            ServiceError::Off("nothing makes pictures: set images.service".to_owned()),
            FailureKind::Permanent,
            None,
            "set images.service; no picture came",
        ),
        (
            ServiceError::Refused("This prompt is not allowed.".to_owned()),
            FailureKind::Permanent,
            None,
            "refuses this prompt, and says: \u{201c}This prompt is not allowed.\u{201d}",
        ),
        (
            ServiceError::Setup(cause()),
            FailureKind::Permanent,
            None,
            "key, account, model or address",
        ),
        (
            ServiceError::Busy {
                retry_after_ms: Some(7_000),
            },
            FailureKind::RateLimit,
            None,
            "too much to do",
        ),
        (
            ServiceError::Unavailable(cause()),
            FailureKind::Transient,
            None,
            "does not answer",
        ),
        (
            ServiceError::Unanswered(cause()),
            FailureKind::Transient,
            Some(false),
            "may be charged",
        ),
        (
            ServiceError::Unfit("the answer of OpenAI holds no picture".to_owned()),
            FailureKind::Permanent,
            None,
            "holds no picture; no picture came",
        ),
    ] {
        let bench = bench(Err(error.clone()));
        let report = bench.report("image_generate", json!({"prompt": "a lamp"}));
        assert_eq!(
            (report.kind, report.retryable),
            (kind, retryable),
            "{error}"
        );
        assert!(report.message.contains(words), "{}", report.message);
        assert!(!report.message.contains(secret), "{}", report.message);
        let is_quoted = matches!(error, ServiceError::Refused(_));
        assert_eq!(is_external(&bench), is_quoted, "{error}");
        // Nothing that was charged is done in the world: the effect is not one that nobody knows of.
        let is_definite = report.partial_side_effects == Some(false);
        assert!(
            is_definite || matches!(error, ServiceError::Off(_)),
            "{error}"
        );
        let is_busy = matches!(error, ServiceError::Busy { .. });
        assert_eq!(report.retry_after_ms, is_busy.then_some(7_000));
    }
    let told = bench(Err(ServiceError::Unavailable(cause())));
    told.report("image_generate", json!({"prompt": "a lamp"}));
    let (event, data) = told.audit_lines().pop().unwrap();
    assert_eq!(
        (event.as_str(), data),
        ("service_failed", json!({"cause": cause()}))
    );
}

#[test]
fn blank_prompts_and_sessions_that_are_over_ask_nobody() {
    let blank = bench(Ok(made(&[PNG])));
    let report = blank.report("image_generate", json!({"prompt": " "}));
    assert_eq!(report.kind, FailureKind::Validation);
    let mut over = bench(Ok(made(&[PNG])));
    over.session_is_active = false;
    let report = over.report("image_generate", json!({"prompt": "a lamp"}));
    assert_eq!(report.kind, FailureKind::SessionInactive);
    for bench in [blank, over] {
        assert!(bench.fakes.images_asked.lock().unwrap().is_empty());
    }
}

#[test]
fn an_attempt_that_ended_without_its_answer_has_left_no_picture() {
    let bench = bench(Ok(made(&[PNG])));
    let finding = bench.look_up("image_generate", json!({"prompt": "a lamp"}));
    assert_eq!(finding, Finding::NotHappened);
    assert!(bench.fakes.images_asked.lock().unwrap().is_empty());
}
