//! Showing pictures that there are already: of allowed hosts, of the knowledge base, and of calls before.

use crate::bench::{Bench, record};
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    ContentPart, FetchError, HandlerMessage, HttpAnswer, IncompleteBody, Record, Redirects,
};
use windlass_contract::kind::Mode;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\none";
const ADDRESS: &str = "https://shop.example/lamp.png";

fn answered(status: u16, content_type: Option<&str>, body: &[u8]) -> HttpAnswer {
    let headers = content_type.map(|said| ("content-type".to_owned(), said.to_owned()));
    HttpAnswer {
        status,
        url: ADDRESS.to_owned(),
        headers: headers.into_iter().collect(),
        body: Ok(body.to_vec()),
    }
}

fn bench_of_host(answer: Result<HttpAnswer, FetchError>) -> Bench {
    let bench = Bench::new(Mode::Voice);
    bench.fakes.hosts.lock().unwrap().push_back(answer);
    bench
}

fn is_external(bench: &Bench) -> bool {
    let messages = bench.fakes.messages.lock().unwrap();
    messages.contains(&HandlerMessage::External)
}

fn part(url: &str) -> ContentPart {
    ContentPart::Image {
        mime_type: "image/png".to_owned(),
        url: url.to_owned(),
    }
}

#[test]
fn a_picture_of_an_allowed_host_is_fetched_kept_and_shown_from_here() {
    for said in [
        Some("image/png"),
        Some("IMAGE/PNG; x=y"),
        None,
        Some("application/octet-stream"),
    ] {
        let bench = bench_of_host(Ok(answered(200, said, PNG)));
        let success = bench.succeed(
            "send_image",
            json!({"image_url": ADDRESS, "caption": " The lamp "}),
        );
        let data = Value::clone(success.data.as_ref().unwrap());
        assert_eq!(data, json!({"shown": true, "image_url": "/pictures/1"}));
        assert_eq!(success.content, [part("/pictures/1")]);
        assert_eq!(
            bench.client_messages(),
            [json!({"type": "image", "url": "/pictures/1", "caption": "The lamp"})]
        );
        assert!(is_external(&bench), "what stands in it is a stranger's");
        let asked = bench.fakes.hosts_asked.lock().unwrap();
        assert_eq!(
            (asked[0].method.as_str(), asked[0].url.as_str()),
            ("GET", ADDRESS)
        );
        assert_eq!(asked[0].redirects, Redirects::Keep);
        assert_eq!(asked[0].timeout_ms, 10_000);
    }
}

#[test]
fn what_is_no_picture_or_not_allowed_is_not_shown() {
    let large: Vec<u8> = PNG.iter().copied().chain(vec![0; 8 << 20]).collect();
    let broken = HttpAnswer {
        body: Err(IncompleteBody {
            beginning: PNG.to_vec(),
            problem: "the answer is longer than 8388608 bytes".to_owned(),
        }),
        ..answered(200, Some("image/png"), PNG)
    };
    for (answer, kind, words) in [
        (
            Err(FetchError::Refused(
                "shop.example is at 10.0.0.7, which is private; list that address itself"
                    .to_owned(),
            )),
            FailureKind::Permanent,
            "handlers.allow_fetch",
        ),
        (
            Err(FetchError::Unreachable("10.0.0.7 is down".to_owned())),
            FailureKind::Transient,
            "does not answer",
        ),
        (
            Err(FetchError::Unanswered("10.0.0.7 is slow".to_owned())),
            FailureKind::Transient,
            "does not answer",
        ),
        (
            Ok(answered(302, None, b"")),
            FailureKind::Permanent,
            "another place",
        ),
        (
            Ok(answered(404, None, b"")),
            FailureKind::NotFound,
            "no picture",
        ),
        (
            Ok(answered(500, None, b"")),
            FailureKind::Transient,
            "not give it now",
        ),
        (Ok(broken), FailureKind::Permanent, "did not come whole"),
        (
            Ok(answered(200, Some("image/png"), &large)),
            FailureKind::Permanent,
            "8388608",
        ),
        (
            Ok(answered(200, Some("image/jpeg"), PNG)),
            FailureKind::Permanent,
            "another type",
        ),
        (
            Ok(answered(200, Some("text/html"), b"<html>")),
            FailureKind::Permanent,
            "another type",
        ),
        (
            Ok(answered(200, None, b"<svg/>")),
            FailureKind::Permanent,
            "no PNG",
        ),
    ] {
        let bench = bench_of_host(answer);
        let report = bench.report("send_image", json!({"image_url": ADDRESS}));
        assert_eq!(report.kind, kind, "{}", report.message);
        assert!(report.message.contains(words), "{}", report.message);
        assert!(!report.message.contains("10.0.0.7"), "{}", report.message);
        assert_eq!(bench.client_messages(), [] as [Value; 0]);
        assert!(bench.fakes.pictures.lock().unwrap().is_empty());
        assert!(is_external(&bench), "{}", report.message);
    }
    let cause = "shop.example is at 10.0.0.7".to_owned();
    let refused = bench_of_host(Err(FetchError::Refused(cause.clone())));
    refused.report("send_image", json!({"image_url": ADDRESS}));
    let (event, data) = refused.audit_lines().pop().unwrap();
    assert_eq!(
        (event.as_str(), data),
        ("picture_not_fetched", json!({"cause": cause}))
    );
    let full = bench_of_host(Ok(answered(200, None, PNG)));
    *full.fakes.pictures_max.lock().unwrap() = Some(0);
    let report = full.report("send_image", json!({"image_url": ADDRESS}));
    assert!(report.message.contains("no room"), "{}", report.message);
}

