//! What a base is made with beside its records: who may read which namespace, and a model that is not there.

use crate::engines::each_engine;
use crate::support::{ids, record, request, search};
use std::collections::{BTreeMap, BTreeSet};
use windlass_contract::handler::{KnowledgeError, KnowledgeReader, Record, SearchRequest};
use windlass_contract::id::UserId;
use windlass_contract::rights::Rights;
use windlass_knowledge::{Access, EmbedderPresence, Options, Readers};

#[test]
fn a_user_hears_of_no_namespace_that_is_not_theirs() {
    let of = |namespace: &str| Record {
        namespace: namespace.to_owned(),
        ..record(&format!("doc:{namespace}"), "Ice", "Ice.")
    };
    let owners = |user: &str| Readers::Owners(BTreeSet::from([UserId::new(user)]));
    let namespaces = BTreeMap::from([
        ("ada".to_owned(), owners("ada")),
        ("staff".to_owned(), Readers::SignedIn),
    ]);
    let reader = |user: &str| KnowledgeReader {
        user_id: UserId::new(user),
        rights: match user {
            "eve" => Rights::signed_in([]),
            _ => Rights::Anonymous,
        },
    };
    let options = Options {
        access: Access::new(namespaces),
        ..Options::default()
    };
    each_engine(|engine| {
        let base = engine.base_with(vec![of("ada"), of("staff"), of("talks")], &options);
        let private = engine.base_with(vec![of("ada"), of("staff")], &options);
        for (user, readable, found, found_in_private) in [
            ("nobody", vec!["talks"], "doc:talks", None),
            ("ada", vec!["ada", "talks"], "doc:talks", Some("doc:ada")),
            (
                "eve",
                vec!["staff", "talks"],
                "doc:talks",
                Some("doc:staff"),
            ),
        ] {
            let nowhere = SearchRequest {
                reader: reader(user),
                namespace: Some("nowhere".to_owned()),
                ..request("ice")
            };
            let unknown = KnowledgeError::UnknownNamespace {
                name: "nowhere".to_owned(),
                readable: readable.into_iter().map(str::to_owned).collect(),
            };
            assert_eq!(search(&base, nowhere), Err(unknown), "{user}");
            let asks = || SearchRequest {
                reader: reader(user),
                ..request("ice")
            };
            assert_eq!(ids(&base, asks()), [found], "{user}");
            let ids: Vec<String> = ids(&private, asks());
            assert_eq!(ids.first().map(String::as_str), found_in_private, "{user}");
        }
        assert_eq!(base.default_namespace(), "talks");
        assert_eq!(private.default_namespace(), "public");
    });
}

#[test]
fn a_hidden_records_name_takes_nothing_from_those_that_may_be_found() {
    let hidden = Record {
        namespace: "ada".to_owned(),
        ..record("doc:hidden", "C#", "A language.")
    };
    let owner = Readers::Owners(BTreeSet::from([UserId::new("ada")]));
    let options = Options {
        access: Access::new(BTreeMap::from([("ada".to_owned(), owner)])),
        ..Options::default()
    };
    each_engine(|engine| {
        let seen = record("doc:c", "C", "A language.");
        let base = engine.base_with(vec![hidden.clone(), seen], &options);
        let answer = search(&base, request("C#")).unwrap();
        let scores: Vec<_> = answer.hits.iter().map(|hit| hit.score).collect();
        // What bears the name that was said is more than half sure.
        assert!(
            matches!(scores[..], [score] if score > 0.5),
            "{engine:?}: {scores:?}"
        );
        let asks = SearchRequest {
            reader: UserId::new("ada").into(),
            namespace: Some("ada".to_owned()),
            ..request("C#")
        };
        assert_eq!(ids(&base, asks), ["doc:hidden"], "{engine:?}");
    });
}

#[test]
fn answers_say_that_a_model_is_missing_which_should_be_there() {
    let options = Options {
        embedder: EmbedderPresence::Missing,
        ..Options::default()
    };
    each_engine(|engine| {
        let base = engine.base_with(vec![record("doc:a", "Ice", "Ice.")], &options);
        let answer = search(&base, request("ice")).unwrap();
        assert_eq!(answer.degraded.as_deref(), Some("dense_unavailable"));
        assert_eq!(
            (answer.retrieval.as_str(), answer.hits.len()),
            ("lexical", 1)
        );
    });
}
