//! Objects of web servers and buckets, read by one request for each range: none to look whether they are there, how large
//! they are, or what lies beside them.

use super::ffi;
use super::thread_config::ThreadConfig;
use super::vsi_reader::{Quiet, c_path};
use crate::io::{ByteReader, Stat};
use crate::{Error, Result};
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

/// Bytes that are asked for where the size is not known yet, and of metadata at least.
const HEAD: u64 = 128 << 10;
/// Of a server that knows no ranges, a body of this many bytes is taken.
const WHOLE: u64 = 256 << 20;

/// An object behind a URL.
pub(super) struct HttpFile {
    path: String,
    config: ThreadConfig,
    known: Mutex<Known>,
}

/// What answers have told.
#[derive(Default)]
struct Known {
    stat: Option<Stat>,
    /// The first bytes, or all.
    head: Vec<u8>,
}

/// A connection of a thread, kept from one request to the next.
struct Session(CString);

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: a text.
        unsafe { ffi::mr_http_close(self.0.as_ptr()) };
    }
}

thread_local! {
    static SESSION: Session = {
        let name = format!("mdimrefs {:?}", std::thread::current().id());
        Session(CString::new(name).unwrap_or_default())
    };
}

/// A URL, freed when dropped.
struct Url(*mut c_char);

impl Drop for Url {
    fn drop(&mut self) {
        // SAFETY: from mr_url, freed once.
        unsafe { ffi::mr_url_free(self.0) };
    }
}

struct Answer(*mut ffi::MrAnswer);

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: from mr_http_get, freed once.
        unsafe { ffi::mr_answer_free(self.0) };
    }
}

impl Answer {
    fn error(&self) -> Option<String> {
        // SAFETY: a text of the answer, or null.
        let text = unsafe { ffi::mr_answer_error(self.0) };
        // SAFETY: as above.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    fn header(&self, name: &CStr) -> Option<String> {
        // SAFETY: a text of the answer, or null.
        let text = unsafe { ffi::mr_answer_header(self.0, name.as_ptr()) };
        // SAFETY: as above.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned())
    }

    fn body(&self) -> &[u8] {
        let mut length = 0;
        // SAFETY: the answer's bytes, which live as long as it.
        unsafe {
            let bytes = ffi::mr_answer_body(self.0, &raw mut length);
            if bytes.is_null() { &[] } else { std::slice::from_raw_parts(bytes, length) }
        }
    }

    /// First byte, byte after the last, and size of the object: `bytes 10-19/100`.
    fn range(&self) -> Option<(u64, u64, Option<u64>)> {
        let text = self.header(c"Content-Range")?;
        let (range, size) = text.strip_prefix("bytes")?.trim_start().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        Some((first.trim().parse().ok()?, last.trim().parse::<u64>().ok()?.checked_add(1)?, size.trim().parse().ok()))
    }
}

impl HttpFile {
    /// An object by its VSI path; None if it is none of a web server or a bucket that can be asked so.
    pub fn new(path: &str, config: &ThreadConfig) -> Result<Option<HttpFile>> {
        config.give();
        Ok(HttpFile::url(path)?.map(|_| HttpFile {
            path: path.to_owned(),
            config: config.clone(),
            known: Mutex::default(),
        }))
    }

    fn url(path: &str) -> Result<Option<Url>> {
        let name = c_path(path)?;
        // SAFETY: a text; what comes back is freed by Url.
        let url = unsafe { ffi::mr_url(name.as_ptr()) };
        Ok((!url.is_null()).then_some(Url(url)))
    }

