//! Programs that determine where matches of a part of an expression end, by following all paths through it at once.
//!
//! The time is at most the length of the text times the size of the program, whatever the expression is.

use regex_syntax::hir::{ClassUnicode, Look};

use super::{invalid, parse::Node};
use crate::error::Result;

/// The maximum number of steps of a program; longer ones are too complex.
const STEPS_MAX: usize = 20_000;
/// The number of characters between checks whether to go on.
const CHECK_EVERY: usize = 4096;

#[derive(Debug)]
enum Step {
    /// Matches a character of the set, and continues with the next step.
    Set(ClassUnicode),
    Look(Look),
    /// Continues with both steps.
    Split(usize, usize),
    Jump(usize),
    Match,
}

/// The direction in which a program reads a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Forward,
    Backward,
}

#[derive(Debug)]
pub(super) struct Program {
    steps: Vec<Step>,
    direction: Direction,
}

impl Program {
    /// Compiles parts that follow one another.
    pub(super) fn new(parts: &[Node], direction: Direction) -> Result<Self> {
        let mut program = Self { steps: Vec::new(), direction };
        program.concat(parts)?;
        program.push(Step::Match)?;
        Ok(program)
    }

    /// Compiles a repetition of a part.
    pub(super) fn repeated(node: &Node, min: u32, max: Option<u32>, direction: Direction) -> Result<Self> {
        let mut program = Self { steps: Vec::new(), direction };
        program.repeat(node, min, max)?;
        program.push(Step::Match)?;
        Ok(program)
    }

    fn push(&mut self, step: Step) -> Result<usize> {
        if self.steps.len() >= STEPS_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    fn concat(&mut self, parts: &[Node]) -> Result<()> {
        match self.direction {
            Direction::Forward => parts.iter().try_for_each(|part| self.node(part)),
            Direction::Backward => parts.iter().rev().try_for_each(|part| self.node(part)),
        }
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        match node {
            Node::Set(set) => self.push(Step::Set(set.clone())).map(drop),
            Node::Look(look) => self.push(Step::Look(*look)).map(drop),
            Node::Concat(parts) => self.concat(parts),
            Node::Group(_, inner) => self.node(inner),
            Node::Repeat { node, min, max, .. } => self.repeat(node, *min, *max),
            Node::Alternate(branches) => {
                let mut ends = Vec::new();
                for branch in branches {
                    let split = self.push(Step::Split(0, 0))?;
                    self.node(branch)?;
                    ends.push(self.push(Step::Jump(0))?);
                    self.steps[split] = Step::Split(split + 1, self.steps.len());
                }
                // The last split leads nowhere else.
                let dead = self.push(Step::Set(ClassUnicode::empty()))?;
                ends.into_iter().for_each(|end| self.steps[end] = Step::Jump(dead + 1));
                Ok(())
            }
        }
    }

    fn repeat(&mut self, node: &Node, min: u32, max: Option<u32>) -> Result<()> {
        for _ in 0..min {
            self.node(node)?;
        }
        match max {
            None => {
                let split = self.push(Step::Split(0, 0))?;
                self.node(node)?;
                self.push(Step::Jump(split))?;
                self.steps[split] = Step::Split(split + 1, self.steps.len());
            }
            Some(max) => {
                let mut splits = Vec::new();
                for _ in min..max {
                    splits.push(self.push(Step::Split(0, 0))?);
                    self.node(node)?;
                }
                let end = self.steps.len();
                splits.into_iter().for_each(|split| self.steps[split] = Step::Split(split + 1, end));
            }
        }
        Ok(())
    }

    /// Passes the ends of matches that begin at `from` and do not exceed `to` to `see`, the nearest first, until `see`
    /// returns true.
    pub(super) fn ends(
        &self,
        text: &str,
        from: usize,
        to: usize,
        check: &dyn Fn() -> Result<()>,
        see: &mut dyn FnMut(usize) -> bool,
    ) -> Result<()> {
        let mut now = Ways::new(self.steps.len());
        let mut next = Ways::new(self.steps.len());
        let (mut at, mut count) = (from, 0usize);
        let mut is_match = now.follow(self, 0, text, at);
        loop {
            if is_match && see(at) {
                return Ok(());
            }
            let character = match self.direction {
                _ if at == to || now.steps.is_empty() => return Ok(()),
                Direction::Forward => text[at..to].chars().next(),
                Direction::Backward => text[to..at].chars().next_back(),
            };
            let Some(character) = character else { return Ok(()) };
            at = match self.direction {
                Direction::Forward => at + character.len_utf8(),
                Direction::Backward => at - character.len_utf8(),
            };
            next.clear();
            is_match = false;
            for &step in &now.steps {
                if let Step::Set(set) = &self.steps[step]
                    && contains(set, character)
                {
                    is_match |= next.follow(self, step + 1, text, at);
                }
            }
            std::mem::swap(&mut now, &mut next);
            count += 1;
            if count.is_multiple_of(CHECK_EVERY) {
                check()?;
            }
        }
    }

    /// Whether a stretch of text is a match as a whole.
    pub(super) fn matches(&self, text: &str, from: usize, to: usize, check: &dyn Fn() -> Result<()>) -> Result<bool> {
        let mut found = false;
        self.ends(text, from, to, check, &mut |end| {
            found |= end == to;
            found
        })?;
        Ok(found)
    }
}

fn contains(set: &ClassUnicode, character: char) -> bool {
    match set.ranges() {
        [] => false,
        [only] => (only.start()..=only.end()).contains(&character),
        ranges => {
            let at = ranges.partition_point(|range| range.end() < character);
            ranges.get(at).is_some_and(|range| range.start() <= character)
        }
    }
}

/// Steps that wait for a character, each once.
struct Ways {
    steps: Vec<usize>,
    is_there: Vec<bool>,
    visited: Vec<usize>,
    stack: Vec<usize>,
}

impl Ways {
    fn new(steps: usize) -> Self {
        Self { steps: Vec::new(), is_there: vec![false; steps], visited: Vec::new(), stack: Vec::new() }
    }

