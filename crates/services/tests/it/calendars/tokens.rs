//! Tokens: by a refresh token and by a service account's key; kept, got anew once, and refused with the cause.

use super::client::now;
use super::google::{Desk, NOW_UNIX_MS};
use super::google_calendar::{change, create};
use base64_simd::URL_SAFE_NO_PAD;
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::Value;
use windlass_contract::handler::{CalendarError, Calendars};
use windlass_services::{Grant, Links, ServiceAccount};

const KEY_FILE: &str = include_str!("service_account.json");

#[test]
fn a_service_account_signs_for_its_token() {
    let subject = Some("desk@example.org".to_owned());
    let account = ServiceAccount::read(KEY_FILE, subject).unwrap();
    assert!(!format!("{account:?}").contains("PRIVATE"));
    let desk = Desk {
        grant: Some(Grant::ServiceAccount(Box::new(account))),
        ..Desk::default()
    };
    let calendars = desk.calendars(Links::Nobody);
    now(calendars.change(change("k1", create("12:00", "13:00")))).unwrap();

    let asked = desk.server.asked("token");
    assert_eq!(asked.len(), 1);
    let form = asked[0].form();
    let (_, assertion) = form.iter().find(|(name, _)| name == "assertion").unwrap();
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let decoded = |text: &str| URL_SAFE_NO_PAD.decode_to_vec(text).unwrap();
    let file: Value = serde_json::from_str(KEY_FILE).unwrap();
    let pem = file["private_key"].as_str().unwrap();
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let key = base64_simd::STANDARD.decode_to_vec(base64).unwrap();
    let key = RsaKeyPair::from_pkcs8(&key).unwrap();
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key())
        .verify(signed.as_bytes(), &decoded(signature))
        .unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let header: Value = serde_json::from_slice(&decoded(header)).unwrap();
    assert_eq!(
        (&header["alg"], &header["kid"]),
        (&"RS256".into(), &"key-1".into())
    );
    let claims: Value = serde_json::from_slice(&decoded(claims)).unwrap();
    assert_eq!(claims["iss"], "desk@example.iam.gserviceaccount.com");
    assert_eq!(claims["sub"], "desk@example.org");
    assert_eq!(claims["aud"], format!("{}/token", desk.server.url));
    assert_eq!(claims["iat"], NOW_UNIX_MS / 1_000);
    assert_eq!(claims["exp"], NOW_UNIX_MS / 1_000 + 3_600);
}

#[test]
fn a_text_that_is_no_key_file_is_refused_and_not_shown() {
    for text in [
        "",
        "{}",
        "{\"client_email\":\"a\",\"private_key\":\"secret\"}",
        "{\"client_email\":\"a\",\"private_key\":\"-----BEGIN PRIVATE KEY-----\\nAAAA\\n-----END PRIVATE KEY-----\\n\"}",
    ] {
        let refused = ServiceAccount::read(text, None).unwrap_err().to_string();
        assert!(
            !refused.contains("secret") && !refused.contains("AAAA"),
            "{refused}"
        );
    }
}

#[test]
fn a_token_that_is_taken_back_is_got_anew_once() {
    let desk = Desk::default();
    let calendars = desk.calendars(Links::Nobody);
    now(calendars.change(change("k1", create("12:00", "13:00")))).unwrap();
    desk.state().tokens.clear();
    now(calendars.change(change("k2", create("14:00", "15:00")))).unwrap();
    assert_eq!(desk.state().tokens_given, 2);
}

#[test]
fn credentials_that_are_not_taken_are_named_to_operators() {
    let desk = Desk {
        refresh_token: "revoked",
        ..Desk::default()
    };
    let calendars = desk.calendars(Links::Nobody);
    let refused = now(calendars.change(change("k1", create("12:00", "13:00"))));
    let Err(CalendarError::Refused(cause)) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        cause.contains("credentials") && cause.contains("invalid_grant"),
        "{cause}"
    );
    assert!(!cause.contains("revoked"), "{cause}");
}
