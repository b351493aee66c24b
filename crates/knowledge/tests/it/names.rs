//! Names as people say them and machines hear them: misspellings of the real names of the base that ships with Windlass,
//! made by rules, must find the person.
//!
//! A rule changes the plain spelling of a whole name (without case and diacritics) in one way, or leaves it alone:
//!
//! | rule | what it does | example |
//! | --- | --- | --- |
//! | single | a doubled letter becomes one | hassel → hasel |
//! | double | the first consonant between vowels is doubled | olav → ollav |
//! | hj, bj, tj | the letters become y, by, ch, as English ears write them | hjalmar → yalmar |
//! | dropped-d | d before t, s or n goes | fridtjof → fritjof |
//! | v-w | every v becomes w | sverdrup → swerdrup |
//! | w-v | every w becomes v | wisting → visting |
//! | c-k | c and ch become k | archer → arker |
//! | k-c | k becomes c | |
//! | s-z | the first s becomes z | nansen → nanzen |
//! | sen-son | the ending sen becomes son | amundsen → amundson |
//! | o-u, u-o | the first o or u becomes the other | sverdrup → sverdrop |
//! | aa-o | aa becomes o | bjaaland → bjoland |
//! | e-a | the first e becomes a | nansen → nansan |
//! | d-t | the last d becomes t | |
//! | swap | the two letters in the middle change places | |
//! | left-out | the letter after the middle goes | |
//! | torn | the last word is torn apart in the middle | sver drup |
//! | joined | the space is left out | ottosverdrup |
//!
//! Each misspelling is asked for bare, and in one of two questions.

use crate::engines::{Base, each_engine};
use crate::support::{ids, record, request};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use windlass_contract::handler::{Record, SearchRequest};
use windlass_contract::id::UserId;
use windlass_knowledge::{Access, KnowledgeBase, Options, Readers};

const QUESTIONS: [&str; 2] = ["Who was {}?", "tell me about {} please"];

fn plain(name: &str) -> String {
    name.to_lowercase().replace('ø', "o").replace('å', "a")
}

fn is_vowel(letter: char) -> bool {
    "aeiouy".contains(letter)
}

fn single(name: &str) -> String {
    let mut last = None;
    name.chars()
        .filter(|letter| last.replace(*letter) != Some(*letter))
        .collect()
}

fn double(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let place = (1..letters.len() - 1).find(|place| {
        is_vowel(letters[place - 1])
            && letters[*place].is_ascii_lowercase()
            && !is_vowel(letters[*place])
            && is_vowel(letters[place + 1])
    });
    let mut doubled = name.to_owned();
    if let Some(place) = place {
        doubled.insert(place, letters[place]);
    }
    doubled
}

fn last_word(name: &str) -> (&str, &str) {
    name.rsplit_once(' ').unwrap_or(("", name))
}

fn with_last_word(name: &str, change: impl Fn(&str) -> String) -> String {
    let (before, last) = last_word(name);
    format!("{before} {}", change(last)).trim().to_owned()
}

fn swap(name: &str) -> String {
    with_last_word(name, |word| {
        let mut letters: Vec<char> = word.chars().collect();
        let middle = letters.len() / 2;
        letters.swap(middle - 1, middle);
        letters.into_iter().collect()
    })
}

fn left_out(name: &str) -> String {
    with_last_word(name, |word| {
        let mut word = word.to_owned();
        word.remove(word.len() / 2);
        word
    })
}

fn torn(name: &str) -> String {
    with_last_word(name, |word| {
        let (left, right) = word.split_at(word.len() / 2);
        format!("{left} {right}")
    })
}

fn last_d(name: &str) -> String {
    match name.rfind('d') {
        Some(place) => format!("{}t{}", &name[..place], &name[place + 1..]),
        None => name.to_owned(),
    }
}

fn misspellings(name: &str) -> BTreeSet<String> {
    let name = plain(name);
    let mut all = BTreeSet::from([
        single(&name),
        double(&name),
        name.replace("hj", "y"),
        name.replace("bj", "by"),
        name.replace("tj", "ch"),
        name.replace("dt", "t")
            .replace("ds", "s")
            .replace("dn", "n"),
        name.replace('v', "w"),
        name.replace('w', "v"),
        name.replace("ch", "k").replace('c', "k"),
        name.replace('k', "c"),
        name.replacen('s', "z", 1),
        name.replace("sen", "son"),
        name.replacen('o', "u", 1),
        name.replacen('u', "o", 1),
        name.replace("aa", "o"),
        name.replacen('e', "a", 1),
        last_d(&name),
        swap(&name),
        left_out(&name),
        torn(&name),
        name.replace(' ', ""),
    ]);
    all.remove(&name);
    all
}

#[test]
fn misheard_names_find_their_person() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../kb");
    let (base, _) = KnowledgeBase::open(folder, &Options::default()).unwrap();
    let people: Vec<(String, String)> = base
        .records()
        .filter(|record| record.record_type == "person")
        .map(|record| (record.id.clone(), record.title.clone()))
        .collect();
    each_engine(|engine| {
        let records = base.records().map(|record| Record::clone(record)).collect();
        check(&engine.base(records), &people);
    });
}

