//! Regular expressions in the syntax and semantics of POSIX and PostgreSQL.
//!
//! The position where a match begins is the same in all kinds of regular expressions, so the automata of a crate search
//! for it. The choice among the matches that begin there differs: here the longest is taken, or the shortest where the
//! expression prefers that (PostgreSQL, 9.7.3.5), and groups further to the left choose their parts first. [`program`]
//! determines this, part by part, once the match is known.
//!
//! The time is bounded by the text's length times the expression's, times the length once more for groups in
//! repetitions. Long operations check from time to time whether to go on.
//!
//! Tried and rejected: an automaton with Perl's preferences, with alternatives sorted by length. No order of
//! `(a|ab)(c|bcd)` is right.

mod parse;
mod program;

use std::{cell::OnceCell, cell::RefCell, ops::Range, rc::Rc};

use regex_automata::{Input, meta};

use self::{
    parse::Node,
    program::{Direction, Program},
};
use crate::error::{Result, SqlError, SqlState};

pub(crate) use self::parse::Flags;

/// The memory limit of a compiled expression.
const COMPILED_SIZE_MAX: usize = 1 << 20;
/// The number of compiled expressions that each thread keeps.
const CACHED_MAX: usize = 16;

fn invalid(reason: &str) -> SqlError {
    SqlError::new(SqlState("2201B"), format!("invalid regular expression: {reason}"))
}

/// A compiled expression.
pub(crate) struct Posix {
    search: meta::Regex,
    tree: Node,
    groups: usize,
    whole: OnceCell<Program>,
}

/// The ranges of a match and its groups, in bytes; the whole match comes first.
pub(crate) type Groups = Vec<Option<Range<usize>>>;

type Cached = (String, Flags, Rc<Posix>);

thread_local! {
    /// The expressions used most recently, the latest first.
    static CACHE: RefCell<Vec<Cached>> = const { RefCell::new(Vec::new()) };
}

impl Posix {
    /// Returns the compiled expression, from the cache if possible.
    pub(crate) fn new(pattern: &str, flags: Flags) -> Result<Rc<Self>> {
        let flags = Flags { is_global: false, ..flags };
        let cached = CACHE.with_borrow_mut(|cache| {
            let at = cache.iter().position(|entry| entry.0 == pattern && entry.1 == flags)?;
            cache[..=at].rotate_right(1);
            Some(Rc::clone(&cache[0].2))
        });
        if let Some(known) = cached {
            return Ok(known);
        }
        let (tree, groups) = parse::parse(pattern, flags)?;
        let config =
            meta::Config::new().nfa_size_limit(Some(COMPILED_SIZE_MAX)).hybrid_cache_capacity(COMPILED_SIZE_MAX);
        let search = meta::Builder::new().configure(config).build_from_hir(&tree.to_hir());
        let search = search.map_err(|_| invalid("regular expression is too complex"))?;
        let compiled = Rc::new(Self { search, tree, groups, whole: OnceCell::new() });
        CACHE.with_borrow_mut(|cache| {
            cache.truncate(CACHED_MAX - 1);
            cache.insert(0, (pattern.to_owned(), flags, Rc::clone(&compiled)));
        });
        Ok(compiled)
    }

    /// Returns the number of its groups.
    pub(crate) fn groups(&self) -> usize {
        self.groups
    }

    /// Whether it matches anywhere.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.search.is_match(text)
    }

    /// Returns the first match that begins at `from` or later, and its groups. Calls `check` from time to time to
    /// decide whether to go on.
    pub(crate) fn find(&self, text: &str, from: usize, check: &dyn Fn() -> Result<()>) -> Result<Option<Groups>> {
        let input = Input::new(text).range(from..);
        let Some(start) = self.search.search(&input).map(|found| found.start()) else { return Ok(None) };
        let whole = match self.whole.get() {
            Some(whole) => whole,
            None => {
                let whole = Program::new(std::slice::from_ref(&self.tree), Direction::Forward)?;
                self.whole.get_or_init(|| whole)
            }
        };
        let prefers_short = self.tree.is_greedy() == Some(false);
        let mut end = None;
        whole.ends(text, start, text.len(), check, &mut |found| {
            end = Some(found);
            prefers_short
        })?;
        let Some(end) = end else { return Ok(None) };
        let mut groups = vec![None; self.groups + 1];
        Division { text, check, groups: &mut groups }.divide(&self.tree, start, end)?;
        groups[0] = Some(start..end);
        Ok(Some(groups))
    }
}

