//! The part of Python that scripts use to look at a connection: `assert` with integers, and names
//! for them.

use std::collections::HashMap;
use std::fmt;

/// Why code did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeError {
    /// An assertion is false.
    Failed {
        /// The statement.
        statement: String,
        /// The names in it with their values.
        values: Vec<(String, i64)>,
    },
    /// A name that neither the stack nor the language gives a value.
    UnknownName(String),
    /// A statement or operator that is not known here.
    Unsupported(String),
}

impl fmt::Display for CodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { statement, values } => {
                write!(formatter, "{statement}: false")?;
                for (name, value) in values {
                    write!(formatter, ", {name} is {value}")?;
                }
                Ok(())
            }
            Self::UnknownName(name) => write!(formatter, "{name} is not known"),
            Self::Unsupported(what) => write!(formatter, "unsupported code: {what}"),
        }
    }
}

/// Runs `code`; `variables` are those of the script's code so far, `value_of` gives the values of
/// other names.
pub fn run(
    code: &str,
    variables: &mut HashMap<String, i64>,
    value_of: &dyn Fn(&str) -> Option<i64>,
) -> Result<(), CodeError> {
    for statement in statements(code) {
        let known = |name: &str| variables.get(name).copied().or_else(|| value_of(name));
        if let Some((name, expression)) = assignment(&statement) {
            let mut evaluation = Evaluation::new(expression, &known)?;
            let value = evaluation.any()?;
            if evaluation.peek().is_some() {
                return Err(CodeError::Unsupported(statement));
            }
            variables.insert(name.to_owned(), value);
            continue;
        }
        let Some(assertion) = statement.strip_prefix("assert") else {
            if statement.starts_with("print") || statement == "pass" {
                continue;
            }
            return Err(CodeError::Unsupported(statement));
        };
        let mut evaluation = Evaluation::new(assertion, &known)?;
        let holds = evaluation.any()? != 0;
        // A message may follow.
        if evaluation.peek().is_some_and(|token| token != ",") {
            return Err(CodeError::Unsupported(statement));
        }
        if !holds {
            let values = evaluation.seen;
            return Err(CodeError::Failed { statement, values });
        }
    }
    Ok(())
}

/// Name and expression of `name = expression`.
fn assignment(statement: &str) -> Option<(&str, &str)> {
    let (name, expression) = statement.split_once('=')?;
    let name = name.trim();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !expression.starts_with('=')).then_some((name, expression))
}

/// Logical lines without comments.
fn statements(code: &str) -> Vec<String> {
    let mut statements = vec![String::new()];
    let mut depth = 0_usize;
    for line in code.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let continued = line.ends_with('\\');
        for character in line.trim_end_matches('\\').chars() {
            match character {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                ';' if depth == 0 => {
                    statements.push(String::new());
                    continue;
                }
                _ => {}
            }
            statements.last_mut().expect("never empty").push(character);
        }
        let last = statements.last_mut().expect("never empty");
        if continued || depth > 0 {
            last.push(' ');
        } else {
            statements.push(String::new());
        }
    }
    let trimmed = statements
        .iter()
        .map(|statement| statement.trim().to_owned());
    trimmed.filter(|statement| !statement.is_empty()).collect()
}

/// Names, numbers and operators; a string is one token.
fn tokens(text: &str) -> Result<Vec<String>, CodeError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let pair = ["<=", ">=", "==", "!=", "<<", ">>", "//"]
            .into_iter()
            .find(|pair| rest.starts_with(pair));
        let length = if first.is_ascii_alphanumeric() || first == '_' {
            let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            rest.find(end).unwrap_or(rest.len())
        } else if first == '"' || first == '\'' {
            match rest[1..].find(first) {
                Some(length) => length + 2,
                None => return Err(CodeError::Unsupported(rest.to_owned())),
            }
        } else if pair.is_some() {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token.to_owned());
        rest = after.trim_start();
    }
    Ok(tokens)
}

struct Evaluation<'code> {
    tokens: Vec<String>,
    position: usize,
    value_of: &'code dyn Fn(&str) -> Option<i64>,
    /// Names that were looked up, with their values.
    seen: Vec<(String, i64)>,
}

/// Binary operators, those that bind least first.
const OPERATORS: [&[&str]; 6] = [
    &["|"],
    &["^"],
    &["&"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "//", "%"],
];

