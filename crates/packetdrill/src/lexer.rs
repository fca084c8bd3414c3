//! Text into tokens. The longest token wins, as in the original's lexer.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::error::Place;

/// One token. Keywords are words: what they mean depends on where they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Letters, digits and underscores, not all of them digits.
    Word(String),
    /// A whole decimal number, perhaps negative.
    Integer(i64),
    /// A number written with `0x`.
    Hex(i64),
    /// A number with a point, as written.
    Decimal(String),
    /// Between double quotes, escapes as written.
    Text(String),
    /// Between backticks.
    Command(String),
    /// Between `%{` and `}%`.
    Code(String),
    /// The name after `--`.
    Option(String),
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address.
    Ipv6(Ipv6Addr),
    /// `...`
    Ellipsis,
    /// Any other character.
    Symbol(char),
    /// After the last token.
    End,
}

/// A token, where it stands, and how it is written there.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme<'text> {
    pub(crate) place: Place,
    pub(crate) token: Token,
    pub(crate) text: &'text str,
}

/// The tokens of `text`, a [`Token::End`] last.
pub(crate) fn tokens(text: &str) -> Result<Vec<Lexeme<'_>>, (Place, String)> {
    let mut lexer = Lexer {
        rest: text,
        place: Place { line: 1, column: 1 },
    };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks()?;
        let place = lexer.place;
        let before = lexer.rest;
        let token = lexer.next()?;
        let end = token == Token::End;
        let text = &before[..before.len() - lexer.rest.len()];
        tokens.push(Lexeme { place, token, text });
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'text> {
    rest: &'text str,
    place: Place,
}

impl<'text> Lexer<'text> {
    /// Takes `length` bytes, which must end between characters.
    fn take(&mut self, length: usize) -> &'text str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        for character in taken.chars() {
            if character == '\n' {
                self.place.line += 1;
                self.place.column = 1;
            } else {
                self.place.column += 1;
            }
        }
        taken
    }

    /// Takes up to and including `end`, which must come after `start` bytes; what is between is
    /// returned.
    fn take_until(&mut self, start: usize, end: &str) -> Result<&'text str, (Place, String)> {
        let place = self.place;
        match self.rest[start..].find(end) {
            Some(length) => Ok(&self.take(start + length + end.len())[start..start + length]),
            None => Err((place, format!("no {end:?} until the end of the script"))),
        }
    }

    fn skip_blanks(&mut self) -> Result<(), (Place, String)> {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.take(blanks);
            if self.rest.starts_with("//") {
                let length = self.rest.find('\n').unwrap_or(self.rest.len());
                self.take(length);
            } else if self.rest.starts_with("/*") {
                self.take_until(2, "*/")?;
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Token, (Place, String)> {
        let rest = self.rest;
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        match first {
            '"' => return self.quoted('"').map(Token::Text),
            '`' => return self.quoted('`').map(Token::Command),
            _ => {}
        }
        if rest.starts_with("%{") {
            let code = self.take_until(2, "}%")?;
            return Ok(Token::Code(code.trim_matches([' ', '\t']).to_owned()));
        }
        if rest.starts_with("...") {
            self.take(3);
            return Ok(Token::Ellipsis);
        }
        if let Some(name) = rest.strip_prefix("--") {
            let length = span(name, is_word);
            if length > 0 {
                return Ok(Token::Option(self.take(2 + length)[2..].to_owned()));
            }
        }
        if let Some(token) = self.address() {
            return Ok(token);
        }
        let word = span(rest, is_word);
        let number = number_length(rest);
        if number > word || (number > 0 && number == word) {
            return self.number(number);
        }
        if word > 0 {
            return self.word(word);
        }
        self.take(first.len_utf8());
        Ok(Token::Symbol(first))
    }

    /// What is between two `quote`s; a backslash lets a quote be part of it.
    fn quoted(&mut self, quote: char) -> Result<String, (Place, String)> {
        let mut escaped = true; // the opening quote
        for (index, character) in self.rest.char_indices() {
            if character == quote && !escaped {
                return Ok(self.take(index + 1)[1..index].to_owned());
            }
            escaped = character == '\\' && !escaped;
        }
        Err((self.place, format!("no closing {quote}")))
    }

    /// An IPv4 or IPv6 address, if one begins here. Numbers with one colon between them are
    /// sequence numbers.
    fn address(&mut self) -> Option<Token> {
        let length = span(self.rest, |character| {
            character.is_ascii_hexdigit() || ".:".contains(character)
        });
        let text = &self.rest[..length];
        let token = if text.contains(':') {
            Token::Ipv6(text.trim_end_matches(':').parse().ok()?)
        } else {
            Token::Ipv4(text.parse().ok()?)
        };
        self.take(length);
        Some(token)
    }

    fn number(&mut self, length: usize) -> Result<Token, (Place, String)> {
        let place = self.place;
        let text = self.take(length);
        if text.contains('.') {
            return Ok(Token::Decimal(text.to_owned()));
        }
        let number = text.parse().map(Token::Integer);
        number.map_err(|_| (place, format!("{text} is out of range")))
    }

    fn word(&mut self, length: usize) -> Result<Token, (Place, String)> {
        let place = self.place;
        let text = self.take(length);
        match text.strip_prefix("0x") {
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
                let number = i64::from_str_radix(digits, 16).map(Token::Hex);
                number.map_err(|_| (place, format!("{text} is out of range")))
            }
            _ => Ok(Token::Word(text.to_owned())),
        }
    }
}