/// Assigns the parts of a match to the groups.
struct Division<'d> {
    text: &'d str,
    check: &'d dyn Fn() -> Result<()>,
    groups: &'d mut Groups,
}

impl Division<'_> {
    /// Divides a part whose match is `from..to`.
    fn divide(&mut self, node: &Node, from: usize, to: usize) -> Result<()> {
        (self.check)()?;
        match node {
            Node::Set(_) | Node::Look(_) => Ok(()),
            Node::Group(number, inner) => {
                self.groups[*number] = Some(from..to);
                self.divide(inner, from, to)
            }
            Node::Alternate(branches) if node.has_groups() => {
                for branch in branches {
                    let program = Program::new(std::slice::from_ref(branch), Direction::Forward)?;
                    if program.matches(self.text, from, to, self.check)? {
                        return self.divide(branch, from, to);
                    }
                }
                Ok(())
            }
            Node::Concat(parts) => self.divide_concat(parts, from, to),
            Node::Repeat { node: inner, min: 0, max, .. } if node.has_groups() => {
                self.divide_repeat(inner, *max, from, to)
            }
            Node::Repeat { node: inner, min, max, .. } if node.has_groups() => {
                let before = (*min - 1, max.map(|max| max - 1));
                self.divide_last(inner, before, node.is_greedy() == Some(false), from, to)
            }
            Node::Alternate(_) | Node::Repeat { .. } => Ok(()),
        }
    }

    /// Gives the first part the match that it prefers among those that leave a match for the others.
    fn divide_concat(&mut self, mut parts: &[Node], mut from: usize, to: usize) -> Result<()> {
        while let [first, rest @ ..] = parts {
            if !parts.iter().any(Node::has_groups) {
                return Ok(());
            }
            let middle = if rest.is_empty() {
                Some(to)
            } else {
                let begins = self.begins(&Program::new(rest, Direction::Backward)?, from, to)?;
                self.choose(first, from, to, |place| begins.binary_search(&place).is_ok())?
            };
            let Some(middle) = middle else { return Ok(()) };
            self.divide(first, from, middle)?;
            (parts, from) = (rest, middle);
        }
        Ok(())
    }

    /// Divides the last of some repetitions, which determines the groups, where there is one at least. The numbers of
    /// those `before` it take what they prefer first.
    fn divide_last(
        &mut self,
        inner: &Node,
        (min, max): (u32, Option<u32>),
        prefers_short: bool,
        from: usize,
        to: usize,
    ) -> Result<()> {
        let begins = self.begins(&Program::new(std::slice::from_ref(inner), Direction::Backward)?, from, to)?;
        let mut middle = None;
        Program::repeated(inner, min, max, Direction::Forward)?.ends(self.text, from, to, self.check, &mut |end| {
            if begins.binary_search(&end).is_ok() {
                middle = Some(end);
            }
            prefers_short && middle.is_some()
        })?;
        middle.map_or(Ok(()), |middle| self.divide(inner, middle, to))
    }

    /// Divides any number of repetitions, one after the other.
    fn divide_repeat(&mut self, inner: &Node, max: Option<u32>, mut from: usize, to: usize) -> Result<()> {
        // The positions from which any number of repetitions reaches the end. The remaining number counts only if it is
        // bounded.
        let any = self.begins(&Program::repeated(inner, 0, None, Direction::Backward)?, from, to)?;
        let mut count = 0;
        while from < to {
            count += 1;
            let left = max.map(|max| Program::repeated(inner, 0, Some(max.saturating_sub(count)), Direction::Backward));
            let exact = left.transpose()?.map(|program| self.begins(&program, from, to)).transpose()?;
            let begins = exact.as_ref().unwrap_or(&any);
            let start = from;
            let next = self.choose(inner, from, to, |place| place > start && begins.binary_search(&place).is_ok())?;
            let Some(next) = next else { return Ok(()) };
            self.forget(inner);
            self.divide(inner, from, next)?;
            from = next;
        }
        Ok(())
    }

    /// Clears the groups of a part that is matched once more.
    fn forget(&mut self, node: &Node) {
        match node {
            Node::Set(_) | Node::Look(_) => {}
            Node::Concat(parts) | Node::Alternate(parts) => parts.iter().for_each(|part| self.forget(part)),
            Node::Repeat { node, .. } => self.forget(node),
            Node::Group(number, inner) => {
                self.groups[*number] = None;
                self.forget(inner);
            }
        }
    }

    /// Returns the positions where matches that end at `to` begin, in order.
    fn begins(&self, program: &Program, from: usize, to: usize) -> Result<Vec<usize>> {
        let mut begins = Vec::new();
        program.ends(self.text, to, from, self.check, &mut |begin| {
            begins.push(begin);
            false
        })?;
        begins.reverse();
        Ok(begins)
    }

    /// Returns the end that a part prefers among those that are allowed.
    fn choose(&self, node: &Node, from: usize, to: usize, is_allowed: impl Fn(usize) -> bool) -> Result<Option<usize>> {
        let prefers_short = node.is_greedy() == Some(false);
        let mut chosen = None;
        let program = Program::new(std::slice::from_ref(node), Direction::Forward)?;
        program.ends(self.text, from, to, self.check, &mut |end| {
            if is_allowed(end) {
                chosen = Some(end);
            }
            prefers_short && chosen.is_some()
        })?;
        Ok(chosen)
    }
}