impl<'code> Evaluation<'code> {
    fn new(
        expression: &str,
        value_of: &'code dyn Fn(&str) -> Option<i64>,
    ) -> Result<Self, CodeError> {
        Ok(Self {
            tokens: tokens(expression)?,
            position: 0,
            value_of,
            seen: Vec::new(),
        })
    }

    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.position).map(String::as_str)
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == Some(token);
        self.position += usize::from(found);
        found
    }

    /// `a or b`
    fn any(&mut self) -> Result<i64, CodeError> {
        let mut value = self.all()?;
        while self.take("or") {
            let other = self.all()?;
            value = if value == 0 { other } else { value };
        }
        Ok(value)
    }

    /// `a and b`
    fn all(&mut self) -> Result<i64, CodeError> {
        let mut value = self.negation()?;
        while self.take("and") {
            let other = self.negation()?;
            value = if value == 0 { value } else { other };
        }
        Ok(value)
    }

    fn negation(&mut self) -> Result<i64, CodeError> {
        if self.take("not") {
            return Ok(i64::from(self.negation()? == 0));
        }
        self.comparison()
    }

    /// `a < b`, or a chain `a < b <= c`.
    fn comparison(&mut self) -> Result<i64, CodeError> {
        let mut left = self.binary(0)?;
        let mut holds = None;
        loop {
            let compare: fn(&i64, &i64) -> bool = match self.peek() {
                Some("==") => i64::eq,
                Some("!=") => i64::ne,
                Some("<") => i64::lt,
                Some("<=") => i64::le,
                Some(">") => i64::gt,
                Some(">=") => i64::ge,
                _ => return Ok(holds.map_or(left, i64::from)),
            };
            self.position += 1;
            let right = self.binary(0)?;
            holds = Some(holds.unwrap_or(true) && compare(&left, &right));
            left = right;
        }
    }

    fn binary(&mut self, level: usize) -> Result<i64, CodeError> {
        let Some(operators) = OPERATORS.get(level) else {
            return self.primary();
        };
        let mut value = self.binary(level + 1)?;
        while let Some(operator) = self.peek().map(str::to_owned)
            && operators.contains(&operator.as_str())
        {
            self.position += 1;
            let other = self.binary(level + 1)?;
            let result = match operator.as_str() {
                "|" => Some(value | other),
                "^" => Some(value ^ other),
                "&" => Some(value & other),
                "<<" => u32::try_from(other).ok().and_then(|n| value.checked_shl(n)),
                ">>" => u32::try_from(other).ok().and_then(|n| value.checked_shr(n)),
                "+" => value.checked_add(other),
                "-" => value.checked_sub(other),
                "*" => value.checked_mul(other),
                "//" => value.checked_div_euclid(other),
                _ => value.checked_rem_euclid(other),
            };
            value = result
                .ok_or_else(|| CodeError::Unsupported(format!("{value} {operator} {other}")))?;
        }
        Ok(value)
    }

    fn primary(&mut self) -> Result<i64, CodeError> {
        let Some(token) = self.peek().map(str::to_owned) else {
            return Err(CodeError::Unsupported(
                "an expression that ends early".to_owned(),
            ));
        };
        self.position += 1;
        if token == "-" {
            return Ok(-self.primary()?);
        }
        if token == "(" {
            let value = self.any()?;
            if !self.take(")") {
                return Err(CodeError::Unsupported("no closing parenthesis".to_owned()));
            }
            return Ok(value);
        }
        if token.starts_with(|c: char| c.is_ascii_digit()) {
            let number = match token.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16),
                None => token.parse(),
            };
            return number.map_err(|_| CodeError::Unsupported(token));
        }
        if self.peek() == Some("(") || !token.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(CodeError::Unsupported(token));
        }
        let value = (self.value_of)(&token).ok_or_else(|| CodeError::UnknownName(token.clone()))?;
        if !self.seen.iter().any(|(name, _)| *name == token) {
            self.seen.push((token, value));
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(name: &str) -> Option<i64> {
        Some(match name {
            "tcpi_rtt" => 20_000,
            "tcpi_lost" => 2,
            "tcpi_options" => 0b101,
            _ => return None,
        })
    }

    fn run_alone(code: &str) -> Result<(), CodeError> {
        run(code, &mut HashMap::new(), &values)
    }

    #[test]
    fn names_are_for_the_whole_script() {
        let mut variables = HashMap::new();
        assert_eq!(run("lost = tcpi_lost + 1", &mut variables, &values), Ok(()));
        assert_eq!(run("assert lost == 3", &mut variables, &values), Ok(()));
        assert!(run("assert lost == 2", &mut variables, &values).is_err());
        assert!(run_alone("assert lost == 3").is_err());
    }

    #[test]
    fn comparisons_joined_by_and_or_are_judged() {
        for (code, holds) in [
            ("assert tcpi_lost == 2, tcpi_lost", true),
            (
                "assert 5000 <= tcpi_rtt <= 20000 and not tcpi_lost != 2",
                true,
            ),
            ("assert tcpi_rtt < 10 or tcpi_lost > 1", true),
            ("assert (tcpi_options & 4) != 0", true),
            (
                "# nothing\nassert tcpi_lost * 2 + 1 == 5; assert tcpi_lost >= 3",
                false,
            ),
            (
                "assert (tcpi_lost ==\n 2 and\n tcpi_rtt == 1), \"text\"",
                false,
            ),
            (
                "assert tcpi_rtt - 1 == 0x4e1f # comment\nprint(tcpi_rtt)",
                true,
            ),
        ] {
            let result = run_alone(code);
            assert_eq!(result.is_ok(), holds, "{code}: {result:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_an_error_not_a_pass() {
        let unknown = CodeError::UnknownName("tcpi_bogus".to_owned());
        assert_eq!(run_alone("assert tcpi_bogus == 1"), Err(unknown));
        for code in [
            "import os",
            "assert min(1, 2) == 1",
            "assert tcpi_rtt / 3 == 1",
            "assert 1 == 1 if 1",
        ] {
            let result = run_alone(code);
            assert!(
                matches!(result, Err(CodeError::Unsupported(_))),
                "{code}: {result:?}"
            );
        }
    }

    #[test]
    fn a_failure_shows_the_values() {
        let error = run_alone("assert tcpi_lost == 3").unwrap_err();
        assert_eq!(
            error.to_string(),
            "assert tcpi_lost == 3: false, tcpi_lost is 2"
        );
    }
}