/// Length of the decimal number at the start of `text`, 0 if there is none.
fn number_length(text: &str) -> usize {
    let sign = usize::from(text.starts_with('-'));
    let whole = span(&text[sign..], |c| c.is_ascii_digit());
    if let Some(fraction) = text[sign + whole..].strip_prefix('.') {
        let digits = span(fraction, |c| c.is_ascii_digit());
        if digits > 0 {
            return sign + whole + 1 + digits;
        }
    }
    if whole > 0 { sign + whole } else { 0 }
}

fn span(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|character| !belongs(character))
        .unwrap_or(text.len())
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Token> {
        let lexemes = tokens(text).unwrap();
        let mut tokens: Vec<Token> = lexemes.into_iter().map(|lexeme| lexeme.token).collect();
        assert_eq!(tokens.pop(), Some(Token::End));
        tokens
    }

    #[test]
    fn durations_of_blocking_calls_are_three_tokens() {
        let expected = [
            Token::Symbol('+'),
            Token::Integer(0),
            Token::Ellipsis,
            Token::Decimal("0.010".to_owned()),
        ];
        assert_eq!(kinds("+0...0.010"), expected);
        assert_eq!(kinds("-.5"), [Token::Decimal("-.5".to_owned())]);
    }

    #[test]
    fn sequence_numbers_are_not_addresses() {
        let word = |text: &str| Token::Word(text.to_owned());
        assert_eq!(kinds("1:2")[1], Token::Symbol(':'));
        assert_eq!(kinds("fd::1"), [Token::Ipv6("fd::1".parse().unwrap())]);
        assert_eq!(
            kinds("10.0.0.1"),
            [Token::Ipv4("10.0.0.1".parse().unwrap())]
        );
        assert_eq!(kinds("4a 0x1F"), [word("4a"), Token::Hex(31)]);
        assert_eq!(kinds("S."), [word("S"), Token::Symbol('.')]);
    }

    #[test]
    fn comments_are_blank_and_places_count_lines() {
        let tokens = tokens("// a\n/* b\n */ x").unwrap();
        assert_eq!(tokens[0].place, Place { line: 3, column: 5 });
        assert!(super::tokens("/* b").is_err());
        assert!(super::tokens("`sysctl").is_err());
    }

    #[test]
    fn quotes_may_be_escaped() {
        assert_eq!(kinds(r#""a\"b""#), [Token::Text(r#"a\"b"#.to_owned())]);
        assert_eq!(
            kinds("%{ assert x == 1 }%"),
            [Token::Code("assert x == 1".to_owned())]
        );
    }
}