fn check(base: &Base, people: &[(String, String)]) {
    let (mut asked, mut first, mut among_three) = (0, 0, 0);
    let mut missed = Vec::new();
    for (id, name) in people {
        // A full name, and the family name alone, as people are called.
        let (_, family) = last_word(name);
        for spoken in [name.as_str(), family] {
            for (number, misspelt) in misspellings(spoken).into_iter().enumerate() {
                let question = QUESTIONS[number % QUESTIONS.len()].replace("{}", &misspelt);
                for query in [misspelt, question] {
                    let found = ids(base, request(&query));
                    asked += 1;
                    first += usize::from(found.first() == Some(id));
                    let is_found = found.iter().take(3).any(|found| found == id);
                    among_three += usize::from(is_found);
                    if !is_found {
                        missed.push(format!("{query} → {id}: {found:?}"));
                    }
                }
            }
        }
    }
    let share = |count: usize| count as f64 / asked as f64;
    println!(
        "{asked} spoken names: first {:.3}, among three {:.3}",
        share(first),
        share(among_three)
    );
    println!("{}", missed.join("\n"));
    assert!(asked >= 200, "{asked}");
    assert!(share(first) >= 0.80, "{}", share(first));
    assert!(share(among_three) >= 0.90, "{}", share(among_three));
}

#[test]
fn a_whole_title_or_alias_finds_its_record_first_whatever_it_is_written_with() {
    let long = "w".repeat(70);
    each_engine(|engine| {
        let base = engine.base(vec![
            record("band:the_who", "The Who", "Four of them."),
            record("film:it", "It", "A clown."),
            record("movement:me_too", "Me Too", "A movement."),
            record("language:c", "C", "Old."),
            record("language:cpp", "C++", "Newer."),
            record("language:csharp", "C#", "C# is like C and C++: C, C, C."),
            record("emoji:party", "🎉", "A party."),
            record("word:long", &long, "Nobody says it."),
            Record {
                aliases: vec!["What".to_owned()],
                ..record("alias:what", "A question", "One word.")
            },
            record("zz:noise", "Who is who", "It was what it was, too."),
        ]);
        for (query, id) in [
            ("The Who", "band:the_who"),
            ("the  who ", "band:the_who"),
            ("It", "film:it"),
            ("me too", "movement:me_too"),
            ("C", "language:c"),
            ("c++", "language:cpp"),
            ("C#", "language:csharp"),
            ("Ｃ＃", "language:csharp"),
            ("🎉", "emoji:party"),
            (long.as_str(), "word:long"),
            ("what", "alias:what"),
        ] {
            let found = ids(&base, request(query));
            assert_eq!(
                found.first().map(String::as_str),
                Some(id),
                "{engine:?} {query}: {found:?}"
            );
        }
    });
}

#[test]
fn a_name_is_found_behind_other_words_that_nobody_knows_and_in_other_scripts() {
    each_engine(|engine| {
        let base = engine.base(vec![
            record("person:amundsen", "Roald Amundsen", "He went south."),
            record("person:nansen", "Нансен", "Norway."),
            record("person:ivanova", "Иванова", "Sofia."),
            record("ship:fram", "Fram", "A ship."),
        ]);
        for (query, id) in [
            (
                "could you recommend something interesting regarding Amundson",
                "person:amundsen",
            ),
            ("Нансн", "person:nansen"),
            ("Иваннова", "person:ivanova"),
        ] {
            let found = ids(&base, request(query));
            assert_eq!(found, [id], "{engine:?} {query}");
        }
    });
}

#[test]
fn a_misheard_name_is_put_right_though_records_that_are_not_searched_are_spelt_so() {
    let ada = UserId::new("ada");
    let owners = Readers::Owners(BTreeSet::from([ada.clone()]));
    let options = Options {
        access: Access::new(BTreeMap::from([("ada".to_owned(), owners)])),
        ..Options::default()
    };
    let adas = |title: &str, body: &str| Record {
        namespace: "ada".to_owned(),
        ..record("diary:monday", title, body)
    };
    let anybody = |query: &str| SearchRequest {
        reader: UserId::new("eve").into(),
        ..request(query)
    };
    let person = |query: &str| SearchRequest {
        record_type: Some("person".to_owned()),
        ..anybody(query)
    };
    each_engine(|engine| {
        for hidden in [
            adas("Monday", "Met Nanson at the quay."),
            adas("Nanson", "Met him at the quay."),
        ] {
            let base = engine.base_with(
                vec![
                    record("person:nansen", "Fridtjof Nansen", "He drifted north."),
                    record("ship:fram", "Fram", "A ship."),
                    hidden,
                ],
                &options,
            );
            for query in ["Nanson", "Who was Nanson?"] {
                for request in [anybody(query), person(query)] {
                    let found = ids(&base, request);
                    assert_eq!(found, ["person:nansen"], "{engine:?} {query}");
                }
            }
            let hers = SearchRequest {
                namespace: Some("ada".to_owned()),
                reader: ada.clone().into(),
                ..request("Nanson")
            };
            assert_eq!(ids(&base, hers), ["diary:monday"], "{engine:?}");
        }
        // In the only namespace, where the filters alone leave something out.
        let base = engine.base(vec![
            record("person:nansen", "Fridtjof Nansen", "He drifted north."),
            record("doc:list", "Passengers", "Nanson, two trunks."),
        ]);
        assert_eq!(
            ids(&base, person("Nanson")),
            ["person:nansen"],
            "{engine:?}"
        );
    });
}
