//! The doubles enforce their rules.

use collector_doubles::rules::{Pprof, check, gunzip};
use prost::Message as _;

#[test]
fn what_breaks_the_rules_is_noticed() {
    let good = Pprof::decode(&*gunzip(&super::pprof()).unwrap()).unwrap();
    assert_eq!(check(&good), Ok(()));
    let error = |change: &dyn Fn(&mut Pprof)| {
        let mut profile = good.clone();
        change(&mut profile);
        check(&profile).unwrap_err()
    };
    let text = |profile: &mut Pprof, text: &str| {
        profile.string_table.push(text.to_owned());
        i64::try_from(profile.string_table.len() - 1).unwrap()
    };
    assert_eq!(error(&|it| it.mapping[0].id = 9), "ids are not 1, 2, 3");
    assert_eq!(error(&|it| it.location.reverse()), "ids are not 1, 2, 3");
    assert_eq!(error(&|it| it.function[0].id = 0), "ids are not 1, 2, 3");
    let dash = |it: &mut Pprof| it.sample_type[1].r#type = text(it, "cpu-time");
    assert_eq!(error(&dash), "sample type contains -");
    let key = |it: &mut Pprof| it.sample[0].label[0].key = text(it, "thread.id");
    assert_eq!(error(&key), "invalid name 'thread.id'");
    let many = |it: &mut Pprof| it.sample = vec![it.sample[0].clone(); 16_001];
    assert_eq!(error(&many), "too many samples");
    let nowhere = |it: &mut Pprof| it.sample[0].location_id[0] = 1 << 40;
    assert_eq!(error(&nowhere), "a sample of nowhere");
    let values = |it: &mut Pprof| it.sample[0].value.truncate(1);
    assert!(error(&values).contains("too few or too many values"));
    let nameless = |it: &mut Pprof| it.function[0].name = 0;
    assert_eq!(error(&nameless), "a function without a name");
    let twice = |it: &mut Pprof| {
        let label = it.sample[0].label[0];
        it.sample[0].label.push(label);
    };
    assert!(error(&twice).contains("is there twice"));
    assert_eq!(error(&|it| it.function[0].name = -1), "no such text");
    assert_eq!(error(&|it| it.time_nanos = 0), "no time");
}