#[test]
fn an_address_that_is_not_public_or_carries_more_than_a_path_asks_nobody() {
    for other in [
        "javascript://alert(1)",
        "file:///etc/passwd",
        "data://x",
        "http://shop.example/lamp.png",
        "https://",
        "https:///lamp.png",
        "https://localhost/lamp.png",
        "https://shop/lamp.png",
        "https://shop.localhost/lamp.png",
        "https://metadata.google.INTERNAL/lamp.png",
        "https://printer.local/lamp.png",
        "https://router.home.arpa/lamp.png",
        "https://127.0.0.1/lamp.png",
        "https://127.1/lamp.png",
        "https://10.0.0.0x7/lamp.png",
        "https://2130706433/lamp.png",
        "https://169.254.169.254/latest",
        "https://[::1]/lamp.png",
        "https://localhost./lamp.png",
        "https://shop.example:8443/lamp.png",
        "https://user@shop.example/lamp.png",
        "https://shop.example@localhost/lamp.png",
        "https://shop.example/lamp.png?said=secret",
        "https://shop.example?said=secret",
        "https://shop.example/lamp.png#said",
        "https://shop.example\\@localhost/lamp.png",
        "https://shop.example/a b.png",
        "https://sh\u{f6}p.example/lamp.png",
    ] {
        let bench = bench_of_host(Ok(answered(200, None, PNG)));
        let report = bench.report("send_image", json!({"image_url": other}));
        assert_eq!(report.kind, FailureKind::Validation, "{other}");
        assert!(bench.fakes.hosts_asked.lock().unwrap().is_empty());
        assert_eq!(bench.client_messages(), [] as [Value; 0], "{other}");
    }
    for public in [
        "HTTPS://Shop.Example:443/a/b.png",
        "https://a-1.shop.xn--p1ai/%20.png",
        "https://shop.example",
    ] {
        let bench = bench_of_host(Ok(answered(200, None, PNG)));
        bench.succeed("send_image", json!({"image_url": public}));
    }
}

#[test]
fn a_picture_that_a_call_brought_is_shown_again_without_a_request() {
    let bench = Bench::new(Mode::Text);
    bench.fakes.pictures.lock().unwrap().push(PNG.to_vec());
    let success = bench.succeed("send_image", json!({"image_url": "/pictures/1"}));
    // It has an address that lasts from now on.
    assert_eq!(success.content, [part("/pictures/2")]);
    assert_eq!(
        bench.client_messages(),
        [json!({"type": "image", "url": "/pictures/2"})]
    );
    assert!(is_external(&bench), "what stands in it may be a stranger's");
    let report = bench.report("send_image", json!({"image_url": "/pictures/3"}));
    assert_eq!(report.kind, FailureKind::NotFound);
    *bench.fakes.pictures_max.lock().unwrap() = Some(0);
    let success = bench.succeed("send_image", json!({"image_url": "/pictures/1"}));
    assert_eq!(success.content, [part("/pictures/1")]);
}

#[test]
fn a_picture_of_the_knowledge_base_is_shown_by_its_id_or_address_to_those_who_may_read_it() {
    let photo = Record {
        record_type: "photo".to_owned(),
        metadata: serde_json::from_str(r#"{"file": "hull.png"}"#).unwrap(),
        ..record("photo:hull")
    };
    let elsewhere = Record {
        record_type: "diagram".to_owned(),
        url: None,
        ..record("diagram:none")
    };
    let records = vec![(photo, 1.0), (elsewhere, 1.0), (record("person:a"), 1.0)];
    for image_url in ["photo:hull", "/assets/photo:hull"] {
        let bench = Bench::new(Mode::Text).with_records(records.clone());
        let success = bench.succeed("send_image", json!({"image_url": image_url}));
        assert_eq!(success.content, [part("/assets/photo:hull")]);
        assert_eq!(
            bench.client_messages(),
            [json!({
                "type": "image", "url": "/assets/photo:hull", "caption": "Title of photo:hull",
            })]
        );
        assert!(is_external(&bench));
    }
    for (image_url, kind) in [
        ("person:a", FailureKind::Validation),
        ("photo:other", FailureKind::NotFound),
        ("diagram:none", FailureKind::NotFound),
    ] {
        let bench = Bench::new(Mode::Text).with_records(records.clone());
        let report = bench.report("send_image", json!({"image_url": image_url}));
        assert_eq!(report.kind, kind, "{image_url}");
        assert_eq!(bench.client_messages(), [] as [Value; 0]);
    }
}

#[test]
fn a_client_that_has_gone_is_said_not_to_have_seen_it() {
    let bench = Bench::new(Mode::Text);
    bench.fakes.pictures.lock().unwrap().push(PNG.to_vec());
    *bench.fakes.outbox_is_closed.lock().unwrap() = true;
    let report = bench.report("send_image", json!({"image_url": "/pictures/1"}));
    assert_eq!(report.kind, FailureKind::Transient);
    assert!(report.message.contains("not shown"), "{}", report.message);
}
