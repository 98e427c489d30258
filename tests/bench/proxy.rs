//! What Plimsoll costs on the way of a request, beside nginx, haproxy and the least that hyper can do: `cargo bench --bench proxy`.
//!
//! A provider, a load generator and the proxies run on this machine. Requests go to all of them in turn, some in a row, so that a busy machine
//! slows all alike, and figures are compared within one run only: what a proxy adds is its median less that of asking the provider directly.
//!
//! `cargo bench --bench proxy -- sse memory` runs only what is named; `--quick` a tenth of it all. Where neighbours are loud,
//! `chrt -r 5 cargo bench --bench proxy` lets the run go before them. `cargo test --bench proxy -- instructions` counts instead, and compares
//! with what was committed; `cargo bench --bench proxy -- profile` says where the instructions of a request go.

mod client;
mod floor;
mod instructions;
mod payload;
mod peers;
mod profile;
mod provider;
mod rows;
mod streams;
mod table;
mod work;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["work", name, times] => instructions::work(name, times),
        ["instructions", rest @ ..] if !instructions::check(rest.contains(&"--update")) => return ExitCode::FAILURE,
        ["instructions", ..] => {}
        ["profile"] => profile::run(),
        ["provider", port] => provider::serve(port),
        ["floor", port, upstream] => floor::serve(port, upstream),
        _ => return rows::run(&arguments),
    }
    ExitCode::SUCCESS
}
