pub fn run() -> Vec<String> { Vec::new() }
