//! Vectors outlive the process: what was embedded is not embedded again, whatever happened in between.

use crate::support::{WordVectors, folder, index, request, search};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;
use windlass_knowledge::embed::Embedder;
use windlass_knowledge::{
    Changes, EmbedderPresence, Embedding, IngestReport, KnowledgeBase, OpenError, Options,
    Retrieval,
};

/// A folder of so many records with different texts.
fn records(count: usize) -> TempDir {
    let files: Vec<(String, String)> = (0..count)
        .map(|number| {
            (
                format!("public/doc/r{number}.md"),
                format!("---\ntitle: Record {number}\n---\nWords about number {number}.\n"),
            )
        })
        .collect();
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_bytes()))
        .collect();
    folder(&files)
}

fn options(data: &Path, embedder: WordVectors) -> Options {
    Options {
        embedder: EmbedderPresence::Present(Arc::new(embedder)),
        data: Some(data.to_owned()),
        ..Options::default()
    }
}

fn indexed(folder: &Path, data: &Path) -> (KnowledgeBase, IngestReport) {
    index(folder, &options(data, WordVectors::new())).unwrap()
}

fn vector_files(data: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(data.join("knowledge"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "bin"))
        .collect();
    files.sort();
    files
}

#[test]
fn only_what_is_new_or_changed_is_embedded() {
    let (folder, data) = (records(5), TempDir::new().unwrap());
    let path = |name: &str| folder.path().join("public/doc").join(name);
    let (base, report) = indexed(folder.path(), data.path());
    assert_eq!((base.vector_count(), report.embedded), (5, 5));
    assert_eq!(
        report.changes,
        Changes {
            added: 5,
            ..Changes::default()
        }
    );

    let (base, report) = indexed(folder.path(), data.path());
    assert_eq!((base.vector_count(), report.embedded), (5, 0));
    assert_eq!(
        report.changes,
        Changes {
            unchanged: 5,
            ..Changes::default()
        }
    );

    fs::write(path("r0.md"), "---\ntitle: Record 0\n---\nOther words.\n").unwrap();
    fs::remove_file(path("r1.md")).unwrap();
    fs::rename(path("r2.md"), path("other.md")).unwrap();
    fs::write(path("new.md"), "---\ntitle: New\n---\nNew words.\n").unwrap();
    let (base, report) = indexed(folder.path(), data.path());
    assert_eq!((base.vector_count(), report.embedded), (5, 2));
    assert_eq!(
        report.changes,
        Changes {
            added: 1,
            changed: 1,
            removed: 1,
            renamed: 1,
            unchanged: 2
        }
    );
    let ids: Vec<&str> = base.records().map(|record| record.id.as_str()).collect();
    assert_eq!(ids, ["doc:new", "doc:other", "doc:r0", "doc:r3", "doc:r4"]);
    assert_eq!(report.notices, [""; 0]);
}

#[test]
fn an_interrupted_index_goes_on_where_it_was() {
    let (folder, data) = (records(20), TempDir::new().unwrap());
    let failing = WordVectors {
        texts_left: Some(12),
        ..WordVectors::new()
    };
    let error = index(folder.path(), &options(data.path(), failing))
        .err()
        .unwrap();
    assert!(matches!(error, OpenError::Embed(_)), "{error}");
    let (base, report) = indexed(folder.path(), data.path());
    assert_eq!((base.vector_count(), report.embedded), (20, 8));
}

/// As a crash leaves it: cut off at any byte.
#[test]
fn a_file_that_ends_anywhere_is_completed() {
    let (folder, data) = (records(3), TempDir::new().unwrap());
    indexed(folder.path(), data.path());
    let file = vector_files(data.path()).remove(0);
    let whole = fs::read(&file).unwrap();
    for length in 0..whole.len() {
        fs::write(&file, &whole[..length]).unwrap();
        let (base, report) = indexed(folder.path(), data.path());
        assert_eq!(base.vector_count(), 3, "{length}");
        assert!(report.embedded > 0, "{length}");
        assert_eq!(
            fs::metadata(&file).unwrap().len(),
            whole.len() as u64,
            "{length}"
        );
    }
}

#[test]
fn a_damaged_file_is_said_and_made_good() {
    let (folder, data) = (records(3), TempDir::new().unwrap());
    indexed(folder.path(), data.path());
    let file = vector_files(data.path()).remove(0);
    let whole = fs::read(&file).unwrap();
    for place in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x40;
        fs::write(&file, &bytes).unwrap();
        let (base, report) = indexed(folder.path(), data.path());
        assert_eq!(base.vector_count(), 3, "{place}");
        assert!(
            report.notices[0].contains("damaged"),
            "{place}: {:?}",
            report.notices
        );
        assert!(
            (1..=3).contains(&report.embedded),
            "{place}: {}",
            report.embedded
        );
    }
    fs::write(data.path().join("knowledge/manifest.json"), "{").unwrap();
    let (_, report) = indexed(folder.path(), data.path());
    assert!(
        report.notices[0].contains("manifest.json was damaged"),
        "{:?}",
        report.notices
    );
    assert_eq!(indexed(folder.path(), data.path()).1.notices, [""; 0]);
}

