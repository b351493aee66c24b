//! Pages that nest without end: each is refused with its cause, and flat ones are kept.

use crate::document_limits::{kept, refusal};

#[test]
fn a_page_that_nests_without_end_is_refused() {
    const DEEP: usize = 100_000;
    let closed = |tag: &str| format!("<{tag}>deep").repeat(300) + &format!("</{tag}>").repeat(300);
    let open = |tag: &str| format!("<{tag}>").repeat(DEEP) + "deep";
    for page in [
        open("div"),
        open("section"),
        open("UL"),
        open("div></b"),
        open("div><!-- </div --"),
        open("div><script></div></script"),
        // Ends that are none, as they stand in an attribute, and those that close nothing.
        open("div title='>' lang='</div>'"),
        open("span><div></span>deep</div"),
        open("div><object></div>deep</object"),
        open("svg><desc><div></svg"),
        open("table><tr><td"),
        // Ends of what is not open are looked for in all that is.
        "<span>".repeat(20_000) + &"</q>".repeat(DEEP),
        closed("blockquote"),
        closed("table><tr><td"),
    ] {
        let told = refusal("x.html", page.as_bytes());
        assert!(
            told.contains("too deep in one another"),
            "{page:.40}: {told}"
        );
    }
    // What is beside one another is not deep, whatever its text looks like.
    let text = "<pre>if (a < b) c</pre>".repeat(300);
    assert_eq!(kept("x.html", text.as_bytes()), 1);
    let beside = "<p>one<br><li>two".repeat(DEEP) + &"<ul><li>three</ul>".repeat(1_000);
    assert_eq!(kept("x.html", beside.as_bytes()), 1);
}

/// A tag for bold letters that nobody closes is made again in each paragraph that follows: a page of 48 kB became five
/// million elements.
#[test]
fn a_page_whose_tags_multiply_is_refused() {
    let bold: String = (0..3_000)
        .map(|number| format!("<p><b id={number}>x</p>"))
        .collect();
    let several = (0..400).map(|number| format!("<i id={number}>"));
    let several = format!(
        "<p>{}</p>{}",
        several.collect::<String>(),
        "<p>x</p>".repeat(5_000)
    );
    let in_title = format!("<title>{bold}</title><p>text");
    assert_eq!(kept("x.html", in_title.as_bytes()), 1);
    for page in [bold, several] {
        let told = refusal("x.html", page.as_bytes());
        assert!(told.contains("too many tags"), "{page:.40}: {told}");
    }
}

#[test]
fn tags_in_a_script_or_a_remark_are_no_tags() {
    let page = format!(
        "<script>{}</script><!-- {} --><style>{}</style><p title='{}'>text",
        "<ul><table>".repeat(1_000),
        "<ul>".repeat(1_000),
        "<ol>".repeat(1_000),
        "<dl>".repeat(1_000),
    );
    assert_eq!(kept("x.html", page.as_bytes()), 1);
}
