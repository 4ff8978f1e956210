//! Kubernetes quantities, parsed exactly (`100m`, `0.5Gi`, `1e3`, `12n`, `8Ei`) and rounded as kube-scheduler rounds them.
//!
//! A quantity is stored in nano units in an `i128`, so that every value that the API server accepts for a resource is exact;
//! only a value that does not fit is an error, and the error contains the text.

use crate::limits::QUANTITY_DIGITS;

/// One unit, in nano units.
pub const UNIT: i128 = 1_000_000_000;
/// A thousandth of a unit, in nano units.
const MILLI: i128 = 1_000_000;

/// Error for a text that is not a quantity, or a quantity that is too large to be represented.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantity \"{text}\": {problem}")]
pub struct QuantityError {
    /// The parsed text.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// Reads a quantity into nano units. What is finer than a nano unit is rounded up (away from zero), as the API server does.
///
/// # Errors
/// The text is not a quantity, or its value does not fit.
pub fn parse(text: &str) -> Result<i128, QuantityError> {
    // The error quotes a bounded part of the text.
    let fail = |problem| QuantityError { text: text.chars().take(QUANTITY_DIGITS).collect(), problem };
    let (negative, rest) = match text.as_bytes().first() {
        None => return Err(fail("must not be empty")),
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(fail("must start with a number, as in 100m or 2Gi"));
    }
    if fraction.contains('.') {
        return Err(fail("must not have more than one decimal point"));
    }
    // The API server keeps leading and trailing zeros as they were written.
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    if whole.len() + fraction.len() > QUANTITY_DIGITS {
        return Err(fail("has too many digits"));
    }
    let scale = QuantityScale::of(suffix).ok_or_else(|| {
        fail("has an unknown suffix: use one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or an exponent as in 1e3")
    })?;
    let value = scale.apply(whole, fraction).ok_or_else(|| fail("is too large"))?;
    Ok(if negative { -value } else { value })
}

/// What a suffix multiplies with: `binary * 10^decimal`.
struct QuantityScale {
    binary: i128,
    decimal: i32,
}

impl QuantityScale {
    /// Returns the scale of a quantity's suffix, such as `m`, `Ki` or `e3`; `None` for an unknown suffix.
    fn of(suffix: &str) -> Option<Self> {
        let decimal = |decimal| Some(Self { binary: 1, decimal });
        let binary = |power: u32| Some(Self { binary: 1i128 << (10 * power), decimal: 0 });
        match suffix {
            "" => decimal(0),
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(1),
            "Mi" => binary(2),
            "Gi" => binary(3),
            "Ti" => binary(4),
            "Pi" => binary(5),
            "Ei" => binary(6),
            _ => decimal(exponent(suffix)?),
        }
    }