#[test]
fn vectors_of_two_models_never_meet() {
    let (folder, data) = (records(3), TempDir::new().unwrap());
    indexed(folder.path(), data.path());
    let other = || WordVectors::of("other", 24);
    let (base, report) = index(folder.path(), &options(data.path(), other())).unwrap();
    assert_eq!((base.vector_count(), report.embedded), (3, 3));
    assert_eq!(vector_files(data.path()).len(), 2);
    // Even where one file bears the other's name.
    let files = vector_files(data.path());
    let bytes = fs::read(&files[0]).unwrap();
    fs::write(&files[1], bytes).unwrap();
    for embedder in [WordVectors::new(), other()] {
        let dimension = embedder.model().dimension;
        let (base, _) = index(folder.path(), &options(data.path(), embedder)).unwrap();
        assert_eq!(base.vector_count(), 3, "{dimension}");
        let answer = search(&base, request("number 2")).unwrap();
        assert_eq!(answer.hits[0].record.id, "doc:r2", "{dimension}");
    }
}

#[test]
fn two_processes_do_not_write_one_file() {
    let (folder, data) = (records(1), TempDir::new().unwrap());
    indexed(folder.path(), data.path());
    let file = File::open(vector_files(data.path()).remove(0)).unwrap();
    file.lock().unwrap();
    let error = index(folder.path(), &options(data.path(), WordVectors::new()))
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("another process is indexing"),
        "{error}"
    );
}

#[test]
fn vectors_that_nothing_needs_are_dropped_once_they_are_the_larger_part() {
    let (many, few, data) = (records(300), records(10), TempDir::new().unwrap());
    indexed(many.path(), data.path());
    let before = fs::metadata(vector_files(data.path()).remove(0))
        .unwrap()
        .len();
    assert_eq!(indexed(few.path(), data.path()).1.embedded, 0);
    let after = fs::metadata(vector_files(data.path()).remove(0))
        .unwrap()
        .len();
    assert!(after * 20 < before, "{before} {after}");
    assert_eq!(indexed(few.path(), data.path()).1.embedded, 0);
}

/// The test runs itself once more in a process whose files may not grow beyond 160 KiB, which is what a full disk is.
#[cfg(unix)]
#[test]
fn a_full_disk_is_said_and_what_was_kept_stays() {
    const ROLE: &str = "WINDLASS_TEST_FULL_DISK";
    if let Some(paths) = std::env::var_os(ROLE) {
        let paths = paths.into_string().unwrap();
        let (folder, data) = paths.split_once('|').unwrap();
        let outcome = index(folder.as_ref(), &options(data.as_ref(), WordVectors::new()));
        println!("outcome: {}", outcome.err().unwrap());
        return;
    }
    let (folder, data) = (records(600), TempDir::new().unwrap());
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 320; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "durability::a_full_disk_is_said_and_what_was_kept_stays",
            "--nocapture",
        ])
        .env(
            ROLE,
            format!("{}|{}", folder.path().display(), data.path().display()),
        )
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        shown.contains("outcome: the vectors cannot be kept in"),
        "{shown}"
    );
    assert!(shown.contains("free space"), "{shown}");
    let (base, report) = indexed(folder.path(), data.path());
    assert_eq!(base.vector_count(), 600);
    assert!((1..600).contains(&report.embedded), "{}", report.embedded);
    assert_eq!(report.notices, [""; 0]);
}

#[test]
fn a_data_folder_that_cannot_be_one_is_refused() {
    let folder = records(1);
    let data = folder.path().join("public/doc/r0.md");
    let error = index(folder.path(), &options(&data, WordVectors::new()))
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("name another data folder"),
        "{error}"
    );
}

#[test]
fn vectors_at_hand_serve_at_once_and_the_others_are_counted() {
    let (folder, data) = (records(6), TempDir::new().unwrap());
    let at_hand = || Options {
        embedding: Embedding::AtHand,
        ..options(data.path(), WordVectors::new())
    };
    let (base, report) = index(folder.path(), &at_hand()).unwrap();
    assert_eq!((report.embedded, report.missing), (0, 6));
    assert_eq!(base.best_retrieval(), Retrieval::Lexical);
    let (base, report) = indexed(folder.path(), data.path());
    assert_eq!((report.embedded, report.missing), (6, 0));
    assert_eq!(base.best_retrieval(), Retrieval::Hybrid);
    let text = "---\ntitle: Record 0\n---\nNarwhals and auks.\n";
    fs::write(folder.path().join("public/doc/r0.md"), text).unwrap();
    let (base, report) = index(folder.path(), &at_hand()).unwrap();
    assert_eq!(
        (base.vector_count(), report.embedded, report.missing),
        (5, 0, 1)
    );
    let answer = search(&base, request("narwhals and auks")).unwrap();
    assert_eq!(answer.hits[0].record.id, "doc:r0");
}

fn list_file(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("knowledge")).unwrap();
    let mut lists = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "list"));
    lists.next().unwrap()
}

