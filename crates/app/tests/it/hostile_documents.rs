//! Documents that break the process that reads them: each is reported by its name, and the base is made of the others.

use crate::knowledge::{kb, place};
use std::fs;

/// A file of objects with numbers from 1: the catalogue, the pages and these.
fn pdf(objects: &[&[u8]]) -> Vec<u8> {
    let first: [&[u8]; 2] = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    ];
    let mut file = b"%PDF-1.5\n".to_vec();
    let mut places = Vec::new();
    for (number, object) in (1..).zip(first.iter().chain(objects)) {
        places.push(file.len());
        file.extend_from_slice(format!("{number} 0 obj\n").as_bytes());
        file.extend_from_slice(object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let table = file.len();
    let count = places.len() + 1;
    let mut end = format!("xref\n0 {count}\n0000000000 65535 f \n");
    for place in places {
        end.push_str(&format!("{place:010} 00000 n \n"));
    }
    end.push_str(&format!(
        "trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n"
    ));
    file.extend_from_slice(end.as_bytes());
    file
}

fn stream(dictionary: &str, content: &str) -> Vec<u8> {
    let length = content.len();
    format!("<< {dictionary} /Length {length} >>\nstream\n{content}\nendstream").into_bytes()
}

/// A page that draws the form of the fifth object, and the forms from there on.
fn drawing(forms: &[Vec<u8>]) -> Vec<u8> {
    let page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
        /Resources << /XObject << /A 5 0 R >> >> >>";
    let content = stream("", "/A Do");
    let mut objects: Vec<&[u8]> = vec![page, &content];
    objects.extend(forms.iter().map(Vec::as_slice));
    pdf(&objects)
}

fn form(drawn: usize, content: &str) -> Vec<u8> {
    let resources = format!("/Resources << /XObject << /A {drawn} 0 R >> >>");
    stream(
        &format!("/Type /XObject /Subtype /Form {resources}"),
        content,
    )
}

/// A file whose table has four thousand million entries of no byte.
fn table_without_end() -> Vec<u8> {
    let mut file = b"%PDF-1.5\n".to_vec();
    let place = file.len();
    file.extend_from_slice(b"1 0 obj ");
    let entries = "/Type /XRef /Size 1 /W [0 0 0] /Index [0 4000000000] /Root 1 0 R";
    file.extend_from_slice(&stream(entries, "abc"));
    file.extend_from_slice(format!("\nendobj\nstartxref\n{place}\n%%EOF\n").as_bytes());
    file
}

/// A page in a font whose map says this.
fn mapped(map: &str) -> Vec<u8> {
    pdf(&[
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
          /Resources << /Font << /F1 5 0 R >> >> >>",
        &stream("", "BT /F1 24 Tf (abc) Tj ET"),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>",
        &stream("", map),
    ])
}

#[test]
fn a_document_that_breaks_its_process_is_named_and_the_rest_is_read() {
    let folder = place(None);
    let records = folder.path().join("kb");
    // Each form draws the next one twice.
    let mut doubling: Vec<Vec<u8>> = (6..46).map(|next| form(next, "/A Do /A Do")).collect();
    doubling.push(form(5, "q"));
    for (name, bytes) in [
        ("a_endless.pdf", drawing(&doubling)),
        ("b_greedy.pdf", table_without_end()),
        ("c_crash.pdf", mapped(&"[".repeat(1_000_000))),
        ("d_recursion.pdf", drawing(&[form(5, "/A Do")])),
        ("e_damaged.pdf", b"%PDF-1.5".to_vec()),
        (
            "f_good.html",
            b"<title>Sails</title><p>Canvas on three masts.</p>".to_vec(),
        ),
    ] {
        fs::write(records.join(name), bytes).unwrap();
    }
    let run = kb(folder.path(), &["index"]);
    assert_eq!(run.code, 0, "{:?}", run.problems);
    assert!(run.output.starts_with("2 records: "), "{}", run.output);
    let broke_off = "reading it broke off";
    for (problem, (name, cause)) in run.problems.iter().zip([
        ("a_endless.pdf", broke_off),
        ("b_greedy.pdf", broke_off),
        ("c_crash.pdf", broke_off),
        ("d_recursion.pdf", broke_off),
        ("e_damaged.pdf", "it is damaged; save it anew"),
    ]) {
        assert!(
            problem.starts_with(name) && problem.contains(cause),
            "{name}: {problem}"
        );
    }
    assert_eq!(run.problems.len(), 5, "{:?}", run.problems);
    let found = kb(folder.path(), &["search", "canvas"]).output;
    assert!(found.contains("document:f_good  Sails"), "{found}");
}
