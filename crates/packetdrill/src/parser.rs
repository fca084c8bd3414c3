//! Tokens into a script.

mod expression;
mod packet;

use std::collections::HashMap;
use std::time::Duration;

use crate::error::{ParseError, Place};
use crate::lexer::{self, Lexeme, Token};
use crate::script::{Action, Code, Command, Event, Script, ScriptOption, Syscall, When};

type Parsed<T> = Result<T, (Place, String)>;

/// Reads the script `text`; `path` is for messages only.
pub fn parse(path: &str, text: &str) -> Result<Script, ParseError> {
    parse_with(path, text, &[])
}

/// As [`parse`]; each of `defines` is a word and what replaces it, as by `--define`.
pub fn parse_with<'text>(
    path: &str,
    text: &'text str,
    defines: &[(&str, &'text str)],
) -> Result<Script, ParseError> {
    let result = lexer::tokens(text).and_then(|tokens| {
        let mut parser = Parser::new(tokens);
        for (word, replacement) in defines {
            let replacement = lexer::tokens(replacement)?.swap_remove(0);
            parser
                .defines
                .insert((*word).to_owned(), (replacement.token, replacement.text));
        }
        parser.script(path)
    });
    result.map_err(|(place, message)| ParseError {
        path: path.to_owned(),
        place,
        message,
    })
}

struct Parser<'text> {
    tokens: Vec<Lexeme<'text>>,
    position: usize,
    /// What `--define` replaces, and how the replacement is written.
    defines: HashMap<String, (Token, &'text str)>,
}

impl<'text> Parser<'text> {
    fn new(tokens: Vec<Lexeme<'text>>) -> Self {
        Self {
            tokens,
            position: 0,
            defines: HashMap::new(),
        }
    }

    /// The next token, replaced if it is a defined word, and how it is written.
    fn peek_written(&self) -> (&Token, &'text str) {
        let Lexeme { token, text, .. } = &self.tokens[self.position];
        match token {
            Token::Word(word) => match self.defines.get(word) {
                Some((token, text)) => (token, text),
                None => (token, text),
            },
            _ => (token, text),
        }
    }

    fn peek(&self) -> &Token {
        self.peek_written().0
    }

    /// The token after the next one, as written.
    fn peek_second(&self) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[last.min(self.position + 1)].token
    }

    fn place(&self) -> Place {
        self.tokens[self.position].place
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        if self.position + 1 < self.tokens.len() {
            self.position += 1;
        }
        token
    }

    /// Takes the next token if it is the character `symbol`.
    fn take(&mut self, symbol: char) -> bool {
        let found = *self.peek() == Token::Symbol(symbol);
        if found {
            self.next();
        }
        found
    }

    /// Takes the next token if it is the word `word`.
    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(found) if found == word);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, symbol: char) -> Parsed<()> {
        if self.take(symbol) {
            Ok(())
        } else {
            self.fail(&format!("'{symbol}'"))
        }
    }

    /// The error that `expected` does not stand here.
    fn fail<T>(&self, expected: &str) -> Parsed<T> {
        let found = match self.peek_written() {
            (Token::End, _) => "the end of the script",
            (_, text) => text.lines().next().unwrap_or_default(),
        };
        Err((self.place(), format!("expected {expected}, found {found}")))
    }

    /// A whole number that fits `T`; `what` it is, for the error.
    fn integer<T: TryFrom<i64>>(&mut self, what: &str) -> Parsed<T> {
        let place = self.place();
        let (Token::Integer(number) | Token::Hex(number)) = *self.peek() else {
            return self.fail(what);
        };
        self.next();
        T::try_from(number).map_err(|_| (place, format!("{what} {number} is out of range")))
    }

    fn script(&mut self, path: &str) -> Parsed<Script> {
        let mut script = Script {
            path: path.to_owned(),
            options: Vec::new(),
            initial: None,
            events: Vec::new(),
            cleanup: None,
        };
        while let Token::Option(name) = self.peek().clone() {
            let option = self.option(name)?;
            script.options.push(option);
        }
        script.initial = self.command();
        while *self.peek() != Token::End {
            if let Some(command) = self.command() {
                script.cleanup = Some(command);
                if *self.peek() != Token::End {
                    return self.fail("the end of the script after the cleanup command");
                }
            } else {
                script.events.push(self.event()?);
            }
        }
        Ok(script)
    }

    fn option(&mut self, name: String) -> Parsed<ScriptOption> {
        let place = self.place();
        self.next();
        let mut value = None;
        if self.take('=') {
            let (token, written) = self.peek_written();
            let text = match token {
                Token::Text(text) => text.clone(),
                Token::Symbol(_) | Token::End => {
                    return self.fail(&format!("the value of --{name}"));
                }
                _ => written.to_owned(),
            };
            self.next();
            if name == "define" {
                self.expect('=')?;
                let written = self.peek_written().1;
                let replacement = (self.next(), written);
                value = Some(text.clone());
                self.defines.insert(text, replacement);
            } else {
                value = Some(text);
            }
        }
        Ok(ScriptOption { place, name, value })
    }

    /// A shell command, if one stands here.
    fn command(&mut self) -> Option<Command> {
        let place = self.place();
        let Token::Command(line) = self.peek().clone() else {
            return None;
        };
        self.next();
        Some(Command { place, line })
    }

    fn event(&mut self) -> Parsed<Event> {
        let place = self.place();
        let when = self.when()?;
        let action = match self.peek().clone() {
            Token::Symbol('<') => Action::Inject(self.packet()?),
            Token::Symbol('>') => Action::Expect(self.packet()?),
            Token::Command(_) => Action::Command(self.command().expect("a command was seen")),
            Token::Code(text) => {
                let place = self.place();
                self.next();
                Action::Code(Code { place, text })
            }
            _ => Action::Call(self.syscall()?),
        };
        let ranges = matches!(when, When::Between(..) | When::AfterBetween(..) | When::Any);
        if ranges && !matches!(action, Action::Expect(_)) {
            let message = "only a packet that is sent may have a range of times, or '*'";
            return Err((place, message.to_owned()));
        }
        Ok(Event {
            place,
            when,
            action,
        })
    }

    fn when(&mut self) -> Parsed<When> {
        let place = self.place();
        let backwards = |start: Duration, end: Duration| {
            if end < start {
                return Err((place, "the range of times is backwards".to_owned()));
            }
            Ok((start, end))
        };
        if self.take('*') {
            return Ok(When::Any);
        }
        if self.take('+') {
            let start = self.time()?;
            if !self.take('~') {
                return Ok(When::After(start));
            }
            self.expect('+')?;
            let (start, end) = backwards(start, self.time()?)?;
            return Ok(When::AfterBetween(start, end));
        }
        let start = self.time()?;
        if !self.take('~') {
            return Ok(When::At(start));
        }
        let (start, end) = backwards(start, self.time()?)?;
        Ok(When::Between(start, end))
    }

    /// A number of seconds.
    fn time(&mut self) -> Parsed<Duration> {
        let place = self.place();
        let text = match self.peek() {
            Token::Integer(seconds) => seconds.to_string(),
            Token::Decimal(text) => text.clone(),
            _ => return self.fail("a time"),
        };
        self.next();
        seconds(&text).ok_or_else(|| (place, format!("{text} is not a time")))
    }

    fn syscall(&mut self) -> Parsed<Syscall> {
        let until = if *self.peek() == Token::Ellipsis {
            self.next();
            Some(self.time()?)
        } else {
            None
        };
        let place = self.place();
        let Token::Word(name) = self.peek().clone() else {
            return self.fail("a packet, system call, command or code");
        };
        self.next();
        self.expect('(')?;
        let arguments = self.expressions(')')?;
        self.expect('=')?;
        let result = self.expression()?;
        let errno = match self.peek().clone() {
            Token::Word(errno) => {
                self.next();
                Some(errno)
            }
            _ => None,
        };
        if *self.peek() == Token::Symbol('(') {
            self.note()?;
        }
        Ok(Syscall {
            place,
            until,
            name,
            arguments,
            result,
            errno,
        })
    }

    /// Words in parentheses for the reader, as strace(1) prints them.
    fn note(&mut self) -> Parsed<()> {
        self.expect('(')?;
        loop {
            match self.next() {
                Token::Symbol(')') => return Ok(()),
                Token::Word(_) | Token::Symbol('|') | Token::Hex(_) | Token::Integer(_) => {}
                _ => return self.fail("words and ')'"),
            }
        }
    }
}

/// Exact to the nanosecond; no number is negative.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = if whole.is_empty() { "0" } else { whole };
    let nanos = format!("{fraction:0<9}");
    Some(Duration::new(
        whole.parse().ok()?,
        nanos.get(..9)?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests;
