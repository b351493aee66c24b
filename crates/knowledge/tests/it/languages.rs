//! Questions and records in many languages: writing without blanks, compounds, function words, and words that are said twice.

use crate::engines::each_engine;
use crate::support::{ids, record, request, search};
use windlass_contract::handler::Record;

#[track_caller]
fn check(records: &[(&str, &str, &str)], questions: &[(&str, &[&str])]) {
    each_engine(|engine| {
        let records = records
            .iter()
            .map(|(id, title, body)| record(id, title, body));
        let base = engine.base(records.collect());
        for (question, found) in questions {
            let ids = ids(&base, request(question));
            assert_eq!(&ids[..], *found, "{engine:?}: {question}");
        }
    });
}

#[test]
fn chinese_is_found_by_a_part_of_a_clause() {
    check(
        &[
            ("doc:wifi", "无线网络", "员工可以在前台领取无线网络的密码。"),
            (
                "doc:leave",
                "请假",
                "每年有二十天带薪年假，请提前两周申请。",
            ),
            ("doc:ship", "前进号", "这艘木船在冰里漂流了三年。"),
        ],
        &[
            ("怎么连接无线网络？", &["doc:wifi"]),
            ("年假有几天", &["doc:leave"]),
            ("密码", &["doc:wifi"]),
            // A question of one character.
            ("船", &["doc:ship"]),
            ("飞机", &[]),
        ],
    );
}

#[test]
fn japanese_korean_and_thai_are_found_by_a_part_of_a_clause() {
    check(
        &[
            (
                "doc:ja",
                "休暇",
                "有給休暇は二週間前までに申請してください。",
            ),
            ("doc:name", "アムンセン", "南極点に初めて到達した。"),
            ("doc:ko", "휴가", "연차휴가는 서울사무소에서 신청합니다."),
            ("doc:th", "วันลา", "พนักงานลาพักร้อนได้ปีละยี่สิบวัน"),
        ],
        &[
            ("休暇の申請方法は", &["doc:ja"]),
            ("南極", &["doc:name"]),
            ("서울", &["doc:ko"]),
            ("휴가 신청", &["doc:ko"]),
            ("ลาพักร้อน", &["doc:th"]),
            // A name that was misheard.
            ("アムンゼン", &["doc:name"]),
        ],
    );
}

#[test]
fn a_word_of_two_scripts_is_found_by_either_part() {
    check(
        &[
            ("doc:charger", "配件", "iPhone充电器在三楼。"),
            ("doc:shirt", "服", "Tシャツ2枚まで無料。"),
            ("doc:vaccine", "健康", "COVID19疫苗每周三接种。"),
        ],
        &[
            ("iPhone", &["doc:charger"]),
            ("充电器", &["doc:charger"]),
            ("iPhone 充电器", &["doc:charger"]),
            ("シャツ", &["doc:shirt"]),
            ("covid19", &["doc:vaccine"]),
            ("疫苗", &["doc:vaccine"]),
        ],
    );
}

#[test]
fn a_snippet_of_writing_without_blanks_lies_where_it_says() {
    let filler = "天气很好我们去公园散步然后回家吃饭。".repeat(30);
    let body = format!("{filler}无线网络的密码在前台。{filler}");
    each_engine(|engine| {
        let base = engine.base(vec![record("doc:a", "手册", &body)]);
        for question in ["无线网络密码", "网"] {
            let answer = search(&base, request(question)).unwrap();
            let snippet = answer.hits[0].snippet.as_ref().unwrap();
            assert_eq!(snippet.text, body[snippet.start..snippet.end]);
            assert!(snippet.text.contains("无线网络"), "{}", snippet.text);
            assert!(snippet.text.chars().count() <= 90, "{}", snippet.text);
        }
    });
}

#[test]
fn german_compounds_are_found_by_their_parts_and_find_them() {
    check(
        &[
            (
                "doc:frist",
                "Kündigungsfrist",
                "Drei Monate zum Monatsende.",
            ),
            (
                "doc:wasser",
                "Haus",
                "Wie Sie einen Wasserschaden bei uns melden und was er kostet.",
            ),
            ("doc:miete", "Miete", "Die Miete ist im Voraus zu zahlen."),
        ],
        &[
            ("Kündigung", &["doc:frist"]),
            (
                "Wie lange ist die Frist?",
                &["doc:frist", "doc:miete", "doc:wasser"],
            ),
            ("Wasser", &["doc:wasser"]),
            ("Mietvertrag", &["doc:miete"]),
        ],
    );
}

#[test]
fn an_english_word_is_not_found_within_another() {
    check(
        &[
            ("doc:a", "Friendship", "Transport and statements."),
            ("doc:b", "Information", "A contractor and a transaction."),
        ],
        &[
            ("ship", &[]),
            ("port", &[]),
            ("state", &[]),
            ("contract", &[]),
            ("action", &[]),
        ],
    );
}

#[test]
fn function_words_hardly_count() {
    check(
        &[
            (
                "doc:getting_here",
                "Getting here",
                "How to get here by train. You get off at the harbour and get on the bus.",
            ),
            ("doc:wifi", "Network", "The WLAN is called Fram."),
        ],
        &[
            (
                "How do I get on the WLAN?",
                &["doc:wifi", "doc:getting_here"],
            ),
            // Where nothing else is said they are all there is.
            ("getting here", &["doc:getting_here"]),
        ],
    );
    check(
        &[
            (
                "doc:anreise",
                "Anreise",
                "Wie Sie zu uns kommen: Sie kommen mit der Bahn und dann mit dem Bus.",
            ),
            ("doc:wlan", "Netz", "WLAN: Fram."),
        ],
        &[(
            "Wie komme ich mit dem Telefon in das WLAN?",
            &["doc:wlan", "doc:anreise"],
        )],
    );
}

#[test]
fn a_word_counts_as_often_as_it_is_said() {
    let records = [
        ("doc:ice", "A", "Ice lay on the sea."),
        ("doc:sail", "B", "A sail and a mast."),
    ];
    check(
        &records,
        &[
            ("ice ice ice, sail mast", &["doc:ice", "doc:sail"]),
            ("ice, sail mast", &["doc:sail", "doc:ice"]),
        ],
    );
}

#[test]
fn a_question_of_nothing_but_one_word_is_bounded() {
    each_engine(|engine| {
        let base = engine.base(vec![
            record("doc:a", "Ice", "Ice."),
            record("doc:b", "T", "Oak."),
        ]);
        let long =
            ["ice ", "船", "ไทย", "Kündigungsfrist ", "か\u{3099}"].map(|word| word.repeat(4_000));
        for question in long {
            let answer = search(&base, request(&question)).unwrap();
            assert!(answer.hits.iter().all(|hit| hit.score <= 1.0));
        }
    });
}

#[test]
fn a_record_of_one_run_without_end_is_indexed() {
    each_engine(|engine| {
        let run = format!("{}终点", "船在冰里漂流".repeat(2_000));
        let base = engine.base(vec![Record {
            ..record("doc:run", "R", &run)
        }]);
        assert_eq!(ids(&base, request("终点")), ["doc:run"]);
    });
}