    fn error(&self, what: String) -> Error {
        Error::Io { path: self.path.clone(), what }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One request.
    fn ask(&self, offset: u64, length: u64) -> Result<Answer> {
        let quiet = Quiet::new(&self.config);
        let name = c_path(&self.path)?;
        let failed = |why: String| self.error(format!("{length} bytes at {offset} could not be read: {why}"));
        let url = HttpFile::url(&self.path)?.ok_or_else(|| failed("there is no URL for it".into()))?;
        let most = WHOLE.max(length.saturating_add(1024));
        // SAFETY: texts that live through the call; what comes back is freed by Answer.
        let answer =
            SESSION.with(|s| unsafe { ffi::mr_http_get(url.0, name.as_ptr(), offset, length, most, s.0.as_ptr()) });
        if answer.is_null() {
            return Err(failed(quiet.message()));
        }
        let answer = Answer(answer);
        if let Some(why) = answer.error() {
            return Err(failed(why));
        }
        if let Some(coding) = answer.header(c"Content-Encoding").filter(|c| !c.eq_ignore_ascii_case("identity")) {
            return Err(failed(format!("the server sent it encoded ({coding})")));
        }
        self.learn(&answer);
        Ok(answer)
    }

    /// Notes what an answer tells of the object.
    fn learn(&self, answer: &Answer) {
        let size = match answer.range() {
            Some((.., size)) => size,
            None => Some(answer.body().len() as u64),
        };
        let date = answer.header(c"Last-Modified").and_then(|d| httpdate::parse_http_date(&d).ok());
        let mtime = date.and_then(|d| d.duration_since(UNIX_EPOCH).ok()).map(|d| d.as_secs() as i64);
        let etag = answer.header(c"ETag").map(|t| t.trim_matches('"').to_owned());
        self.known().stat.get_or_insert(Stat { size, mtime, etag });
    }

    /// The object's first bytes, and what is known of it.
    fn look(&self) -> Result<Stat> {
        if let Some(stat) = self.known().stat.clone().filter(|s| s.size.is_some()) {
            return Ok(stat);
        }
        let answer = self.ask(0, HEAD)?;
        let body = answer.body();
        let stat = match answer.range() {
            None => None,
            Some((0, end, Some(size))) if end == body.len() as u64 && (end == size || end == HEAD) => None,
            Some((first, end, _)) => {
                Some(format!("bytes 0-{} were asked for, {} bytes of {first}-{} came", HEAD - 1, body.len(), end - 1))
            }
        };
        if let Some(what) = stat {
            return Err(self.error(what));
        }
        let mut known = self.known();
        known.head = body.to_vec();
        known.stat.clone().ok_or_else(|| self.error("its size is not known".into()))
    }
}

impl ByteReader for HttpFile {
    fn size(&self) -> Result<u64> {
        self.look()?.size.ok_or_else(|| self.error("its size is not known".into()))
    }

    fn stat(&self) -> Result<Option<Stat>> {
        self.look().map(Some)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let length = buf.len() as u64;
        let in_head = |known: &Known| {
            let start = usize::try_from(offset).ok()?;
            known.head.get(start..start.checked_add(buf.len())?).map(<[u8]>::to_vec)
        };
        if let Some(bytes) = in_head(&self.known()) {
            buf.copy_from_slice(&bytes);
            return Ok(());
        }
        let answer = self.ask(offset, length)?;
        let body = answer.body();
        let bytes = match answer.range() {
            // The whole object: kept, as each request would bring it again.
            None => usize::try_from(offset).ok().and_then(|at| body.get(at..at.checked_add(buf.len())?)),
            Some((first, end, _)) => (first == offset && end.checked_sub(first) == Some(length))
                .then_some(body)
                .filter(|b| b.len() == buf.len()),
        };
        let bytes = bytes.ok_or_else(|| {
            let came = match answer.range() {
                Some((first, end, _)) => format!("{} bytes of {first}-{} came", body.len(), end.saturating_sub(1)),
                None => format!("a whole object of {} bytes came", body.len()),
            };
            self.error(format!("{length} bytes at {offset} could not be read: {came}"))
        })?;
        buf.copy_from_slice(bytes);
        if answer.range().is_none() {
            self.known().head = body.to_vec();
        }
        Ok(())
    }

    fn worth_reading(&self) -> u64 {
        HEAD
    }

    fn path(&self) -> &str {
        &self.path
    }
}
