//! Arguments and results of system calls.

use std::net::IpAddr;

use super::{Parsed, Parser};
use crate::lexer::Token;
use crate::script::{Expression, Field};

impl Parser<'_> {
    /// Expressions between commas until `end`, which is taken.
    pub(super) fn expressions(&mut self, end: char) -> Parsed<Vec<Expression>> {
        let mut expressions = Vec::new();
        if self.take(end) {
            return Ok(expressions);
        }
        loop {
            expressions.push(self.expression()?);
            if self.take(end) {
                return Ok(expressions);
            }
            if !self.take(',') {
                return self.fail(&format!("',' or '{end}'"));
            }
        }
    }

    pub(super) fn expression(&mut self) -> Parsed<Expression> {
        let first = self.term()?;
        if self.take('|') {
            let rest = self.expression()?;
            return Ok(Expression::Or(Box::new(first), Box::new(rest)));
        }
        Ok(first)
    }

    fn term(&mut self) -> Parsed<Expression> {
        let place = self.place();
        match self.peek().clone() {
            Token::Ellipsis => {
                self.next();
                Ok(Expression::Ellipsis)
            }
            Token::Integer(number) | Token::Hex(number) => {
                self.next();
                Ok(Expression::Integer(number))
            }
            Token::Text(_) => Ok(self.text()),
            Token::Word(word) => {
                self.next();
                self.after_word(word)
            }
            Token::Ipv4(address) => {
                self.next();
                Ok(Expression::Address(IpAddr::V4(address)))
            }
            Token::Ipv6(address) => {
                self.next();
                Ok(Expression::Address(IpAddr::V6(address)))
            }
            Token::Symbol('[') => {
                self.next();
                self.expressions(']').map(Expression::List)
            }
            Token::Symbol('{') => {
                self.next();
                self.braces().map_err(|(inner, message)| {
                    let unclosed = *self.peek() == Token::End;
                    (if unclosed { place } else { inner }, message)
                })
            }
            _ => self.fail("a value"),
        }
    }

    /// Adjoining strings; one that is followed by `...` may go on with anything.
    fn text(&mut self) -> Expression {
        let mut whole = String::new();
        while let Token::Text(part) = self.peek().clone() {
            self.next();
            whole += &part;
        }
        if *self.peek() == Token::Ellipsis {
            self.next();
        }
        Expression::Text(whole)
    }

    fn after_word(&mut self, word: String) -> Parsed<Expression> {
        if self.take('(') {
            let argument = self.expression()?;
            self.expect(')')?;
            return Ok(Expression::Apply(word, Box::new(argument)));
        }
        if self.take('=') {
            let value = self.expression()?;
            return Ok(Expression::Assign(word, Box::new(value)));
        }
        Ok(Expression::Word(word))
    }

    /// A structure if its first member has a name, else a group. The brace is taken.
    fn braces(&mut self) -> Parsed<Expression> {
        let named = matches!(self.peek(), Token::Word(_))
            && matches!(self.peek_second(), Token::Symbol('=' | '('));
        if !named {
            return self.expressions('}').map(Expression::Group);
        }
        let mut fields = Vec::new();
        loop {
            let Token::Word(name) = self.peek().clone() else {
                return self.fail("the name of a field");
            };
            self.next();
            let count = if self.take('(') {
                let count = self.expression()?;
                self.expect(')')?;
                Some(count)
            } else {
                None
            };
            self.expect('=')?;
            let value = self.expression()?;
            fields.push(Field { name, count, value });
            if self.take('}') {
                return Ok(Expression::Struct(fields));
            }
            if !self.take(',') {
                return self.fail("',' or '}'");
            }
        }
    }
}
