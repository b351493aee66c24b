//! Pages and PDF files as records: their text is found, and bad ones cost nothing but themselves.

use crate::support::{folder, ids, request};
use std::path::Path;
use std::sync::Arc;
use windlass_knowledge::{
    Document, DocumentKind, DocumentReader, IngestReport, KnowledgeBase, LeftOut, Options,
    read_document,
};

/// Reads in this process.
struct Here;

impl DocumentReader for Here {
    fn read(&self, kind: DocumentKind, bytes: &[u8]) -> Result<Document, String> {
        read_document(kind, bytes)
    }
}

fn open(folder: &Path) -> (KnowledgeBase, IngestReport) {
    let options = Options {
        documents: Some(Arc::new(Here)),
        ..Options::default()
    };
    KnowledgeBase::open(folder, &options).unwrap()
}

const PAGE: &str = "<!doctype html><html><head><title>The hull &amp; the keel</title><style>p { color: red }</style>
<script>var secret = 'greenheart'; document.write('<p>never</p>');</script></head>
<body><h1>Hull</h1><p>Oak planks, three layers.</p><ul><li>The <a href=\"https://example.org/x\">keel</a></li></ul></body></html>";

/// A file of one page that says a text, as the simplest of writers make it.
fn pdf(text: &str) -> Vec<u8> {
    let content = format!("BT /F1 24 Tf 72 720 Td ({text}) Tj ET");
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R >> >> >>"
            .to_owned(),
        format!(
            "<< /Length {} >>\nstream\n{content}\nendstream",
            content.len()
        ),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    let mut file = "%PDF-1.4\n".to_owned();
    let mut places = Vec::new();
    for (number, object) in (1..).zip(&objects) {
        places.push(file.len());
        file.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
    }
    let table = file.len();
    file.push_str(&format!(
        "xref\n0 {}\n0000000000 65535 f \n",
        objects.len() + 1
    ));
    for place in places {
        file.push_str(&format!("{place:010} 00000 n \n"));
    }
    file.push_str(&format!(
        "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n",
        objects.len() + 1
    ));
    file.into_bytes()
}

#[test]
fn pages_and_pdf_files_are_records_with_their_text() {
    let folder = folder(&[
        ("public/manual/hull.html", PAGE.as_bytes()),
        ("sails/The sails.pdf", &pdf("Canvas on three masts")),
        ("plain.HTM", b"<p>Ballast of stone.</p>"),
    ]);
    let (base, report) = open(folder.path());
    assert_eq!(report.problems, []);
    let records: Vec<_> = base.records().collect();
    let shown: Vec<(&str, &str, &str, &str)> = records
        .iter()
        .map(|record| {
            (
                record.id.as_str(),
                record.title.as_str(),
                record.namespace.as_str(),
                record.source_type.as_str(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("document:plain", "plain", "public", "html"),
            ("manual:hull", "The hull & the keel", "public", "html"),
            ("sails:the_sails", "The sails", "public", "pdf"),
        ]
    );
    assert!(
        records[2].body.contains("Canvas on three masts"),
        "{}",
        records[2].body
    );
    let hull = &records[1].body;
    assert!(hull.contains("Oak planks, three layers."), "{hull}");
    for absent in ["greenheart", "never", "color", "example.org", "<"] {
        assert!(!hull.contains(absent), "{absent}: {hull}");
    }
    assert_eq!(ids(&base, request("oak planks")), ["manual:hull"]);
}

#[test]
fn bad_documents_are_reported_and_the_rest_is_kept() {
    let good = pdf("Canvas");
    let half = &good[..good.len() / 2];
    let long = "<p>text".repeat(1024 * 1024);
    for (path, bytes) in [
        ("x.pdf", &b""[..]),
        ("x.pdf", b"%PDF-1.4"),
        ("x.pdf", b"no pdf at all"),
        ("x.pdf", half),
        ("x.pdf", &pdf("")),
        ("x.html", b""),
        ("x.html", b"<p>\xff\xfe</p>"),
        ("x.html", b"<script>var a = 1</script>"),
        ("x.html", long.as_bytes()),
    ] {
        let folder = folder(&[(path, bytes), ("public/doc/ok.html", PAGE.as_bytes())]);
        let (base, report) = open(folder.path());
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!(
            (base.len(), report.problems.len()),
            (1, 1),
            "{path}: {shown}"
        );
        assert_eq!(report.problems[0].path, path);
    }
    let encrypted = "/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 >> /Root 1 0 R";
    let locked = String::from_utf8(good)
        .unwrap()
        .replace("/Root 1 0 R", encrypted);
    let folder = folder(&[("x.pdf", locked.as_bytes())]);
    let (base, report) = open(folder.path());
    assert_eq!((base.len(), report.problems.len()), (0, 1));
    let message = &report.problems[0].message;
    assert!(message.contains("encrypted"), "{message}");
}

#[test]
fn without_a_reader_documents_are_no_records() {
    let folder = folder(&[("x.pdf", &pdf("Canvas")), ("x.html", PAGE.as_bytes())]);
    let (base, report) = crate::support::open(folder.path());
    let left_out = LeftOut {
        documents: 2,
        ..LeftOut::default()
    };
    let expected = IngestReport {
        left_out,
        ..IngestReport::default()
    };
    assert_eq!((base.len(), report), (0, expected));
}

/// Whatever byte is changed, the file is read or reported.
#[test]
fn no_damage_to_a_pdf_breaks_the_ingest() {
    let good = pdf("Canvas on three masts");
    for place in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[place] = bad[place].wrapping_add(101);
        let folder = folder(&[("x.pdf", &bad)]);
        let (base, report) = open(folder.path());
        assert_eq!(base.len() + report.problems.len(), 1, "{place}");
    }
}
