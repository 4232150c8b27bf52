//! The templates of kerchunk's JSON, as far as they are simple: `{{name}}`, whole numbers with `+ - * // %`, and templates
//! with arguments, `{{name(key=value)}}`. They are a small part of Jinja's language.

use std::cell::Cell;
use std::collections::HashMap;

/// Expressions of one document, at most.
const MAX_STEPS: u64 = 10_000_000;
/// Templates within templates, at most.
const MAX_DEPTH: usize = 8;
/// Length of a text, at most (bytes).
const MAX_TEXT: usize = 1 << 16;

/// What an expression gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
}

impl Term {
    fn text(self) -> String {
        match self {
            Term::Number(n) => n.to_string(),
            Term::Text(t) => t,
        }
    }
}

/// Named templates.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    /// Text by name.
    pub texts: HashMap<String, String>,
    steps: Cell<u64>,
}

/// Values of variables.
pub type Variables = HashMap<String, Term>;

impl Templates {
    /// A text with its expressions replaced.
    ///
    /// # Errors
    /// What is not simple, or not defined.
    pub fn render(&self, text: &str, variables: &Variables) -> Result<String, String> {
        self.rendered(text, variables, 0)
    }

    fn rendered(&self, text: &str, variables: &Variables, depth: usize) -> Result<String, String> {
        if depth > MAX_DEPTH {
            return Err("templates are nested too deeply".into());
        }
        if text.contains("{%") || text.contains("{#") {
            return Err(format!("\"{text}\" is not a simple template"));
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            self.steps.set(self.steps.get() + 1);
            if self.steps.get() > MAX_STEPS {
                return Err("there are too many expressions in templates".into());
            }
            let end = rest[at..].find("}}").ok_or_else(|| format!("\"{text}\": {{{{ has no end"))?;
            out.push_str(&rest[..at]);
            let mut parser = Parser { rest: rest[at + 2..at + end].trim(), all: self, variables, depth };
            let value = parser.sum(0)?;
            if !parser.rest.is_empty() {
                return Err(format!("\"{}\" is not a simple expression", &rest[at + 2..at + end]));
            }
            out.push_str(&value.text());
            if out.len() > MAX_TEXT {
                return Err("a template gives too long a text".into());
            }
            rest = &rest[at + end + 2..];
        }
        out.push_str(rest);
        Ok(out)
    }
}

struct Parser<'a> {
    rest: &'a str,
    all: &'a Templates,
    variables: &'a Variables,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn sum(&mut self, level: usize) -> Result<Term, String> {
        let mut left = self.product(level)?;
        loop {
            let plus = self.take("+");
            if !plus && !self.take("-") {
                return Ok(left);
            }
            let right = self.product(level)?;
            left = numbers(left, right, |a, b| if plus { a.checked_add(b) } else { a.checked_sub(b) })?;
        }
    }

    fn product(&mut self, level: usize) -> Result<Term, String> {
        let mut left = self.factor(level)?;
        loop {
            let operation: fn(i64, i64) -> Option<i64> = if self.take("*") {
                i64::checked_mul
            } else if self.take("//") {
                // As Python: towards minus infinity.
                |a, b| a.checked_div_euclid(b).filter(|_| b > 0)
            } else if self.take("%") {
                |a, b| a.checked_rem_euclid(b).filter(|_| b > 0)
            } else {
                return Ok(left);
            };
            let right = self.factor(level)?;
            left = numbers(left, right, operation)?;
        }
    }

    fn factor(&mut self, level: usize) -> Result<Term, String> {
        let not_simple = |rest: &str| format!("\"{rest}\" is not a simple expression");
        if level > MAX_DEPTH {
            return Err(not_simple(self.rest));
        }
        if self.take("(") {
            let value = self.sum(level + 1)?;
            return if self.take(")") { Ok(value) } else { Err(not_simple(self.rest)) };
        }
        if self.take("-") {
            return numbers(Term::Number(0), self.factor(level + 1)?, i64::checked_sub);
        }
        for quote in ["'", "\""] {
            if let Some(rest) = self.rest.strip_prefix(quote) {
                let end = rest.find(quote).ok_or_else(|| not_simple(rest))?;
                let text = rest[..end].to_owned();
                self.rest = rest[end + 1..].trim_start();
                return if text.contains('\\') { Err(not_simple(&text)) } else { Ok(Term::Text(text)) };
            }
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            let digits = self.word(|c| c.is_ascii_digit());
            return digits.parse().map(Term::Number).map_err(|_| not_simple(digits));
        }
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() {
            return Err(not_simple(self.rest));
        }
        let mut variables = Variables::new();
        if self.take("(") {
            while !self.take(")") {
                let key = self.word(|c| c.is_ascii_alphanumeric() || c == '_').to_owned();
                if key.is_empty() || !self.take("=") {
                    return Err(not_simple(self.rest));
                }
                let value = self.sum(level + 1)?;
                variables.insert(key, value);
                self.take(",");
            }
        } else if let Some(value) = self.variables.get(name) {
            return Ok(value.clone());
        }
        let template = self.all.texts.get(name).ok_or_else(|| format!("there is no template \"{name}\""))?;
        self.all.rendered(template, &variables, self.depth + 1).map(Term::Text)
    }
}

fn numbers(a: Term, b: Term, f: impl Fn(i64, i64) -> Option<i64>) -> Result<Term, String> {
    match (a, b) {
        (Term::Number(a), Term::Number(b)) => {
            f(a, b).map(Term::Number).ok_or_else(|| format!("{a} and {b} can't be calculated with"))
        }
        (a, b) => Err(format!("\"{}\" and \"{}\" are not both numbers", a.text(), b.text())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of kerchunk's specification.
    #[test]
    fn of_the_specification() {
        let mut all = Templates::default();
        all.texts.insert("u".into(), "server.domain/path".into());
        all.texts.insert("f".into(), "{{c}}".into());
        let mut variables = Variables::new();
        let render = |text: &str, v: &Variables| all.render(text, v);
        assert_eq!(render("s3://{{u}}", &variables).unwrap(), "s3://server.domain/path");
        assert_eq!(render("{{f(c='text')}}", &variables).unwrap(), "text");
        variables.insert("i".into(), Term::Number(3));
        assert_eq!(render("http://{{u}}_{{i}}", &variables).unwrap(), "http://server.domain/path_3");
        assert_eq!(render("{{(i + 1) * 1000}}", &variables).unwrap(), "4000");
        assert_eq!(render("{{ i // 2 }}x{{ -i % 2 }}", &variables).unwrap(), "1x1");
    }

    #[test]
    fn not_simple() {
        let mut all = Templates::default();
        all.texts.insert("loop".into(), "{{loop}}{{loop}}".into());
        for text in
            ["{{x}}", "{{", "{{1 +}}", "{{'%02d' % 1}}", "{% for %}", "{{loop}}", "{{1//0}}", "{{a.b}}", "{{f(}}"]
        {
            assert!(all.render(text, &Variables::new()).is_err(), "{text}");
        }
    }
}
