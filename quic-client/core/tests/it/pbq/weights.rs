// SPDX-License-Identifier: Apache-2.0
//! The weights file: valid ones are read, all others rejected with the fault.

use proptest::prelude::*;
use serde_json::{Value, json};
use std::rc::Rc;
use weir_core::congestion::pbq::{
    Growth, MOST_BYTES, Pacing, Profile, Start, Weights, WeightsError, built_in, built_in_file,
};
use weir_core::fuzz::sealed_weights;

pub const PAPER: &[u8] = include_bytes!("../../pbq/paper.weights");
const OWN: &[u8] = include_bytes!("../../pbq/own.weights");

/// The JSON of a file that is right.
pub fn document(profile: Profile) -> Value {
    let file = if profile == Profile::Paper { PAPER } else { OWN };
    let content = file.splitn(2, |byte| *byte == b'\n').nth(1).unwrap();
    serde_json::from_slice(content).unwrap()
}

/// A file of our profile of which these members are others; its policy's mean is always `mean` (below 1).
pub fn constant(mean: f32, members: Value) -> Rc<Weights> {
    let mut document = document(Profile::Own);
    document["layers"] = json!([{"weights": ["00000000".repeat(15)], "bias": format!("{:08x}", mean.to_bits())}]);
    for (name, value) in members.as_object().unwrap() {
        document[name] = value.clone();
    }
    Rc::new(Weights::read(&sealed_weights(document.to_string().as_bytes()), Profile::Own).unwrap())
}

/// Error for a file of our profile with these members replaced.
pub fn refused(members: Value) -> String {
    let mut document = document(Profile::Own);
    document.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    read(&document, Profile::Own).unwrap_err()
}

fn read(document: &Value, profile: Profile) -> Result<Weights, String> {
    Weights::read(&sealed_weights(document.to_string().as_bytes()), profile).map_err(|e| e.to_string())
}

#[test]
fn what_python_wrote_is_read() {
    let paper = Weights::read(PAPER, Profile::Paper).unwrap();
    assert_eq!((paper.history, paper.memory_intervals, paper.network.inputs()), (1, 0, 5));
    assert_eq!((paper.action_bound, paper.guard), (1.0, None));
    assert_eq!((paper.pacing, paper.start, paper.growth), (Pacing::Bbr, Start::InitialWindow, Growth::Always));
    assert_eq!(paper.interval.as_millis(), 100);
    let names: Vec<_> = paper.inputs.iter().map(|quantity| quantity.name).collect();
    assert_eq!(names, ["window_bdp", "interval_ratio", "rate_ratio", "rtt_mean_ratio", "loss_share"]);
    assert!(PAPER.starts_with(format!("weir-pbq-weights 1 sha256:{}\n", paper.sha256).as_bytes()));
    assert_eq!(paper.provenance.command, "network_reference.py");
    let own = Weights::read(OWN, Profile::Own).unwrap();
    assert_eq!((own.history, own.network.inputs(), own.action_bound), (3, 15, 0.5));
    assert!(own.guard.is_some_and(|rows| (rows.after, rows.back_after) == (3, 10)));
}

#[test]
fn the_built_in_weights_fit_and_say_what_made_them() {
    for profile in [Profile::Own, Profile::Paper] {
        let weights = built_in(profile).unwrap();
        assert_eq!(weights.profile, profile);
        assert!(built_in_file(profile).len() < 100_000, "{}", profile.name());
        let made = &weights.provenance;
        assert!(made.commit.len() >= 7 && !made.command.is_empty(), "{made:?}");
        // The seed is a number by the file's form, also if it is 0.
        assert!(weights.network.mean(&vec![0.0; weights.network.inputs()]).is_finite());
    }
}

#[test]
fn a_file_that_was_not_written_so_is_refused() {
    let refused = |bytes: &[u8]| Weights::read(bytes, Profile::Paper).unwrap_err();
    for bytes in [&b""[..], b"\n", b"{}\n", b"weir-pbq-weights\n", b"\xff\n", b"weir-pbq-weights 1 md5:00\n"] {
        assert_eq!(refused(bytes), WeightsError::NotWeights, "{}", String::from_utf8_lossy(bytes));
    }
    let other = String::from_utf8(PAPER.to_vec()).unwrap().replacen("weights 1 ", "weights 2 ", 1);
    assert_eq!(refused(other.as_bytes()), WeightsError::Version("2".to_owned()));
    assert!(matches!(refused(&PAPER[..PAPER.len() - 1]), WeightsError::Checksum { .. }), "truncated");
    assert!(matches!(refused(&[PAPER, b" "].concat()), WeightsError::Checksum { .. }), "longer");
    assert_eq!(refused(&vec![b'x'; MOST_BYTES + 1]), WeightsError::TooLarge(MOST_BYTES + 1));
    assert!(matches!(refused(&sealed_weights(b"{")), WeightsError::Syntax(_)));
    let text = refused(OWN).to_string();
    assert_eq!(text, "profile: 'pbq', expected 'pbq-paper', the congestion control's");
}

