//! The values of templates: what an expression means, and how it is written into a request.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::table::Rows;
use super::template::{Escape, Expression, Part, TemplateError, TemplateFault, parse};

/// A template whose names are known: ready to be filled in.
#[derive(Debug, Default)]
pub(super) struct Filling {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    Literal(Box<[u8]>),
    Value(Value, Escape),
}

/// What a value is made of.
#[derive(Debug)]
enum Value {
    /// The number of the request, from this one.
    Number {
        from: u64,
    },
    /// A random integer from `low` on, of so many.
    Integer {
        low: i64,
        span: u64,
    },
    /// So many random letters of these.
    Letters {
        count: usize,
        of: &'static [u8],
    },
    /// A random UUID (version 4).
    Uuid,
    Time(Clock),
    /// One of these, at random.
    Pick(Vec<Box<[u8]>>),
    Column {
        table: usize,
        column: usize,
    },
    Variable(usize),
}

/// How a time is written.
#[derive(Debug, Clone, Copy)]
enum Clock {
    Seconds,
    Milliseconds,
    Microseconds,
    Rfc3339,
}

/// The names that a template may use beside those of the values.
pub(super) struct Scope<'s> {
    pub(super) tables: &'s [Rows],
    pub(super) variables: &'s [String],
}

/// What the values of one request are made of.
pub(super) struct Source<'s> {
    /// The number of the request, from 0.
    pub(super) number: u64,
    pub(super) random: &'s mut Rng,
    pub(super) tables: &'s [Rows],
    /// The row of each table.
    pub(super) rows: &'s [usize],
    pub(super) variables: &'s [Vec<u8>],
}

/// Where a value goes: there must be nothing in it that would end its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A request target: what cannot stand there is percent-encoded.
    Target,
    /// The value of a field: a control character becomes a space (RFC 9110 section 5.5).
    Field,
    /// A body, where everything may stand.
    Body,
}

impl Filling {
    /// Understands the names of a template.
    pub(super) fn new(source: &[u8], scope: &Scope<'_>) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        for part in parse(source)? {
            pieces.push(match part {
                Part::Literal(bytes) => Piece::Literal(bytes.into()),
                Part::Value(expression) => {
                    let value = Value::of(&expression, scope);
                    let value = value.map_err(|fault| TemplateError::new(source, expression.at, fault))?;
                    Piece::Value(value, expression.escape)
                }
            });
        }
        Ok(Self { pieces })
    }

    /// Text that is the same in each request.
    pub(super) fn plain(bytes: &[u8]) -> Self {
        let piece = (!bytes.is_empty()).then(|| Piece::Literal(bytes.into()));
        Self { pieces: piece.into_iter().collect() }
    }

    /// The bytes, if they are the same in each request.
    pub(super) fn fixed(&self) -> Option<Vec<u8>> {
        let literals = self.pieces.iter().map(|piece| match piece {
            Piece::Literal(bytes) => Some(bytes.as_ref()),
            Piece::Value(..) => None,
        });
        literals.collect::<Option<Vec<_>>>().map(|literals| literals.concat())
    }

    /// The template with `0` for each value: a request that stands for all of them.
    pub(super) fn sample(&self) -> Vec<u8> {
        let literals = self.pieces.iter().map(|piece| match piece {
            Piece::Literal(bytes) => bytes.as_ref(),
            Piece::Value(..) => b"0",
        });
        literals.collect::<Vec<_>>().concat()
    }

    /// Where its first value stands, in bytes of the template; its end without one.
    pub(super) fn first_value(&self) -> usize {
        let literals = self.pieces.iter().map_while(|piece| match piece {
            Piece::Literal(bytes) => Some(bytes.len()),
            Piece::Value(..) => None,
        });
        literals.sum()
    }

    /// The tables that it takes cells of.
    pub(super) fn tables(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value(Value::Column { table, .. }, _) => Some(*table),
            _ => None,
        })
    }

    /// Appends the text of one request.
    pub(super) fn fill(&self, source: &mut Source<'_>, place: Place, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Value(value, escape) => {
                    let begin = out.len();
                    value.write(source, out);
                    escape_from(out, begin, *escape);
                    if value.is_foreign() {
                        tame_from(out, begin, place);
                    }
                }
            }
        }
    }
}

