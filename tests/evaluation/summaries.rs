pub fn run(_: &super::Arguments) -> Vec<String> {
    Vec::new()
}