    fn clear(&mut self) {
        self.steps.clear();
        self.visited.drain(..).for_each(|step| self.is_there[step] = false);
    }

    /// Follows a step as far as possible without a character; returns whether a match ends here.
    fn follow(&mut self, program: &Program, step: usize, text: &str, at: usize) -> bool {
        let mut is_match = false;
        self.stack.push(step);
        while let Some(step) = self.stack.pop() {
            if std::mem::replace(&mut self.is_there[step], true) {
                continue;
            }
            self.visited.push(step);
            match &program.steps[step] {
                Step::Set(_) => self.steps.push(step),
                Step::Look(look) if holds(*look, text, at) => self.stack.push(step + 1),
                Step::Look(_) => {}
                Step::Split(one, other) => self.stack.extend([*other, *one]),
                Step::Jump(to) => self.stack.push(*to),
                Step::Match => is_match = true,
            }
        }
        is_match
    }
}

/// Whether an assertion holds at a place in a text.
fn holds(look: Look, text: &str, at: usize) -> bool {
    let (before, after) = (text[..at].chars().next_back(), text[at..].chars().next());
    let is_ascii = matches!(look, Look::WordAscii | Look::WordAsciiNegate | Look::WordStartAscii | Look::WordEndAscii);
    let is_word = |character: Option<char>| {
        character.is_some_and(|c| (c.is_alphanumeric() || c == '_') && (c.is_ascii() || !is_ascii))
    };
    let words = (is_word(before), is_word(after));
    match look {
        Look::Start => before.is_none(),
        Look::End => after.is_none(),
        Look::StartLF => before.is_none_or(|character| character == '\n'),
        Look::EndLF => after.is_none_or(|character| character == '\n'),
        Look::WordUnicodeNegate | Look::WordAsciiNegate => words.0 == words.1,
        Look::WordStartUnicode | Look::WordStartAscii => words == (false, true),
        Look::WordEndUnicode | Look::WordEndAscii => words == (true, false),
        // The parser creates only two of the others, `\y` for either collation.
        _ => words.0 != words.1,
    }
}