    /// Returns the number `whole.fraction` times this scale, in nano units, rounded up; `None` if it does not fit.
    fn apply(&self, whole: &str, fraction: &str) -> Option<i128> {
        let mut mantissa: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            mantissa = mantissa.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        if mantissa == 0 {
            return Some(0);
        }
        let power = self.decimal.saturating_add(9).saturating_sub(i32::try_from(fraction.len()).ok()?);
        let scaled = mantissa.checked_mul(self.binary)?;
        if power >= 0 {
            return scaled.checked_mul(10i128.checked_pow(power.unsigned_abs())?);
        }
        match 10i128.checked_pow(power.unsigned_abs()) {
            Some(divisor) => Some(ceil_div(scaled, divisor)),
            None => Some(1),
        }
    }
}

/// Returns the exponent of ten in a suffix such as `e3`, `E-2` or `e+6`; `None` for any other text.
fn exponent(suffix: &str) -> Option<i32> {
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // What has more digits than that is as far out of reach.
    let power = unsigned.parse().unwrap_or(i32::MAX);
    Some(if digits.starts_with('-') { -power } else { power })
}

/// Converts nano units to thousandths, rounded up: how the scheduler counts `cpu`.
pub fn ceil_milli(nano: i128) -> i128 {
    ceil_div(nano, MILLI)
}

/// Converts nano units to whole units, rounded up: how the scheduler counts everything but `cpu`.
pub fn ceil_unit(nano: i128) -> i128 {
    ceil_div(nano, UNIT)
}

/// Returns an amount in nano units rounded up to whole thousandths, still in nano units: how the API server stores a quantity.
pub fn to_milli(nano: i128) -> i128 {
    // The remainder below one thousandth, when that does not fit, is less than any node can offer.
    ceil_milli(nano).saturating_mul(MILLI)
}

/// Divides by a positive divisor and rounds up, towards positive infinity.
fn ceil_div(value: i128, divisor: i128) -> i128 {
    let quotient = value / divisor;
    if value > 0 && value % divisor != 0 { quotient + 1 } else { quotient }
}

/// Returns an amount in the scheduler's unit of this resource (`cpu`: thousandths) as people write it: `24`, `1500m`, `12Gi`.
pub fn format(resource: &str, amount: i128) -> String {
    if resource == "cpu" {
        return if amount % 1000 == 0 { (amount / 1000).to_string() } else { format!("{amount}m") };
    }
    let bytes = resource == "memory" || resource == "ephemeral-storage" || resource.starts_with("hugepages-");
    if bytes && amount != 0 {
        for (power, suffix) in [(6u32, "Ei"), (5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")] {
            let unit = 1i128 << (10 * power);
            if amount % unit == 0 {
                return format!("{}{suffix}", amount / unit);
            }
        }
    }
    amount.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        let unit = UNIT;
        for (text, nano) in [
            ("0", 0),
            ("100m", unit / 10),
            ("1", unit),
            ("+1", unit),
            ("-1", -unit),
            (".5", unit / 2),
            ("1.", unit),
            ("0.5Gi", unit << 29),
            ("1e3", 1000 * unit),
            ("1E3", 1000 * unit),
            ("1e+3", 1000 * unit),
            ("25e-1", 5 * unit / 2),
            ("1E", 1_000_000_000_000_000_000 * unit),
            ("8Ei", unit << 63),
            ("12n", 12),
            ("3u", 3000),
            ("1k", 1000 * unit),
            ("2Ti", unit << 41),
            ("1.5M", 1_500_000 * unit),
            ("0.1Ki", 1024 * unit / 10),
            ("0.000000000000000000000000000000000000E", 0),
            ("1e0009", 1_000_000_000 * unit),
            ("1E-0003", unit / 1000),
            ("0e99999", 0),
        ] {
            assert_eq!(parse(text), Ok(nano), "{text}");
        }
    }

    #[test]
    fn written_zeros_change_nothing() {
        let zeros = "0".repeat(200);
        assert_eq!(parse(&format!("{zeros}1")), Ok(UNIT));
        assert_eq!(parse(&format!("1.5{zeros}")), Ok(UNIT * 3 / 2));
        assert_eq!(parse(&format!("1e{zeros}3")), Ok(1000 * UNIT));
    }

    #[test]
    fn what_is_finer_than_a_nano_unit_is_rounded_up() {
        assert_eq!(parse("0.1n"), Ok(1));
        assert_eq!(parse("1.0000000001"), Ok(UNIT + 1));
        assert_eq!(parse("1e-99"), Ok(1));
        assert_eq!(parse("1e-99999999999"), Ok(1));
    }

    #[test]
    fn errors_name_the_text_and_the_problem() {
        for (text, message) in [
            ("", "quantity \"\": must not be empty"),
            ("abc", "quantity \"abc\": must start with a number, as in 100m or 2Gi"),
            (".", "quantity \".\": must start with a number, as in 100m or 2Gi"),
            ("1.2.3", "quantity \"1.2.3\": must not have more than one decimal point"),
            ("1e99", "quantity \"1e99\": is too large"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message);
        }
        for text in ["1e1000", "1e99999999999"] {
            assert_eq!(parse(text).unwrap_err().problem, "is too large", "{text}");
        }
        for text in ["1 Gi", "1gi", "1mi", "1e", "1e+", "1K", "1é"] {
            assert!(parse(text).unwrap_err().to_string().contains("has an unknown suffix"), "{text}");
        }
        let long = "9".repeat(60);
        assert_eq!(parse(&long).unwrap_err().problem, "is too large");
        let longer = parse(&"9".repeat(6500)).unwrap_err();
        assert_eq!((longer.problem, longer.text.len()), ("has too many digits", 64));
    }

    #[test]
    fn the_scheduler_rounds_up() {
        assert_eq!(ceil_milli(parse("100m").unwrap()), 100);
        assert_eq!(ceil_milli(parse("1n").unwrap()), 1);
        assert_eq!(ceil_unit(parse("1500m").unwrap()), 2);
        assert_eq!(ceil_unit(parse("1Gi").unwrap()), 1 << 30);
    }

    #[test]
    fn amounts_are_written_as_people_write_them() {
        assert_eq!(format("nvidia.com/gpu", 24), "24");
        assert_eq!(format("cpu", 1500), "1500m");
        assert_eq!(format("cpu", 24_000), "24");
        assert_eq!(format("memory", 12 << 30), "12Gi");
        assert_eq!(format("memory", 1000), "1000");
        assert_eq!(format("memory", 0), "0");
    }
}
