//! PDF files that grow or nest without end: each is refused with its cause, and those beside it are kept.

use crate::support::{folder, open};

/// A file of objects with numbers from 1, the first of which is the catalogue.
fn pdf_of(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"%PDF-1.5\n".to_vec();
    let mut places = Vec::new();
    for (number, object) in (1..).zip(objects) {
        places.push(file.len());
        file.extend_from_slice(format!("{number} 0 obj\n").as_bytes());
        file.extend_from_slice(object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let table = file.len();
    let count = objects.len() + 1;
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

fn stream(dictionary: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut object = format!("<< {dictionary} /Length {length} >>\nstream\n").into_bytes();
    object.extend_from_slice(content);
    object.extend_from_slice(b"\nendstream");
    object
}

/// So many bytes of one kind, packed once, in little memory.
fn packed(byte: u8, count: usize) -> Vec<u8> {
    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let block = vec![byte; 1024 * 1024];
    let mut left = count;
    while left > 0 {
        let part = left.min(block.len());
        encoder.write_all(&block[..part]).unwrap();
        left -= part;
    }
    encoder.finish().unwrap()
}

const CATALOGUE: &[u8] = b"<< /Type /Catalog /Pages 2 0 R >>";
const ONE_PAGE: &[u8] = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
const FONT: &[u8] =
    b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";

/// A file of one page that has these resources beside its font, and more objects from the sixth on.
fn page_of(content: Vec<u8>, resources: &str, more: &[Vec<u8>]) -> Vec<u8> {
    let page = format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R >> {resources} >> >>"
    );
    let mut objects = vec![
        CATALOGUE.to_vec(),
        ONE_PAGE.to_vec(),
        page.into_bytes(),
        content,
        FONT.to_vec(),
    ];
    objects.extend_from_slice(more);
    pdf_of(&objects)
}

const SAYING: &[u8] = b"BT /F1 24 Tf 72 720 Td (Canvas on three masts) Tj ET";

/// What the report says of a file, the good one beside which is kept.
pub(crate) fn refusal(name: &str, bytes: &[u8]) -> String {
    let folder = folder(&[(name, bytes), ("public/doc/ok.html", b"<p>Oak.</p>")]);
    let (base, report) = open(folder.path());
    assert_eq!((base.len(), report.problems.len()), (1, 1), "{name}");
    report.problems[0].to_string()
}

/// How many records a file gives, which is reported where there are none.
pub(crate) fn kept(name: &str, bytes: &[u8]) -> usize {
    let folder = folder(&[(name, bytes)]);
    let (base, report) = open(folder.path());
    assert_eq!(base.len() + report.problems.len(), 1, "{name}");
    base.len()
}

#[test]
fn packed_pages_are_read_with_what_they_name() {
    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(b"BT /F1 24 Tf 72 720 Td (Oak) Tj ET /Form Do /Picture Do")
        .unwrap();
    let packed = encoder.finish().unwrap();
    let form = "/Type /XObject /Subtype /Form /Resources << /Font << /F1 5 0 R >> >>";
    let picture = "/Type /XObject /Subtype /Image /Width 1 /Height 1";
    let file = page_of(
        stream("/Filter /FlateDecode", &packed),
        "/XObject << /Form 6 0 R /Picture 7 0 R >>",
        &[
            stream(form, SAYING),
            stream(picture, b"\xff\xd8 ((( no text"),
        ],
    );
    let folder = folder(&[("x.pdf", &file)]);
    let (base, report) = open(folder.path());
    assert_eq!(report.problems, []);
    let record = base.records().next().unwrap();
    for word in ["Oak", "Canvas on three masts"] {
        assert!(record.body.contains(word), "{}", record.body);
    }
}

#[test]
fn a_pdf_that_unpacks_to_a_gigabyte_is_refused() {
    let bomb = packed(b' ', 1024 * 1024 * 1024);
    let twice = packed_again(&bomb);
    let spaces = b"z".repeat(20 * 1024 * 1024);
    let flate = "/Filter /FlateDecode";
    let chained = "/Filter [/FlateDecode /FlateDecode]";
    let objects = "/Type /ObjStm /N 1 /First 4 /Filter /FlateDecode";
    for (what, file) in [
        ("page", page_of(stream(flate, &bomb), "", &[])),
        ("chain", page_of(stream(chained, &twice), "", &[])),
        (
            "ascii",
            page_of(stream("/Filter /ASCII85Decode", &spaces), "", &[]),
        ),
        (
            "form",
            page_of(
                stream("", b"/A Do"),
                "/XObject << /A 6 0 R >>",
                &[stream(
                    "/Type /XObject /Subtype /Form /Filter /FlateDecode",
                    &bomb,
                )],
            ),
        ),
        (
            "objects",
            page_of(stream("", SAYING), "", &[stream(objects, &bomb)]),
        ),
    ] {
        let told = refusal("x.pdf", &file);
        assert!(told.contains("once it is unpacked"), "{what}: {told}");
    }
}

fn packed_again(bytes: &[u8]) -> Vec<u8> {
    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Each code of the table stands for one byte more than the one before it, so that a file grows a thousandfold.
#[test]
fn a_pdf_of_long_repetitions_is_refused() {
    let mut bytes = Vec::new();
    let (mut held, mut bits) = (0_u64, 0);
    for clear_width in std::iter::once(9).chain(std::iter::repeat_n(12, 59)) {
        let codes = std::iter::once((256, clear_width)).chain((258..4_094).map(|next: u64| {
            let width = match next {
                2_048.. => 12,
                1_024.. => 11,
                512.. => 10,
                _ => 9,
            };
            (if next == 258 { 32 } else { next - 1 }, width)
        }));
        for (code, width) in codes {
            held = held << width | code;
            bits += width;
            while bits >= 8 {
                bits -= 8;
                bytes.push((held >> bits) as u8);
            }
            held &= (1 << bits) - 1;
        }
    }
    let file = page_of(stream("/Filter /LZWDecode", &bytes), "", &[]);
    assert!(file.len() < 1024 * 1024);
    let told = refusal("x.pdf", &file);
    assert!(told.contains("once it is unpacked"), "{told}");
}

#[test]
fn a_pdf_of_a_hundred_thousand_pages_is_refused() {
    let mut objects = vec![CATALOGUE.to_vec()];
    let kids: Vec<String> = (3..100_003).map(|number| format!("{number} 0 R")).collect();
    objects.push(
        format!(
            "<< /Type /Pages /Kids [{}] /Count 100000 >>",
            kids.join(" ")
        )
        .into_bytes(),
    );
    let page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>".to_vec();
    objects.resize(100_002, page);
    let told = refusal("x.pdf", &pdf_of(&objects));
    assert!(told.contains("more than 5000 pages"), "{told}");
}

#[test]
fn a_pdf_that_is_encrypted_is_refused_before_anything_is_unpacked() {
    let file = page_of(stream("", SAYING), "", &[]);
    let text = String::from_utf8(file).unwrap();
    let encrypted = "/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 >> /Root 1 0 R";
    let told = refusal("x.pdf", text.replace("/Root 1 0 R", encrypted).as_bytes());
    assert!(told.contains("without a password"), "{told}");
}

#[test]
fn a_pdf_of_many_fonts_that_share_one_map_is_refused() {
    let names: String = (0..200).map(|name| format!("/A{name} 6 0 R ")).collect();
    let page = format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R {names}>> >> >>"
    );
    let font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 7 0 R >>".to_vec();
    let map = stream("/Filter /FlateDecode", &packed(b' ', 16 * 1024 * 1024));
    let told = refusal(
        "x.pdf",
        &pdf_of(&[
            CATALOGUE.to_vec(),
            ONE_PAGE.to_vec(),
            page.into_bytes(),
            stream("", SAYING),
            FONT.to_vec(),
            font,
            map,
        ]),
    );
    assert!(told.contains("reading the fonts"), "{told}");
}

#[test]
fn a_pdf_that_goes_round_in_circles_is_refused() {
    let form = "/Type /XObject /Subtype /Form";
    let own = |target: u32| format!("{form} /Resources << /XObject << /A {target} 0 R >> >>");
    let looped = |more: &[Vec<u8>]| page_of(stream("", b"/A Do"), "/XObject << /A 6 0 R >>", more);
    // Each form draws the next one twice.
    let doubling: Vec<Vec<u8>> = (7..37)
        .map(|next| stream(&own(next), b"/A Do /A Do"))
        .collect();
    let page = b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>".to_vec();
    let ancestors = |parent: &str| {
        let pages = format!("<< /Type /Pages /Kids [3 0 R] /Count 1 /Parent {parent} >>");
        pdf_of(&[
            CATALOGUE.to_vec(),
            pages.into_bytes(),
            page.clone(),
            stream("", SAYING),
        ])
    };
    for (what, file) in [
        ("itself", looped(&[stream(form, b"/A Do")])),
        (
            "another",
            looped(&[stream(&own(7), b"/A Do"), stream(&own(6), b"/A Do")]),
        ),
        ("doubling", looped(&doubling)),
        ("ancestor", ancestors("2 0 R")),
    ] {
        let told = refusal("x.pdf", &file);
        assert!(
            told.contains("in circles") || told.contains("too much drawing"),
            "{what}: {told}"
        );
    }
    // A tree of pages that is its own branch has the pages that it has.
    let tree = b"<< /Type /Pages /Kids [2 0 R 3 0 R 2 0 R] /Count 3 >>".to_vec();
    let page = b"<< /Type /Page /MediaBox [0 0 612 792] /Contents 4 0 R \
        /Resources << /Font << /F1 5 0 R >> >> >>";
    let file = pdf_of(&[
        CATALOGUE.to_vec(),
        tree,
        page.to_vec(),
        stream("", SAYING),
        FONT.to_vec(),
    ]);
    kept("x.pdf", &file);
}

/// The tables that say where objects are, which lead wherever their file likes.
#[test]
fn a_pdf_whose_tables_lead_in_circles_or_into_nothing_is_refused() {
    // The length of a stream lies in the stream.
    let inside = |count: u32| {
        let mut file = b"%PDF-1.5\n".to_vec();
        let place = file.len();
        file.extend_from_slice(
            b"1 0 obj << /Type /ObjStm /N 1 /First 4 /Len#67th 2 0 R >>\nstream\n2 0 3\nendstream endobj\n",
        );
        let table = file.len();
        let entries = [[1, place as u8, 0], [2, 1, 0], [1, table as u8, 0]];
        file.extend_from_slice(
            format!(
                "3 0 obj << /Root 1 0 R /Size {count} /W [1 1 1] /Index [1 3] /Length 9 >> stream\n"
            )
            .as_bytes(),
        );
        file.extend_from_slice(&entries.concat());
        file.extend_from_slice(
            format!("\nendstream endobj\nstartxref\n{table}\n%%EOF\n").as_bytes(),
        );
        file
    };
    let told = refusal("x.pdf", &inside(4));
    assert!(told.contains("in circles"), "{told}");

    // The length of each stream is the next stream.
    let streams: Vec<Vec<u8>> = (7..20_000)
        .map(|next| format!("<< /Length {next} 0 R >> stream\n\nendstream").into_bytes())
        .collect();
    let told = refusal("x.pdf", &page_of(stream("", SAYING), "", &streams));
    assert!(told.contains("in circles"), "{told}");

    let table = |dictionary: &str, content: &[u8]| {
        let mut file = b"%PDF-1.5\n".to_vec();
        let place = file.len();
        file.extend_from_slice(b"1 0 obj ");
        file.extend_from_slice(&stream(dictionary, content));
        file.extend_from_slice(format!("\nstartxref\n{place}\n%%EOF\n").as_bytes());
        file
    };
    let bomb = packed(b' ', 1024 * 1024 * 1024);
    for (dictionary, content, cause) in [
        (
            "/Size 1 /W [1 2 9999999999999] /Root 1 0 R",
            &b"abc"[..],
            "damaged",
        ),
        (
            "/Size 1 /W [0 0 0] /Index [0 4000000000]",
            b"abc",
            "once it is unpacked",
        ),
        (
            "/Size 1 % stream\n /W [1 2 1] /Filter /FlateDecode",
            &bomb,
            "once it is unpacked",
        ),
        (
            "/Size 1 /W [1 2 1] /Filter [/FlateDecode /FlateDecode]",
            &bomb,
            "damaged",
        ),
    ] {
        let told = refusal("x.pdf", &table(dictionary, content));
        assert!(told.contains(cause), "{dictionary}: {told}");
    }
}

#[test]
fn a_font_whose_map_grows_or_nests_without_end_is_refused() {
    let font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 7 0 R >>";
    let file = |map: &str| {
        let content = stream("", b"BT /F2 24 Tf (abc) Tj ET");
        let mut file = page_of(
            content,
            "",
            &[font.as_bytes().to_vec(), stream("", map.as_bytes())],
        );
        let place = file.windows(9).position(|part| part == b"/F1 5 0 R");
        let place = place.unwrap();
        file[place..place + 9].copy_from_slice(b"/F2 6 0 R");
        file
    };
    for (map, cause) in [
        (
            "1 beginbfrange <00000000> % x\n <7fffffff><0041> endbfrange".to_owned(),
            "reading the fonts",
        ),
        ("[".repeat(100_000), "in circles"),
        ("[(])".repeat(100_000), "in circles"),
        (r"(\)".repeat(100_000), "in circles"),
        ("<< /A ".repeat(100_000), "in circles"),
    ] {
        let told = refusal("x.pdf", &file(&map));
        assert!(told.contains(cause), "{map:.20}: {told}");
    }
    let map = "1 beginbfrange <61><7a><0041> endbfrange\n1 beginbfrange <30><31>[<0041><0042>] endbfrange";
    let folder = folder(&[("x.pdf", &file(map))]);
    let (base, report) = open(folder.path());
    assert_eq!(report.problems, []);
    let record = base.records().next().unwrap();
    assert!(record.body.contains("ABC"), "{}", record.body);
}

/// As most programs write files today: objects in a packed stream, and a packed table that says so.
#[test]
fn a_pdf_of_packed_objects_is_read() {
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 6 0 R \
         /Resources << /Font << /F1 4 0 R >> >> >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ];
    let (mut index, mut body) = (String::new(), String::new());
    for (number, object) in (1..).zip(objects) {
        index.push_str(&format!("{number} {} ", body.len()));
        body.push_str(object);
        body.push(' ');
    }
    let mut file = b"%PDF-1.5\n".to_vec();
    let mut entries: Vec<[u8; 4]> = vec![[0; 4]];
    entries.extend((0..4).map(|place| [2, 0, 5, place]));
    let packing = format!(
        "/Type /ObjStm /N 4 /First {} /Filter /FlateDecode",
        index.len()
    );
    let length = SAYING.len();
    let page = [b"<< /Length 7 0 R >>\nstream\n", SAYING, b"\nendstream"].concat();
    for (number, object) in (5..).zip([
        stream(&packing, &packed_again((index + &body).as_bytes())),
        page,
        length.to_string().into_bytes(),
    ]) {
        let [high, low] = u16::try_from(file.len()).unwrap().to_be_bytes();
        entries.push([1, high, low, 0]);
        file.extend_from_slice(format!("{number} 0 obj\n").as_bytes());
        file.extend_from_slice(&object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let place = file.len();
    file.extend_from_slice(b"8 0 obj\n");
    let table = "/Type /XRef /Size 8 /Root 1 0 R /W [1 2 1] /Filter /FlateDecode";
    file.extend_from_slice(&stream(table, &packed_again(&entries.concat())));
    file.extend_from_slice(format!("\nendobj\nstartxref\n{place}\n%%EOF\n").as_bytes());
    let folder = folder(&[("x.pdf", &file)]);
    let (base, report) = open(folder.path());
    assert_eq!(report.problems, []);
    let record = base.records().next().unwrap();
    assert!(
        record.body.contains("Canvas on three masts"),
        "{}",
        record.body
    );
}

#[test]
fn a_pdf_that_nests_without_end_is_read_or_reported() {
    const DEEP: usize = 100_000;
    let array = "[".repeat(DEEP) + &"]".repeat(DEEP);
    let dictionary = "<< /A ".repeat(DEEP) + "0" + &" >>".repeat(DEEP);
    let text = "(".repeat(DEEP) + &")".repeat(DEEP);
    for nested in [&array, &dictionary, &text] {
        let shown = page_of(stream("", format!("{nested} Tj").as_bytes()), "", &[]);
        let beside = page_of(stream("", SAYING), "", &[nested.clone().into_bytes()]);
        for file in [shown, beside] {
            kept("x.pdf", &file);
        }
    }
}

#[test]
fn a_pdf_of_too_much_text_is_refused() {
    let mut content = b"BT /F1 9 Tf ".to_vec();
    for _ in 0..3_000 {
        content.extend_from_slice(b"(");
        content.extend_from_slice(&b"word ".repeat(200));
        content.extend_from_slice(b") Tj ");
    }
    let part = stream("", &content);
    let page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
        /Resources << /Font << /F1 5 0 R >> >> >>"
        .to_vec();
    let tree = b"<< /Type /Pages /Kids [3 0 R 6 0 R] /Count 2 >>".to_vec();
    let file = pdf_of(&[
        CATALOGUE.to_vec(),
        tree,
        page.clone(),
        part,
        FONT.to_vec(),
        page,
    ]);
    let told = refusal("x.pdf", &file);
    assert!(told.contains("the text is longer than"), "{told}");
    let drawing = page_of(stream("", &b"0 0 m ".repeat(1_000_000)), "", &[]);
    let told = refusal("x.pdf", &drawing);
    assert!(told.contains("too much drawing"), "{told}");
}
