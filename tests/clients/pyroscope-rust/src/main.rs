// SPDX-License-Identifier: Apache-2.0

// The work of tests/clients/clients.inc, in Rust. With the feature sdk, pyroscope-rust SECONDS URL sends by Pyroscope's crate; with the feature file,
// pyroscope-rust SECONDS FILE writes what pprof-rs measures.
type Result = std::result::Result<(), Box<dyn std::error::Error>>;

#[inline(never)]
fn spin(rounds: u64, seed: u64) -> u64 {
    let mut x = seed;
    for _ in 0..rounds * 20000 {
        x = std::hint::black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
    }
    x
}

#[inline(never)]
fn heavy(seed: u64) -> u64 {
    std::hint::black_box(spin(7, seed)) + 1
}

#[inline(never)]
fn light(seed: u64) -> u64 {
    std::hint::black_box(spin(3, seed)) + 1
}

// Of this thread: the profiler's own symbolizes, and takes no samples meanwhile.
fn cpu_ns() -> u64 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn work(seconds: f64) {
    let begun = cpu_ns();
    let mut x = 1;
    while cpu_ns() < begun + (seconds * 1e9) as u64 {
        for _ in 0..10 {
            x = heavy(x);
            x = light(x);
        }
    }
    std::hint::black_box(x);
    println!("cpu_ns {}", cpu_ns() - begun);
}

#[cfg(feature = "file")]
fn profile(seconds: f64, file: &str) -> Result {
    use pprof::protos::Message;
    let guard = pprof::ProfilerGuardBuilder::default().frequency(99).blocklist(&["libc", "libgcc", "pthread", "vdso"]).build()?;
    work(seconds);
    let mut content = Vec::new();
    guard.report().build()?.pprof()?.encode(&mut content)?;
    std::fs::write(file, content)?;
    Ok(())
}

#[cfg(feature = "sdk")]
fn profile(seconds: f64, url: &str) -> Result {
    use pyroscope::backend::{pprof_backend, BackendConfig, PprofConfig};
    let backend = pprof_backend(PprofConfig { sample_rate: 100 }, BackendConfig::default());
    let agent = pyroscope::pyroscope::PyroscopeAgentBuilder::new(url, "shop.rust", 100, "pyroscope-rs", "2.1.5", backend)
        .tags(vec![("region", "eu")])
        .build()?;
    let running = agent.start()?;
    let (add_tag, remove_tag) = running.tag_wrapper();
    add_tag("vehicle".to_string(), "bike".to_string())?;
    work(seconds);
    remove_tag("vehicle".to_string(), "bike".to_string())?;
    running.stop()?.shutdown();
    Ok(())
}

fn main() -> Result {
    let arguments: Vec<String> = std::env::args().collect();
    profile(arguments[1].parse()?, &arguments[2])
}
