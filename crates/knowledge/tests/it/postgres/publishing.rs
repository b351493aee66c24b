//! Writing a base into the database: only what is new, nothing twice, and as it was in memory.

use super::server::{self, Published, ask, drop_schema, execute, settings, wait, write};
use crate::support::{WordVectors, ids, index_records, now, record, request};
use std::sync::Arc;
use windlass_contract::handler::{Knowledge, Record};
use windlass_contract::sensitive::Sensitive;
use windlass_knowledge::postgres::{PostgresBase, PostgresError, PostgresSettings};
use windlass_knowledge::{EmbedderPresence, KnowledgeBase, Options};

fn records(count: usize) -> Vec<Record> {
    (0..count)
        .map(|number| {
            let body = format!("Entry {number} of the log: wind, ice and a sail.");
            record(&format!("log:day_{number:04}"), "Log", &body)
        })
        .collect()
}

fn with_words() -> Options {
    Options {
        embedder: EmbedderPresence::Present(Arc::new(WordVectors::new())),
        ..Options::default()
    }
}

fn counts(settings: &PostgresSettings) -> (i64, i64, i64) {
    (
        ask(settings, "SELECT count(*) FROM records"),
        ask(settings, "SELECT count(*) FROM passages"),
        ask(settings, "SELECT count(DISTINCT record) FROM postings"),
    )
}

#[test]
fn only_what_is_new_or_changed_is_written() {
    if !server::is_there() {
        return;
    }
    let settings = settings(server::address());
    let base = index_records(records(450), &with_words());
    let first = write(&settings, &base).unwrap();
    assert_eq!((first.written, first.unchanged), (450, 0));
    assert_eq!((first.vectors, first.verified), (450, 450));
    assert_eq!(counts(&settings), (450, 450, 450));
    let again = write(&settings, &base).unwrap();
    assert_eq!((again.written, again.unchanged), (0, 450));

    let mut changed = records(449);
    changed[7].body = "Whales.".to_owned();
    changed.push(record("log:new", "Log", "Landfall."));
    let changed = index_records(changed, &with_words());
    let third = write(&settings, &changed).unwrap();
    assert_eq!((third.written, third.unchanged, third.removed), (2, 448, 1));
    assert_eq!(counts(&settings), (450, 450, 450));
    // Words are counted as if the base had been written at once.
    let miscounted: i64 = ask(
        &settings,
        "SELECT count(*) FROM terms t WHERE t.body <> (SELECT count(*) FROM postings p WHERE p.term = t.term AND p.body > 0)",
    );
    assert_eq!(miscounted, 0);
    drop_schema(&settings);
}

/// Each step is one transaction, so that one that ends in the middle leaves those before it.
#[test]
fn an_interrupted_move_goes_on_where_it_was() {
    if !server::is_there() {
        return;
    }
    let settings = settings(server::address());
    write(&settings, &index_records(records(1), &with_words())).unwrap();
    execute(
        &settings,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the disk is full'; END $$; \
         CREATE TRIGGER refuse BEFORE INSERT ON records FOR EACH ROW WHEN (NEW.id = 'log:day_0399') \
         EXECUTE FUNCTION refuse()",
    );
    let base = index_records(records(450), &with_words());
    let error = write(&settings, &base).unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
    let (kept, _, with_terms) = counts(&settings);
    assert!((200..450).contains(&kept), "{kept}");
    assert_eq!(kept, with_terms);
    execute(&settings, "DROP TRIGGER refuse ON records");
    let resumed = write(&settings, &base).unwrap();
    assert_eq!(resumed.unchanged as i64, kept);
    assert_eq!((resumed.records, resumed.verified), (450, 450));
    drop_schema(&settings);
}

/// Makes a base what an earlier version has written: a run of Chinese was one word.
fn make_old(settings: &PostgresSettings) {
    execute(
        settings,
        "ALTER TABLE base DROP COLUMN analyser; UPDATE base SET version = 1; \
         UPDATE records SET content_hash = 'old', body_length = 1; \
         DELETE FROM postings WHERE term <> '船在冰里漂流'; DELETE FROM terms WHERE term <> '船在冰里漂流'",
    );
}