/// Expands `\1` and `\&` in a replacement.
pub(crate) fn expand(replacement: &str, text: &str, groups: &Groups, out: &mut String) {
    let group = |number: usize| groups.get(number).cloned().flatten().map_or("", |range| &text[range]);
    let mut characters = replacement.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('&') => out.push_str(group(0)),
            Some(digit @ '1'..='9') => out.push_str(group(digit as usize - '0' as usize)),
            Some('\\') => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> Option<Vec<Option<String>>> {
        let groups = Posix::new(pattern, Flags::default()).unwrap().find(text, 0, &|| Ok(())).unwrap()?;
        Some(groups.into_iter().map(|range| range.map(|range| text[range].to_owned())).collect())
    }

    /// The results of PostgreSQL 15: `regexp_match(text, '(' || pattern || ')')`.
    #[test]
    fn the_longest_match_is_taken() {
        for (pattern, text, expected) in [
            (".|...", "xyz", "xyz"),
            ("a|ab|abc", "xabcd", "abc"),
            ("(a|ab)(c|bcd)(d*)", "abcd", "abcd ab c d"),
            ("(a+)(a*)", "aaa", "aaa aaa "),
            ("(a+?)(a*)", "aaa", "a a "),
            ("(?:a+?)(a*)", "aaa", "a "),
            ("(a|b)*", "abba", "abba a"),
            ("((a)|(b))*", "ab", "ab b - b"),
            ("(a{1,2}){2}", "aaa", "aaa a"),
            ("x*", "aaa", ""),
            ("a{2}?b*", "aabb", "aabb"),
            ("a.*?c", "abcc", "abc"),
            ("(?:a|b).*?c", "abcc", "abcc"),
            ("a|.*?c", "abcc", "abcc"),
            ("(a*)+", "b", " "),
            ("()a", "a", "a "),
            (r"\mfoo\M", "a foo", "foo"),
            (r"[[:<:]]o+", "foo oo", "oo"),
            ("[]a]+", "x]a]", "]a]"),
            ("[^]a]+", "]xy]", "xy"),
            (r"[\d-]+", "a1-2", "1-2"),
            ("a{,2}", "a{,2}", "a{,2}"),
            ("(?i)ABC", "xabc", "abc"),
            ("***=a.b", "axb a.b", "a.b"),
            ("(?x) a b # c", "ab", "ab"),
            ("\\u00e9", "caf\u{e9}", "\u{e9}"),
        ] {
            let shown = found(pattern, text).map(|groups| {
                let groups: Vec<_> = groups.into_iter().map(|group| group.unwrap_or("-".into())).collect();
                groups.join(" ")
            });
            assert_eq!(shown.as_deref(), Some(expected), "{pattern} in {text}");
        }
        assert_eq!(found("b", "a"), None);
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for pattern in
            ["(", ")", "a**", "*a", "^*", "[a", "[b-a]", "a{3,2}", "a{256}", r"\q", r"a\", "(?<a)", "[[:no:]]"]
        {
            let error = Posix::new(pattern, Flags::default()).map(drop).unwrap_err();
            assert_eq!(error.state().0, "2201B", "{pattern}");
        }
        for pattern in ["(?=a)", "(?<!a)", r"(a)\1"] {
            let error = Posix::new(pattern, Flags::default()).map(drop).unwrap_err();
            assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED, "{pattern}");
        }
    }

    #[test]
    fn groups_of_long_texts_are_found() {
        let text = "ab".repeat(2000);
        let groups = Posix::new("(a|b|ab)*(b*)", Flags::default()).unwrap().find(&text, 0, &|| Ok(())).unwrap();
        assert_eq!(groups.unwrap()[0], Some(0..4000));
    }
}