impl Value {
    fn of(expression: &Expression<'_>, scope: &Scope<'_>) -> Result<Self, TemplateFault> {
        let Expression { name, arguments, .. } = expression;
        let wanted = |wanted| {
            let found = [&[*name], &arguments[..]].concat().join(" ");
            TemplateFault::Arguments { found, wanted }
        };
        Ok(match (*name, &arguments[..]) {
            ("n", []) => Self::Number { from: 1 },
            ("n", [from]) => Self::Number { from: from.parse().map_err(|_| wanted("{{n}} or {{n FROM}}"))? },
            ("n", _) => return Err(wanted("{{n}} or {{n FROM}}")),
            ("int", [low, high]) => integer(low, high).ok_or_else(|| wanted(INTEGER))?,
            ("int", _) => return Err(wanted(INTEGER)),
            ("hex", [count]) => {
                letters(count, HEX_DIGITS).ok_or_else(|| wanted("{{hex COUNT}}, at most 65536"))?
            }
            ("hex", _) => return Err(wanted("{{hex COUNT}}, at most 65536")),
            ("text", [count]) => {
                letters(count, LETTERS).ok_or_else(|| wanted("{{text COUNT}}, at most 65536"))?
            }
            ("text", _) => return Err(wanted("{{text COUNT}}, at most 65536")),
            ("uuid", []) => Self::Uuid,
            ("uuid", _) => return Err(wanted("{{uuid}}")),
            ("time", []) => Self::Time(Clock::Seconds),
            ("time", ["ms"]) => Self::Time(Clock::Milliseconds),
            ("time", ["us"]) => Self::Time(Clock::Microseconds),
            ("time", ["iso"]) => Self::Time(Clock::Rfc3339),
            ("time", _) => return Err(wanted("{{time}}, {{time ms}}, {{time us}} or {{time iso}}")),
            ("pick", []) => return Err(wanted("{{pick ONE ANOTHER \"A THIRD\"}}")),
            ("pick", words) => Self::Pick(words.iter().map(|word| word.as_bytes().into()).collect()),
            (name, []) => Self::named(name, scope)?,
            _ => return Err(unknown(name, scope)),
        })
    }

    /// A variable, or a column of a table.
    fn named(name: &str, scope: &Scope<'_>) -> Result<Self, TemplateFault> {
        if let Some(variable) = scope.variables.iter().position(|known| known == name) {
            return Ok(Self::Variable(variable));
        }
        let Some((of, column)) = name.split_once('.') else { return Err(unknown(name, scope)) };
        let Some(table) = scope.tables.iter().position(|known| known.name == of) else {
            return Err(unknown(name, scope));
        };
        let columns = &scope.tables[table].columns;
        match columns.iter().position(|known| known == column) {
            Some(column) => Ok(Self::Column { table, column }),
            None => {
                let (table, column) = (of.to_owned(), column.to_owned());
                Err(TemplateFault::Column { table, column, columns: columns.clone() })
            }
        }
    }

    /// Whether somebody else chose its bytes: the writer of a file, or the server.
    fn is_foreign(&self) -> bool {
        matches!(self, Self::Pick(_) | Self::Column { .. } | Self::Variable(_))
    }

    fn write(&self, source: &mut Source<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Number { from } => number(from.wrapping_add(source.number), out),
            Self::Integer { low, span } => {
                // Of a span of 2^64 each pattern of bits is a value.
                let random = if *span == 0 { source.random.u64(..) } else { source.random.u64(..*span) };
                out.extend_from_slice(itoa::Buffer::new().format(low.wrapping_add(random as i64)).as_bytes());
            }
            Self::Letters { count, of } => {
                out.extend((0..*count).map(|_| of[source.random.usize(..of.len())]));
            }
            Self::Uuid => uuid(source.random.u128(..), out),
            Self::Time(clock) => clock.write(out),
            Self::Pick(words) => out.extend_from_slice(&words[source.random.usize(..words.len())]),
            Self::Column { table, column } => {
                out.extend_from_slice(source.tables[*table].cell(source.rows[*table], *column));
            }
            Self::Variable(variable) => out.extend_from_slice(&source.variables[*variable]),
        }
    }
}

