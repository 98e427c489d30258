//! Why a connection could not be made, in words that an operator can do something with and that repeat nothing of what was said.

use std::{error::Error, io};

/// The kind of cause.
pub fn kind(error: &(dyn Error + 'static)) -> &'static str {
    if error.to_string().starts_with("dns error") {
        return "its name is not known (DNS)";
    }
    let Some(error) = causes(error).find_map(|error| error.downcast_ref::<io::Error>()) else { return "cannot connect" };
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return match tls {
            rustls::Error::InvalidCertificate(_) => "its certificate is not accepted (TLS)",
            _ => "no agreement on TLS",
        };
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => "it closed the connection",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable => "no route",
        io::ErrorKind::TimedOut => "no answer",
        _ => "cannot connect",
    }
}

/// Whether a connection failed because this process, or this machine, has too many files open: that says nothing of upstream.
pub fn is_lack_of_files(error: &(dyn Error + 'static)) -> bool {
    let lack = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(rustix::io::Errno::raw_os_error);
    causes(error).any(|error| error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error).is_some_and(|code| lack.contains(&code)))
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}
