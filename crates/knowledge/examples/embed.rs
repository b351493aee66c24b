//! Embeds a question and a passage many times, and prints the processor time of each:
//! `cargo run --release -p windlass-knowledge --example embed -- FOLDER`.

use windlass_knowledge::embed::LocalModel;

const ROUNDS: usize = 100;

fn main() {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("name the folder of the model");
        std::process::exit(2);
    };
    let begun = processor_ms();
    let model = match LocalModel::open(folder.as_ref()) {
        Ok(model) => model,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    println!("load: {:.0} ms", processor_ms() - begun);
    let question = "what similarity laws must be obeyed when constructing aeroelastic models of heated high speed aircraft";
    for text in [question.to_owned(), format!("{question} ").repeat(10)] {
        let begun = processor_ms();
        for _ in 0..ROUNDS {
            std::hint::black_box(model.embed_one(&text));
        }
        let each_ms = (processor_ms() - begun) / ROUNDS as f64;
        println!("{} characters: {each_ms:.2} ms", text.len());
    }
}

/// The processor time of this process so far, which a busy machine does not stretch: the first number of
/// `/proc/self/schedstat`, in nanoseconds.
fn processor_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds: f64 = text
        .split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default();
    nanoseconds / 1e6
}