#[test]
fn only_what_is_new_or_changed_is_cut() {
    let (folder, data) = (records(5), TempDir::new().unwrap());
    let path = |name: &str| folder.path().join("public/doc").join(name);
    let at_hand = || {
        let options = Options {
            embedding: Embedding::AtHand,
            ..options(data.path(), WordVectors::new())
        };
        index(folder.path(), &options).unwrap()
    };
    assert_eq!(indexed(folder.path(), data.path()).1.cut, 5);
    assert_eq!(indexed(folder.path(), data.path()).1.cut, 0);
    let (base, report) = at_hand();
    assert_eq!((base.vector_count(), report.cut), (5, 0));

    fs::write(path("r0.md"), "---\ntitle: Record 0\n---\nOther words.\n").unwrap();
    fs::rename(path("r1.md"), path("other.md")).unwrap();
    let retitled = "---\ntitle: Another title\n---\nWords about number 2.\n";
    fs::write(path("r2.md"), retitled).unwrap();
    let tagged = "---\ntitle: Record 3\ntags: [ship]\n---\nWords about number 3.\n";
    fs::write(path("r3.md"), tagged).unwrap();
    // A reader writes nothing down.
    for _ in 0..2 {
        let (base, report) = at_hand();
        assert_eq!((base.vector_count(), report.cut, report.missing), (3, 2, 2));
    }
    let (base, report) = indexed(folder.path(), data.path());
    assert_eq!(
        (base.vector_count(), report.cut, report.embedded),
        (5, 2, 2)
    );
    let (base, report) = at_hand();
    assert_eq!((base.vector_count(), report.cut, report.missing), (5, 0, 0));
    let answer = search(&base, request("other words")).unwrap();
    assert_eq!(answer.hits[0].record.id, "doc:r0");
}

#[test]
fn another_model_cuts_for_itself() {
    let (folder, data) = (records(3), TempDir::new().unwrap());
    indexed(folder.path(), data.path());
    for (model, cut) in [("other", 3), ("other", 0), ("words", 0)] {
        let model = WordVectors::of(model, 256);
        let (base, report) = index(folder.path(), &options(data.path(), model)).unwrap();
        assert_eq!((base.vector_count(), report.cut), (3, cut));
        assert_eq!(report.notices, [""; 0]);
    }
}

#[test]
fn a_damaged_or_missing_list_of_passages_is_said_and_made_good() {
    let (folder, data) = (records(3), TempDir::new().unwrap());
    indexed(folder.path(), data.path());
    let file = list_file(data.path());
    let whole = fs::read(&file).unwrap();
    let spoil = |place: usize| {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x40;
        bytes
    };
    let spoilt = (0..whole.len()).step_by(7).map(spoil);
    let cut_off = (0..whole.len())
        .step_by(11)
        .map(|end| whole[..end].to_vec());
    for bytes in spoilt.chain(cut_off) {
        fs::write(&file, &bytes).unwrap();
        let (base, report) = indexed(folder.path(), data.path());
        assert_eq!((base.vector_count(), report.cut), (3, 3));
        assert_eq!(report.embedded, 0);
        assert!(
            report.notices[0].contains("damaged"),
            "{:?}",
            report.notices
        );
        assert_eq!(fs::read(&file).unwrap(), whole);
    }
    fs::remove_file(&file).unwrap();
    let (base, report) = indexed(folder.path(), data.path());
    assert_eq!((base.vector_count(), report.embedded), (3, 0));
    assert!(
        report.notices[0].contains("missing"),
        "{:?}",
        report.notices
    );
    assert_eq!(indexed(folder.path(), data.path()).1.notices, [""; 0]);
}

/// What a list says is believed for finding vectors, never for what they are vectors of.
#[test]
fn a_list_of_other_passages_spoils_no_vector() {
    let (folder, data, other) = (records(2), TempDir::new().unwrap(), TempDir::new().unwrap());
    indexed(folder.path(), data.path());
    // The same model under the same name, whose passages are not these.
    let text = "---\ntitle: Record 0\n---\nNarwhals and auks.\n";
    fs::write(folder.path().join("public/doc/r0.md"), text).unwrap();
    indexed(folder.path(), other.path());
    let list = list_file(data.path());
    fs::copy(list_file(other.path()), &list).unwrap();
    let (base, report) = indexed(folder.path(), data.path());
    assert_eq!(
        (base.vector_count(), report.cut, report.embedded),
        (2, 0, 1)
    );
    let answer = search(&base, request("narwhals")).unwrap();
    assert_eq!(answer.hits[0].record.id, "doc:r0");
}

#[test]
fn a_list_that_cannot_be_written_costs_no_vector() {
    let (folder, data) = (records(3), TempDir::new().unwrap());
    indexed(folder.path(), data.path());
    let file = list_file(data.path());
    fs::remove_file(&file).unwrap();
    // A folder of that name is in the way.
    fs::create_dir(&file).unwrap();
    let (base, report) = indexed(folder.path(), data.path());
    assert_eq!((base.vector_count(), report.cut), (3, 3));
    let told = report.notices.join("\n");
    assert!(told.contains("cannot be written"), "{told}");
}
