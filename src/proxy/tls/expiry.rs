//! When a certificate ends: the one field of X.509 that an operator has to watch, and none that rustls tells.

use rustls::pki_types::CertificateDer;

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]`, explicit: the version, which may be left out.
const VERSION: u8 = 0xa0;

/// The last second in which all of a chain is valid, since 1970. Nothing for what is no certificate.
pub fn of(chain: &[CertificateDer]) -> Option<i64> {
    chain.iter().map(|certificate| last_second(certificate)).collect::<Option<Vec<i64>>>()?.into_iter().min()
}

/// Certificate ::= { tbs { version?, serial, algorithm, issuer, validity { from, to }, … }, … }
fn last_second(certificate: &[u8]) -> Option<i64> {
    let (_, whole, _) = element(certificate).filter(|(tag, _, _)| *tag == SEQUENCE)?;
    let (_, signed, _) = element(whole).filter(|(tag, _, _)| *tag == SEQUENCE)?;
    let (first, _, rest) = element(signed)?;
    let mut rest = if first == VERSION { rest } else { signed };
    for _serial_algorithm_issuer in 0..3 {
        rest = element(rest)?.2;
    }
    let (_, validity, _) = element(rest).filter(|(tag, _, _)| *tag == SEQUENCE)?;
    let (tag, to, _) = element(element(validity)?.2)?;
    time(tag, std::str::from_utf8(to).ok()?)
}

/// Tag, content, and what comes behind, of the DER at the beginning of `bytes`.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, length], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // So many bytes of length follow.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(length)?;
    Some((tag, content, behind))
}

/// `YYMMDDhhmmssZ` for years up to 2049, `YYYYMMDDhhmmssZ` for any, as RFC 5280 wants them.
fn time(tag: u8, text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    let (year, rest) = match tag {
        UTC_TIME if text.len() == 12 => {
            (text[..2].parse().map(|year: i64| if year < 50 { 2000 + year } else { 1900 + year }).ok()?, &text[2..])
        }
        GENERALIZED_TIME if text.len() == 14 => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let pair = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    let (month, day, hour, minute, second) = (pair(0)?, pair(2)?, pair(4)?, pair(6)?, pair(8)?);
    (1..=12).contains(&month).then_some(())?;
    // Howard Hinnant's days_from_civil.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * month + 2) / 5 + day - 1;
    Some(((era * 146_097 + day_of_era - 719_468) * 24 + hour) * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(year: i32, month: u8, day: u8) -> CertificateDer<'static> {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(year, month, day);
        parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn the_end_of_a_chain_is_that_of_its_shortest_certificate() {
        let check = |year: i32, month: u8, day: u8| {
            let wanted = rcgen::date_time_ymd(year, month, day).unix_timestamp();
            assert_eq!(of(&[certificate(year, month, day)]), Some(wanted), "{year}-{month}-{day}");
        };
        check(2026, 11, 30);
        check(2028, 2, 29);
        check(2049, 12, 31);
        check(2050, 1, 1);
        check(2400, 3, 1);
        assert_eq!(of(&[certificate(2040, 1, 1), certificate(2030, 1, 1)]), of(&[certificate(2030, 1, 1)]));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn what_is_no_certificate_has_no_end_and_harms_nobody() {
        let whole = certificate(2030, 1, 1);
        for cut in 0..whole.len() {
            assert_eq!(of(&[CertificateDer::from(whole[..cut].to_vec())]), None);
        }
        for at in 0..whole.len() {
            let mut bent = whole.to_vec();
            bent[at] ^= 0xff;
            let _ = of(&[CertificateDer::from(bent)]);
        }
    }
}
