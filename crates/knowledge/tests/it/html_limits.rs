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
        closed("blockquote"),
        closed("table"),
    ] {
        let told = refusal("x.html", page.as_bytes());
        assert!(
            told.contains("too deep in one another"),
            "{page:.20}: {told}"
        );
    }
    // What is beside one another is not deep, whatever its text looks like.
    let text = "<pre>if (a < b) c</pre>".repeat(300);
    assert_eq!(kept("x.html", text.as_bytes()), 1);
    let beside = "<p>one<br><li>two".repeat(DEEP) + &"<ul><li>three</ul>".repeat(1_000);
    assert_eq!(kept("x.html", beside.as_bytes()), 1);
}