#[test]
fn words_of_an_earlier_version_are_renewed_from_the_texts() {
    if !server::is_there() {
        return;
    }
    let settings = settings(server::address());
    let mut all = records(250);
    all.push(record("doc:ship", "S", "船在冰里漂流"));
    let base = index_records(all, &with_words());
    write(&settings, &base).unwrap();
    make_old(&settings);
    let opened = Published {
        base: wait(PostgresBase::open(&settings, &Options::default())).unwrap(),
        settings: settings.clone(),
    };
    let found = |question: &str| {
        let answer = wait(opened.base.search(request(question))).unwrap();
        let hits = answer.hits.iter();
        hits.map(|hit| hit.record.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(found("冰里"), ["doc:ship"]);
    assert_eq!(found("entry 7")[0], "log:day_0007");
    let known: i64 = ask(
        &settings,
        "SELECT count(*) FROM base WHERE version = 2 AND analyser = 2",
    );
    assert_eq!(known, 1);
    let miscounted: i64 = ask(
        &settings,
        "SELECT count(*) FROM terms t WHERE t.body <> (SELECT count(*) FROM postings p WHERE p.term = t.term AND p.body > 0)",
    );
    assert_eq!(miscounted, 0);
    // What was renewed is what is written.
    let again = write(&settings, &base).unwrap();
    assert_eq!((again.written, again.unchanged), (0, 251));
}

#[test]
fn whoever_may_not_renew_words_is_told_who_does() {
    if !server::is_there() {
        return;
    }
    let settings = settings(server::address());
    write(&settings, &index_records(records(3), &Options::default())).unwrap();
    make_old(&settings);
    let reader = format!("reader_{}", settings.schema);
    execute(
        &settings,
        &format!(
            "CREATE ROLE {reader} LOGIN; GRANT USAGE ON SCHEMA {0} TO {reader}; \
             GRANT SELECT ON ALL TABLES IN SCHEMA {0} TO {reader}",
            settings.schema
        ),
    );
    let of_reader = PostgresSettings {
        address: Sensitive(server::address().replacen("windlass@", &format!("{reader}@"), 1)),
        ..settings.clone()
    };
    let opened = wait(PostgresBase::open(&of_reader, &Options::default()));
    let error = opened
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(error.contains("run `windlass kb move` once"), "{error}");
    execute(
        &settings,
        &format!("DROP OWNED BY {reader}; DROP ROLE {reader}"),
    );
    drop_schema(&settings);
}

#[test]
fn a_newer_analysis_is_not_misread() {
    if !server::is_there() {
        return;
    }
    let settings = settings(server::address());
    write(&settings, &index_records(records(3), &Options::default())).unwrap();
    execute(&settings, "UPDATE base SET analyser = 99");
    let opened = wait(PostgresBase::open(&settings, &Options::default()));
    let error = opened
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(error.contains("version 99"), "{error}");
    drop_schema(&settings);
}

#[test]
fn a_base_without_records_empties_nothing() {
    if !server::is_there() {
        return;
    }
    let settings = settings(server::address());
    write(&settings, &index_records(records(3), &Options::default())).unwrap();
    let empty = KnowledgeBase::from_records(Vec::new()).unwrap();
    let error = write(&settings, &empty).unwrap_err();
    assert!(matches!(error, PostgresError::WouldEmpty(3)), "{error}");
    assert_eq!(counts(&settings).0, 3);
    drop_schema(&settings);
}

#[test]
fn two_do_not_write_at_the_same_time() {
    if !server::is_there() {
        return;
    }
    let settings = settings(server::address());
    let base = index_records(records(3), &Options::default());
    write(&settings, &base).unwrap();
    let (client, connection) = wait(async {
        tokio_postgres::connect(&server::address(), tokio_postgres::NoTls)
            .await
            .unwrap()
    });
    let other = wait(async {
        let other = tokio::spawn(connection);
        let lock = format!(
            "SELECT pg_advisory_lock(hashtext('windlass writes {}'))",
            settings.schema
        );
        client.batch_execute(&lock).await.unwrap();
        Some(other)
    });
    let error = write(&settings, &base).unwrap_err();
    assert!(matches!(error, PostgresError::Busy), "{error}");
    drop(client);
    wait(other.unwrap()).unwrap().unwrap();
    drop_schema(&settings);
}

#[test]
fn what_was_written_is_taken_up_by_those_that_serve() {
    if !server::is_there() {
        return;
    }
    let published = Published::of(
        &index_records(records(3), &Options::default()),
        &Options::default(),
    );
    let base = &published.base;
    let find = |query: &str| {
        let answer = wait(base.search(request(query))).unwrap();
        let hits = answer.hits.iter();
        hits.map(|hit| hit.record.id.clone()).collect::<Vec<_>>()
    };
    assert!(!wait(base.refresh()).unwrap());
    assert_eq!(find("narwhal"), [""; 0]);
    let mut more = records(3);
    more.push(record("animal:narwhal", "Narwhal", "A whale with a tusk."));
    write(
        &published.settings,
        &index_records(more, &Options::default()),
    )
    .unwrap();
    assert!(wait(base.refresh()).unwrap());
    assert_eq!(find("narwhal"), ["animal:narwhal"]);
    assert_eq!(base.facets().types, ["animal", "log"]);
}

/// A process whose model is another than the one that made the vectors finds by words, and says so.
#[test]
fn vectors_of_two_models_never_meet_in_the_database() {
    if !server::is_there() {
        return;
    }
    let written = index_records(records(3), &with_words());
    let other = Options {
        embedder: EmbedderPresence::Present(Arc::new(WordVectors::of("other", 128))),
        ..Options::default()
    };
    let published = Published::of(&written, &other);
    let answer = wait(published.base.search(request("wind"))).unwrap();
    assert_eq!((answer.retrieval.as_str(), answer.model), ("lexical", None));
    assert_eq!(answer.hits.len(), 3);
    let same = wait(PostgresBase::open(&published.settings, &with_words())).unwrap();
    let answer = wait(same.search(request("wind"))).unwrap();
    assert_eq!(answer.retrieval, "hybrid");
    assert_eq!(answer.model.as_deref(), Some("words"));
}

/// Scores mean the same in both engines, to the rounding of vectors into bytes.
#[test]
fn scores_are_those_of_the_base_in_memory() {
    if !server::is_there() {
        return;
    }
    let words = ["ice", "ship", "sail", "hull", "drift", "north", "captain"];
    let records: Vec<Record> = (0..300_usize)
        .map(|number| {
            let text: Vec<&str> = (0..number % 90)
                .map(|step| words[(number * 7 + step * step) % words.len()])
                .collect();
            let title = format!("{} {number}", words[number % words.len()]);
            record(&format!("doc:r{number}"), &title, &text.join(" "))
        })
        .collect();
    for options in [Options::default(), with_words()] {
        let memory = index_records(records.clone(), &options);
        let published = Published::of(&memory, &options);
        for query in ["ice", "ship captain north", "sail 17", "drift of the hull"] {
            let asked = windlass_contract::handler::SearchRequest {
                top_k: 20,
                ..request(query)
            };
            let left = now(memory.search(asked.clone())).unwrap();
            let right = wait(published.base.search(asked)).unwrap();
            assert_eq!(
                (&left.retrieval, &left.model),
                (&right.retrieval, &right.model)
            );
            assert_eq!(left.hits.len(), right.hits.len());
            for (left, right) in left.hits.iter().zip(&right.hits) {
                assert!(
                    (left.score - right.score).abs() < 1e-3,
                    "{query}: {left:?} {right:?}"
                );
            }
            if matches!(options.embedder, EmbedderPresence::NotWanted) {
                let of = |hits: &[windlass_contract::handler::Hit]| -> Vec<String> {
                    hits.iter().map(|hit| hit.record.id.clone()).collect()
                };
                assert_eq!(of(&left.hits), of(&right.hits), "{query}");
            }
        }
    }
    assert_eq!(
        ids(&index_records(records, &Options::default()), request("ice")).len(),
        5
    );
}

#[test]
fn an_address_that_is_none_is_refused_without_repeating_it() {
    for address in [
        "",
        "hunter2",
        "postgres://",
        "mysql://ada:hunter2@host/base",
        "host=localhost password=hunter2",
        "postgres://ada:hunter2@host:notaport/base",
    ] {
        let settings = PostgresSettings::new(Sensitive(address.to_owned()));
        let error = settings.check().unwrap_err();
        assert!(matches!(error, PostgresError::Address), "{address}");
        assert!(!format!("{error} {settings:?}").contains("hunter2"));
    }
    let good = "postgres://ada:hunter2@db.example.org/base";
    PostgresSettings::new(Sensitive(good.to_owned()))
        .check()
        .unwrap();
    for schema in ["", "a b", "A", "1a", "a\"; DROP SCHEMA public; --"] {
        let settings = PostgresSettings {
            schema: schema.to_owned(),
            ..PostgresSettings::new(Sensitive(good.to_owned()))
        };
        let error = settings.check().unwrap_err();
        assert!(matches!(error, PostgresError::Schema(_)), "{schema}");
    }
}
