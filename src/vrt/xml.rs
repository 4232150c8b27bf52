//! XML as a stream of elements. Bounded: no DTD, no entities but XML's own five, a stated depth.

use crate::{Error, Result};
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::borrow::Cow;

/// Elements may lie this deep in each other. GDAL's own VRTs need 6 and one more for each nested group.
const MAX_DEPTH: usize = 100;

/// Walks the elements of a document in order.
///
/// Who gets an [`Element`] must read it to its end before anything else: with [`Xml::child`] until None, with
/// [`Xml::text`], or with [`Xml::skip`].
pub(super) struct Xml<'a> {
    path: &'a str,
    reader: Reader<&'a [u8]>,
    depth: usize,
}

/// A start tag.
pub(super) struct Element<'a> {
    start: BytesStart<'a>,
    offset: u64,
}

impl Element<'_> {
    /// Name, with its prefix if it has one.
    pub(super) fn name(&self) -> &str {
        self.start.name().into_inner()
    }
}

impl<'a> Xml<'a> {
    /// A walk of `text`; `path` is for messages.
    pub(super) fn new(path: &'a str, text: &'a str) -> Xml<'a> {
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        Xml { path, reader, depth: 0 }
    }

    /// The next element inside the one being read, or None at its end. Text and comments are passed over.
    ///
    /// # Errors
    /// [`Error::Format`] if the text is not XML, ends early, or is nested too deeply.
    pub(super) fn child(&mut self) -> Result<Option<Element<'a>>> {
        loop {
            match self.event()? {
                Event::Start(start) => return Ok(Some(Element { start, offset: self.reader.buffer_position() })),
                Event::End(_) => return Ok(None),
                Event::Eof if self.depth == 0 => return Ok(None),
                Event::Eof => return Err(self.early_end()),
                _ => {}
            }
        }
    }

    /// The text of the element being read, up to its end, as written.
    ///
    /// # Errors
    /// [`Error::Format`] as [`Xml::child`], or if there is an element inside.
    pub(super) fn text(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            match self.event()? {
                Event::End(_) => return Ok(text),
                Event::Text(t) => text.push_str(&t.xml10_content()),
                Event::CData(t) => text.push_str(&t.xml10_content()),
                Event::GeneralRef(r) => match r.resolve_char_ref().map_err(|e| self.bad(e))? {
                    Some(c) => text.push(c),
                    None => match resolve_predefined_entity(&r) {
                        Some(s) => text.push_str(s),
                        None => return Err(self.bad(format!("unknown entity &{};", &*r))),
                    },
                },
                Event::Start(s) => {
                    return Err(self.bad(format!("<{}> where there should be text", s.name().into_inner())));
                }
                Event::Eof => return Err(self.early_end()),
                _ => {}
            }
        }
    }

    /// Passes over the rest of the element being read.
    ///
    /// # Errors
    /// As [`Xml::child`].
    pub(super) fn skip(&mut self) -> Result<()> {
        let end = self.depth.saturating_sub(1);
        while self.depth > end {
            if matches!(self.event()?, Event::Eof) {
                return Err(self.early_end());
            }
        }
        Ok(())
    }

    /// An XML attribute of `element`; its name in any case, as GDAL does.
    ///
    /// # Errors
    /// [`Error::Format`] if the attributes of the element are not XML.
    pub(super) fn attribute<'e>(&self, element: &'e Element<'a>, name: &str) -> Result<Option<Cow<'e, str>>> {
        let bad = |what: String| self.format(element.offset, what);
        // Without the check for duplicates, which takes quadratic time.
        for attribute in element.start.attributes().with_checks(false) {
            let attribute = attribute.map_err(|e| bad(format!("<{}>: {e}", element.name())))?;
            if attribute.key.into_inner().eq_ignore_ascii_case(name) {
                let value = attribute.normalized_value(XmlVersion::Implicit1_0);
                return Ok(Some(value.map_err(|e| bad(format!("<{} {name}>: {e}", element.name())))?));
            }
        }
        Ok(None)
    }

    /// The next event, with the depth kept.
    fn event(&mut self) -> Result<Event<'a>> {
        let event = match self.reader.read_event() {
            Ok(event) => event,
            Err(e) => return Err(self.format(self.reader.error_position(), format!("not XML: {e}"))),
        };
        match &event {
            Event::Start(_) => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(self.bad(format!("elements are nested more than {MAX_DEPTH} deep")));
                }
            }
            Event::End(_) => self.depth = self.depth.saturating_sub(1),
            Event::DocType(_) => return Err(self.bad("a document type (<!DOCTYPE>) is not accepted")),
            _ => {}
        }
        Ok(event)
    }

    fn early_end(&self) -> Error {
        self.bad("the file ends inside an element")
    }

    fn bad(&self, what: impl std::fmt::Display) -> Error {
        self.format(self.reader.buffer_position(), what.to_string())
    }

    fn format(&self, offset: u64, what: String) -> Error {
        Error::Format { path: self.path.to_owned(), offset, what }
    }
}
