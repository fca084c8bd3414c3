//! Values of arguments.

use super::*;

pub(super) fn int(number: i64) -> Result<i32, String> {
    i32::try_from(number).map_err(|_| format!("{number} is not an int"))
}

/// A wait in milliseconds; negative is for ever.
pub(super) fn timeout(milliseconds: i64) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

pub(super) fn linger(value: &Expression) -> Result<OptionValue, String> {
    let field = |name| {
        let number = value.field(name).and_then(evaluate);
        number.ok_or_else(|| format!("linger without {name}"))
    };
    Ok(OptionValue::Linger {
        on: field("onoff")? != 0,
        seconds: field("linger")?,
    })
}

/// The octets of a string, in which `\x` and two digits stand for one.
pub(super) fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut parts = text.split("\\x");
    let mut octets = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).ok_or_else(|| format!("string {text:?}"))?;
        let octet = u8::from_str_radix(digits, 16).map_err(|_| format!("string {text:?}"))?;
        octets.push(octet);
        octets.extend(&part.as_bytes()[2..]);
    }
    Ok(octets)
}

/// Octets of an I/O vector `[{..., 10}, {..., 20}]`.
pub(super) fn vector_len(vector: &Expression) -> Result<usize, String> {
    let Expression::List(parts) = vector else {
        return Err(format!("I/O vector {vector:?}"));
    };
    let mut len = 0;
    for part in parts {
        let octets = match part {
            Expression::Group(members) => members.get(1).and_then(evaluate),
            _ => None,
        };
        let octets = octets.and_then(|octets| usize::try_from(octets).ok());
        len += octets.ok_or_else(|| format!("I/O vector's part {part:?}"))?;
    }
    Ok(len)
}

pub(super) fn message_len(message: &Expression) -> Result<usize, String> {
    let vector = message.field("msg_iov").ok_or("message without msg_iov")?;
    vector_len(vector)
}