#[test]
fn a_member_that_does_not_fit_is_refused_by_its_name() {
    let nan = "7fc00000";
    let wrong: &[(&str, Value, &str)] = &[
        ("/profile", json!("other"), "profile: 'other', expected 'pbq'"),
        ("/interval_ms", json!(5), "interval_ms: 5, expected 10 to 10000"),
        ("/interval_least_rtts", json!(-1), "interval_least_rtts: -1, expected 0 to 8"),
        ("/inputs", json!([]), "inputs: 0 names, expected 1 to 20"),
        ("/inputs/0", json!("rate_ratio"), "inputs: 'rate_ratio' twice"),
        ("/inputs/0", json!("queue"), "inputs: 'queue' is no quantity, expected of window_packets, "),
        ("/history", json!(0), "history: 0, expected 1 to 16"),
        ("/history", json!(4), "layers[0].weights[0]: 15 numbers, expected 20"),
        ("/memory_intervals", json!(1001), "memory_intervals: 1001, expected 0 to 1000"),
        ("/normalisation/shift", json!([1]), "normalisation.shift: 1 numbers, expected 5"),
        ("/normalisation/scale/2", json!(1e39), "normalisation.scale: inf, expected what an IEEE single can hold"),
        ("/normalisation/clip", json!(0), "normalisation.clip: 0, expected "),
        ("/layers", json!([]), "layers: 0, expected 1 to 4"),
        ("/layers/0/weights/3", json!("zz"), "layers[0].weights[3]: not hexadecimal digits, expected 8 for each"),
        ("/layers/0/weights/3", json!("+0000000"), "layers[0].weights[3]: not hexadecimal"),
        ("/layers/0/weights/3", json!("3f8000003f"), "layers[0].weights[3]: not hexadecimal"),
        ("/layers/0/weights/3", json!("3f800000"), "layers[0].weights[3]: 1 numbers, expected 15"),
        ("/layers/1/bias", json!("3f800000"), "layers[1].bias: 1 numbers, expected 7"),
        ("/layers/2/bias", json!(nan), "layers[2]: a number that is not finite"),
        (
            "/layers/2",
            json!({"weights": [nan.repeat(7), nan.repeat(7)], "bias": nan.repeat(2)}),
            "layers[2].weights: 2",
        ),
        ("/output", json!("relu"), "content: unknown variant `relu`"),
        ("/log_deviation", json!(6), "log_deviation: 6, expected -20 to 5"),
        ("/action_bound", json!(1.5), "action_bound: 1.5, expected "),
        ("/action_bound", json!(0), "action_bound: 0, expected "),
        ("/window_packets", json!([1, 10]), "window_packets[0]: 1, expected 2 to 20000"),
        ("/window_packets", json!([10, 5]), "window_packets[1]: 5, expected 10 to 20000"),
        ("/window_packets", json!([10, 20001]), "window_packets[1]: 20001, expected 10 to 20000"),
        ("/pacing", json!("fast"), "content: unknown variant `fast`"),
        ("/guard", json!({"after": 0, "back_after": 1}), "guard.after: 0, expected 1 to 1000"),
        ("/fairness", json!({"most": 0.3, "window_packets": 10}), "fairness.most: 0.3"),
        ("/fairness", json!({"most": 0, "window_packets": 10}), "fairness.most: 0, expected "),
        ("/fairness", json!({"most": 0.1, "window_packets": 0}), "fairness.window_packets: 0, expected 1 to 10000"),
        ("/fairness", json!({"most": 0.1}), "content: missing field `window_packets`"),
        ("/ranges", json!({"rtt": [0, 1]}), "ranges: 'rtt' is no quantity"),
        ("/ranges/rtt_least_s", json!([0.1, 0.01]), "ranges.rtt_least_s: [0.1"),
        ("/provenance/seed", json!(-1), "content: "),
        ("/provenance", json!({}), "content: missing field `commit`"),
    ];
    for (member, value, expected) in wrong {
        let mut document = document(Profile::Own);
        document["fairness"] = Value::Null;
        *document.pointer_mut(member).unwrap_or_else(|| panic!("{member}")) = value.clone();
        let text = read(&document, Profile::Own).unwrap_err();
        assert!(text.starts_with(expected), "{member} {value}: {text}");
    }
    let mut more = document(Profile::Own);
    more["gain"] = json!(1);
    assert!(read(&more, Profile::Own).unwrap_err().contains("unknown field `gain`"));
    for name in document(Profile::Own).as_object().unwrap().keys() {
        let mut less = document(Profile::Own);
        less.as_object_mut().unwrap().remove(name);
        // serde takes a missing Option for none.
        assert_eq!(read(&less, Profile::Own).is_ok(), name == "guard", "{name}");
    }
}

#[test]
fn the_papers_profile_is_the_papers() {
    for (name, value) in [
        ("action_bound", json!(0.5)),
        ("start", json!("after-startup")),
        ("growth", json!("when-used")),
        ("guard", json!({"after": 1, "back_after": 1})),
        ("fairness", json!({"most": 0.1, "window_packets": 10})),
        ("pacing", json!("window")),
        ("interval_least_rtts", json!(1)),
    ] {
        let mut document = document(Profile::Paper);
        document[name] = value;
        let text = read(&document, Profile::Paper).unwrap_err();
        assert!(text.starts_with(name) && text.contains("in a file of profile 'pbq-paper'"), "{text}");
    }
    let mut alone = document(Profile::Paper);
    alone["pacing"] = json!("none");
    assert_eq!(read(&alone, Profile::Paper).unwrap().pacing, Pacing::None);
}

proptest! {
    // A file cut anywhere, or with any byte changed, is not taken.
    #[test]
    fn no_damage_goes_unnoticed(at in 0..PAPER.len(), bit in 0u8..8) {
        prop_assert!(Weights::read(&PAPER[..at], Profile::Paper).is_err());
        let mut bytes = PAPER.to_vec();
        bytes[at] ^= 1 << bit;
        prop_assert!(Weights::read(&bytes, Profile::Paper).is_err(), "byte {at}, bit {bit}");
    }
}
