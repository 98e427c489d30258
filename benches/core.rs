//! What is done to a request of a megabyte, piece by piece: `cargo bench --bench core`.

use std::hint::black_box;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};

#[path = "../tests/bench/payload.rs"]
#[allow(dead_code)] // one of its two users needs each
mod payload;
#[path = "../tests/bench/work.rs"]
mod work;

fn core(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    for name in work::NAMES {
        let mut work = work::named(name);
        group.throughput(Throughput::Bytes(work.bytes as u64)).sample_size(20).sampling_mode(SamplingMode::Flat);
        group.bench_function(work.name, |bencher| bencher.iter(|| black_box(&mut work.once)()));
    }
    group.finish();
}

criterion_group!(benches, core);
criterion_main!(benches);
