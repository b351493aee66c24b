//! What an HTML page would become, found out before it is made: how many elements, and how deep in one another. Keeps no
//! text and no tree, and reads no further than the limits.
//!
//! The rules by which tags open and close elements are the parser's own, for anything simpler can be deceived: some ends
//! close nothing, and some tags are made again in every paragraph that follows.

use html5ever::driver::{ParseOpts, parse_document};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::{TreeBuilderOpts, TreeSink};
use html5ever::{Attribute, ExpandedName, LocalName, Namespace, QualName};
use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

/// Elements of a page. The library that makes its text takes some hundred bytes for each.
const ELEMENTS_MAX: usize = 1_000_000;
/// Elements that may be looked at while a page is read, about two seconds' worth: for each tag the parser may look through
/// all those that are open.
const LOOKS_MAX: u64 = 500_000_000;
/// Lists, quotations and tables in one another. Each line of text repeats what says how deep it is.
const NESTED_MAX: u32 = 256;
const NESTED: [&str; 6] = ["blockquote", "dl", "ol", "pre", "table", "ul"];
/// Bytes that are read between two looks at the limits: one tag can make a thousand elements.
const STEP_BYTES: usize = 512;

/// Whether a page would become more than is good.
pub(crate) fn is_too_much(page: &str) -> bool {
    let shape = Shape::default();
    let looks = shape.looks.clone();
    // As the library reads it that makes the text.
    let options = ParseOpts {
        tree_builder: TreeBuilderOpts {
            scripting_enabled: false,
            ..TreeBuilderOpts::default()
        },
        ..ParseOpts::default()
    };
    let mut parser = parse_document(shape, options);
    let mut rest = page;
    while !rest.is_empty() && !looks.is_over.get() {
        // A letter has four bytes at most, so that there is always one.
        let (step, after) = rest.split_at(rest.floor_char_boundary(STEP_BYTES));
        let tags = step.bytes().filter(|byte| *byte == b'<').count();
        let (depth, elements) = (looks.depth.get(), looks.elements.get());
        parser.process(StrTendril::from(step));
        // Some tags make no element, and some make many.
        let made = looks.elements.get().saturating_sub(elements);
        looks.add(tags.max(made), depth);
        rest = after;
    }
    looks.is_over.get()
}

/// What the reading takes so far.
#[derive(Default)]
struct Looks {
    /// Elements that are open now.
    depth: Cell<u32>,
    looks: Cell<u64>,
    elements: Cell<usize>,
    is_over: Cell<bool>,
}

impl Looks {
    /// Through all that was open before so many tags, or is after them.
    fn add(&self, tags: usize, before: u32) {
        let open = u64::from(before.max(self.depth.get()));
        let looks = open.saturating_mul(tags as u64);
        self.looks.set(self.looks.get().saturating_add(looks));
        if self.looks.get() > LOOKS_MAX {
            self.is_over.set(true);
        }
    }
}

/// An element, or the page itself.
struct Element {
    name: QualName,
    is_integration_point: bool,
    /// Elements that it lies in, itself among them; 0 while it lies nowhere.
    depth: Cell<u32>,
    /// Of these, those whose depth shows in the text.
    nested: Cell<u32>,
}

impl Element {
    fn new(name: QualName, is_integration_point: bool) -> Rc<Self> {
        Rc::new(Self {
            name,
            is_integration_point,
            depth: Cell::new(0),
            nested: Cell::new(0),
        })
    }

    fn counts(&self) -> u32 {
        u32::from(NESTED.contains(&&*self.name.local))
    }
}

struct Shape {
    page: Rc<Element>,
    looks: Rc<Looks>,
}

impl Default for Shape {
    fn default() -> Self {
        let no_name = QualName::new(None, Namespace::default(), LocalName::default());
        Self {
            page: Element::new(no_name, false),
            looks: Rc::default(),
        }
    }
}

impl Shape {
    /// Puts an element where others lie so deep around it.
    fn put(&self, element: &Element, depth: u32, nested: u32) {
        element.depth.set(depth.saturating_add(1));
        element.nested.set(nested.saturating_add(element.counts()));
        self.looks.depth.set(element.depth.get());
        if element.nested.get() > NESTED_MAX {
            self.looks.is_over.set(true);
        }
    }

    /// What is no element: remarks and instructions.
    fn nothing(&self) -> Rc<Element> {
        Element::new(self.page.name.clone(), false)
    }
}

impl TreeSink for Shape {
    type Handle = Rc<Element>;
    type Output = ();
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) {}

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> Rc<Element> {
        self.page.clone()
    }

    fn elem_name<'a>(&'a self, target: &'a Rc<Element>) -> ExpandedName<'a> {
        target.name.expanded()
    }

    fn create_element(
        &self,
        name: QualName,
        _attributes: Vec<Attribute>,
        flags: ElementFlags,
    ) -> Rc<Element> {
        let elements = &self.looks.elements;
        elements.set(elements.get().saturating_add(1));
        if elements.get() > ELEMENTS_MAX {
            self.looks.is_over.set(true);
        }
        Element::new(name, flags.mathml_annotation_xml_integration_point)
    }

    fn create_comment(&self, _text: StrTendril) -> Rc<Element> {
        self.nothing()
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> Rc<Element> {
        self.nothing()
    }

    fn append(&self, parent: &Rc<Element>, child: NodeOrText<Rc<Element>>) {
        if let NodeOrText::AppendNode(child) = child {
            self.put(&child, parent.depth.get(), parent.nested.get());
        }
    }

    fn append_based_on_parent_node(
        &self,
        element: &Rc<Element>,
        previous: &Rc<Element>,
        child: NodeOrText<Rc<Element>>,
    ) {
        match element.depth.get() {
            0 => self.append(previous, child),
            _ => self.append_before_sibling(element, child),
        }
    }

    fn append_before_sibling(&self, sibling: &Rc<Element>, new: NodeOrText<Rc<Element>>) {
        if let NodeOrText::AppendNode(new) = new {
            let nested = sibling.nested.get().saturating_sub(sibling.counts());
            self.put(&new, sibling.depth.get().saturating_sub(1), nested);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn pop(&self, element: &Rc<Element>) {
        let depth = element.depth.get().saturating_sub(1);
        self.looks.depth.set(depth);
    }

    /// What lies in a template lies in it here, too.
    fn get_template_contents(&self, target: &Rc<Element>) -> Rc<Element> {
        target.clone()
    }

    fn same_node(&self, left: &Rc<Element>, right: &Rc<Element>) -> bool {
        Rc::ptr_eq(left, right)
    }

    fn set_quirks_mode(&self, _mode: QuirksMode) {}

    fn add_attrs_if_missing(&self, _target: &Rc<Element>, _attributes: Vec<Attribute>) {}

    fn remove_from_parent(&self, target: &Rc<Element>) {
        target.depth.set(0);
    }

    /// What is moved keeps the depth that it had: the parser moves nothing by more than a few steps.
    fn reparent_children(&self, _from: &Rc<Element>, _to: &Rc<Element>) {}

    fn is_mathml_annotation_xml_integration_point(&self, handle: &Rc<Element>) -> bool {
        handle.is_integration_point
    }
}