impl Clock {
    fn write(self, out: &mut Vec<u8>) {
        // A clock before 1970 is wrong anyway.
        let since: Duration = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match self {
            Self::Seconds => number(since.as_secs(), out),
            Self::Milliseconds => number(since.as_millis() as u64, out),
            Self::Microseconds => number(since.as_micros() as u64, out),
            Self::Rfc3339 => {
                let now = OffsetDateTime::UNIX_EPOCH + Duration::from_millis(since.as_millis() as u64);
                // Fails only for years beyond 9999.
                out.extend_from_slice(now.format(&Rfc3339).unwrap_or_default().as_bytes());
            }
        }
    }
}

fn unknown(name: &str, scope: &Scope<'_>) -> TemplateFault {
    let columns = scope
        .tables
        .iter()
        .flat_map(|table| table.columns.iter().map(|column| format!("{}.{column}", table.name)));
    let others = scope.variables.iter().cloned().chain(columns).take(NAMES_SHOWN_MAX).collect();
    TemplateFault::Unknown { name: name.to_owned(), others }
}

fn integer(low: &str, high: &str) -> Option<Value> {
    let (low, high): (i64, i64) = (low.parse().ok()?, high.parse().ok()?);
    // 0 stands for all of 2^64.
    (low <= high).then(|| Value::Integer { low, span: (high.wrapping_sub(low) as u64).wrapping_add(1) })
}

fn letters(count: &str, of: &'static [u8]) -> Option<Value> {
    let count = count.parse().ok()?;
    (count <= LETTERS_MAX).then_some(Value::Letters { count, of })
}

fn number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// A random UUID (RFC 9562 section 5.4).
fn uuid(random: u128, out: &mut Vec<u8>) {
    let bits = random & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    for digit in 0..32 {
        if matches!(digit, 8 | 12 | 16 | 20) {
            out.push(b'-');
        }
        out.push(HEX_DIGITS[(bits >> (124 - 4 * digit)) as usize & 0xf]);
    }
}

/// Writes what begins there anew as the escape has it.
fn escape_from(out: &mut Vec<u8>, begin: usize, escape: Escape) {
    match escape {
        Escape::None => {}
        Escape::Json => {
            let text = serde_json::to_string(&String::from_utf8_lossy(&out[begin..]));
            out.truncate(begin);
            // Text always has a JSON.
            let text = text.unwrap_or_default();
            out.extend_from_slice(text.trim_start_matches('"').as_bytes());
            out.truncate(out.len().saturating_sub(1).max(begin));
        }
        Escape::Url => {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            percent_from(out, begin, is_plain);
        }
    }
}

/// Whether a byte may stand in a path or a query (RFC 3986 section 3.3 and 3.4).
fn is_of_target(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=%".contains(&byte)
}

/// Keeps a value in its place.
fn tame_from(out: &mut Vec<u8>, begin: usize, place: Place) {
    match place {
        Place::Target => percent_from(out, begin, is_of_target),
        Place::Field => {
            for byte in &mut out[begin..] {
                if byte.is_ascii_control() && *byte != b'\t' {
                    *byte = b' ';
                }
            }
        }
        Place::Body => {}
    }
}

fn percent_from(out: &mut Vec<u8>, begin: usize, is_plain: impl Fn(u8) -> bool) {
    if out[begin..].iter().all(|byte| is_plain(*byte)) {
        return;
    }
    let value = out.split_off(begin);
    for byte in value {
        if is_plain(byte) {
            out.push(byte);
        } else {
            let digit = |half: u8| b"0123456789ABCDEF"[usize::from(half)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 0xf)]);
        }
    }
}

