//! The instruction sets that `HISTRS_SIMD` can name on this machine, one per line, the best first.

fn main() {
    for name in histrs::instruction_sets() {
        println!("{name}");
    }
}