const INTEGER: &str = "{{int LOW HIGH}}, both of them among the values";
const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// More in one value is a body, which is a file.
const LETTERS_MAX: usize = 65_536;
/// As many as fit into a line of advice.
const NAMES_SHOWN_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::script::Table;

    fn rows() -> Vec<Rows> {
        vec![Table::new("users", "name,age\nann,30\n\"b, o\nb\",\"4\"\"0\"\n").rows().unwrap()]
    }

    fn filled(template: &str, number: u64, row: usize, place: Place) -> String {
        let (tables, variables) = (rows(), ["token".to_owned()]);
        let filling = Filling::new(template.as_bytes(), &Scope { tables: &tables, variables: &variables });
        let filling = filling.unwrap_or_else(|error| panic!("{template}: {error}"));
        let mut out = Vec::new();
        let mut source = Source {
            number,
            random: &mut fastrand::Rng::with_seed(7),
            tables: &tables,
            rows: &[row],
            variables: &[b"a/b c\r\nd".to_vec()],
        };
        filling.fill(&mut source, place, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_value_is_written_where_it_stands() {
        let body = |template: &str| filled(template, 4, 0, Place::Body);
        assert_eq!(body("{{n}} {{n 100}} {{n 0}} {{n}}"), "5 104 4 5");
        assert_eq!(body("{{users.name}} is {{users.age}}"), "ann is 30");
        assert_eq!(body("{{int 3 3}} {{int -2 -2}} {{pick x}}"), "3 -2 x");
        assert_eq!((body("{{hex 12}}").len(), body("{{text 9}}").len()), (12, 9));
        let uuid = body("{{uuid}}");
        assert_eq!((uuid.len(), &uuid[14..15], uuid.matches('-').count()), (36, "4", 4), "{uuid}");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
        assert!(body("{{time}}").parse::<u64>().unwrap() > 1_700_000_000);
        assert!(
            body("{{time us}}").parse::<u64>().unwrap() / 1_000_000
                >= body("{{time}}").parse::<u64>().unwrap() - 1
        );
        assert!(body("{{time iso}}").starts_with("20") && body("{{time iso}}").ends_with('Z'));
    }

    #[test]
    fn a_value_cannot_leave_its_place() {
        assert_eq!(filled("/{{token}}", 0, 0, Place::Target), "/a/b%20c%0D%0Ad");
        assert_eq!(filled("/{{token | url}}", 0, 0, Place::Target), "/a%2Fb%20c%0D%0Ad");
        assert_eq!(filled("{{token}}", 0, 0, Place::Field), "a/b c  d");
        assert_eq!(filled("{{token}}", 0, 0, Place::Body), "a/b c\r\nd");
        assert_eq!(filled("\"{{users.age | json}}\"", 0, 1, Place::Body), "\"4\\\"0\"");
        assert_eq!(filled("[{{token | json}}]", 0, 0, Place::Body), "[a/b c\\r\\nd]");
    }

    #[test]
    fn the_same_seed_gives_the_same_values() {
        let template = "{{int 1 1000000}} {{text 20}} {{uuid}} {{pick a b c d e f}}";
        assert_eq!(filled(template, 0, 0, Place::Body), filled(template, 9, 1, Place::Body));
    }

    #[test]
    fn what_cannot_be_filled_in_is_said_with_its_place() {
        let tables = rows();
        let variables = ["token".to_owned()];
        let scope = Scope { tables: &tables, variables: &variables };
        for (template, found, help) in [
            ("\n {{user}}", "no value is named \"user\"", "token, users.name, users.age"),
            ("\n {{users.nme}}", "the table \"users\" has no column \"nme\"", "name, age"),
            ("\n {{int 5 1}}", "\"int 5 1\"", "{{int LOW HIGH}}"),
            ("\n {{int 5}}", "\"int 5\"", "{{int LOW HIGH}}"),
            ("\n {{n x}}", "\"n x\"", "{{n FROM}}"),
            ("\n {{hex 99999999}}", "\"hex 99999999\"", "65536"),
            ("\n {{time s}}", "\"time s\"", "{{time ms}}"),
            ("\n {{pick}}", "\"pick\"", "ONE"),
            ("\n {{token 1}}", "no value is named \"token\"", "token"),
        ] {
            let error = Filling::new(template.as_bytes(), &scope).unwrap_err();
            let text = error.to_string();
            assert_eq!((error.line, error.column), (2, 2), "{text}");
            assert!(text.contains(found) && text.contains(help), "{text}");
        }
    }

    proptest! {
        #[test]
        fn integers_are_within_their_bounds(low in any::<i64>(), high in any::<i64>()) {
            let (low, high) = (low.min(high), low.max(high));
            let value: i64 = filled(&format!("{{{{int {low} {high}}}}}"), 0, 0, Place::Body).parse().unwrap();
            prop_assert!((low..=high).contains(&value));
        }

        #[test]
        fn no_template_panics(template in "([{}]{2}|n|int|users|\\.name| |1|\\||json|\"|token|pick|\n){0,12}") {
            let tables = rows();
            let scope = Scope { tables: &tables, variables: &["token".to_owned()] };
            if let Ok(filling) = Filling::new(template.as_bytes(), &scope) {
                prop_assert_eq!(filling.fixed().is_some(), filling.fixed().is_some_and(|bytes| bytes == filling.sample()));
            }
        }
    }
}
