use super::*;
use crate::packing::{Contents, PackColumns, PackForm};
use crate::{DatasetOptions, Format};
use shardmill_plan::packing::Strategy;
use std::path::PathBuf;
use uuid::Uuid;

/// A directory of CSV files that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    /// Each file has a column `x` of as many rows.
    fn of(rows: &[usize]) -> Self {
        let directory = std::env::temp_dir().join(format!("shardmill-row-plan-{}", Uuid::new_v4()));
        std::fs::create_dir(&directory).unwrap();
        for (file, rows) in rows.iter().enumerate() {
            std::fs::write(
                directory.join(format!("{file}.csv")),
                format!("x\n{}", "1\n".repeat(*rows)),
            )
            .unwrap();
        }
        Self(directory)
    }

    fn plan(&self) -> RowPlan {
        let paths = vec![self.0.to_str().unwrap().to_owned()];
        let dataset =
            Dataset::open(&DatasetOptions::new(paths, Some(Format::Csv)), &Cancel::default())
                .unwrap();
        RowPlan::build(&Arc::new(dataset), None, 1, &Cancel::default()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

const SHARE: Share = Share { batch_size: 2, world_size: 2, rank: 1, tail: Tail::Uneven };

#[test]
fn rows_are_counted_by_file_and_dealt_out_in_their_order() {
    let files = Scratch::of(&[3, 4]);
    let plan = files.plan();
    assert_eq!((plan.num_rows(), plan.rows_of_files()), (7, vec![3, 4]));
    let explained = plan.explain(0, 1, SHARE, &[0], &Cancel::default()).unwrap();
    let batch = explained.batch.unwrap();
    assert_eq!((explained.steps, explained.windows, batch.places), (2, 0, 4..7));
    assert_eq!(
        batch.rows.iter().map(|run| (run.file, run.start, run.rows)).collect::<Vec<_>>(),
        [(1, 3, 1)]
    );
    assert_eq!(explained.ranks.iter().map(|cost| cost.batches).collect::<Vec<_>>(), [2, 2]);
    assert!(explained.fill.is_none() && explained.sources_of_epoch.is_none());
}

#[test]
fn shuffled_plan_has_another_order_in_each_epoch_and_the_same_when_it_is_asked_again() {
    let files = Scratch::of(&[40]);
    let plan = files.plan().ordered(Some(1 << 20), 1, 1);
    let sequence = |epoch| plan.audit(epoch, 0..40, SHARE).unwrap().sequence;
    let (first, second) = (sequence(0), sequence(1));
    assert_ne!(first, second);
    assert_eq!((sequence(0), sequence(1)), (first, second));
}

#[test]
fn mixture_has_the_rows_of_its_sources_by_weight() {
    let (web, code) = (Scratch::of(&[6]), Scratch::of(&[1, 1]));
    let (web, code) = (web.plan(), code.plan());
    let sources = [("web", &web), ("code", &code)].map(|(name, plan)| crate::MixedSource {
        name: name.to_owned(),
        dataset: Arc::clone(plan.dataset()),
        columns: vec![0],
    });
    let dataset = Arc::new(Dataset::mixed(&sources, None).unwrap());
    let plan =
        RowPlan::mixed(&dataset, &[&web, &code], Blend::weighted(8, &[1, 1])).ordered(None, 0, 1);
    assert_eq!(
        (plan.num_rows(), plan.consumed(0, 8), plan.consumed(0, 0)),
        (8, vec![4, 4], vec![0, 0])
    );
    let explained = plan.explain(0, 0, SHARE, &[0], &Cancel::default()).unwrap();
    assert_eq!(explained.sources_of_epoch, Some(vec![4, 4]));
    assert_eq!(web.consumed(0, 3), [0; 0]);
}

#[test]
fn packs_are_those_of_one_epoch_and_have_no_bad_rows() {
    let files = Scratch::of(&[5]);
    let plan = files.plan();
    let counted = LengthsSource::Stated { column: 0 };
    let lengths = Arc::new(
        Lengths::find(plan.dataset(), plan.rows(), counted, 1, &Cancel::default()).unwrap(),
    );
    let packing = Packing::new(2, Strategy::Concat);
    let packs = Arc::new(plan.pack(3, packing, &lengths, 1, &Cancel::default()).unwrap());
    let form = PackForm { length: 2, ..PackForm::default() };
    let columns = PackColumns::new(plan.dataset(), Vec::new(), form, &[].into(), false).unwrap();
    let packed = plan.with_packs(
        3,
        Packs {
            source: PackSource::Epoch { plan: packs, lengths, work: Arc::default() },
            contents: Contents::Tokens(Arc::new(columns)),
        },
    );
    assert_eq!((packed.num_rows(), packed.lanes().num_rows()), (5, 3));
    let refused = |epoch, on_bad_rows| {
        packed.read_order(epoch, on_bad_rows).err().map(|error| error.to_string())
    };
    assert_eq!(refused(3, OnBadRows::Raise), None);
    assert_eq!(refused(4, OnBadRows::Raise).unwrap(), "these are the packs of epoch 3, not of 4");
    assert!(refused(3, OnBadRows::Skip).is_some());
    assert!(plan.read_order(4, OnBadRows::Skip).is_ok());
}

#[test]
fn blocks_are_read_together_only_in_file_order_without_bad_rows() {
    let files = Scratch::of(&[2, 2]);
    let plan = files.plan();
    let is_own = |plan: &RowPlan, on_bad_rows| {
        Arc::ptr_eq(&plan.read_order(0, on_bad_rows).unwrap().0, plan.rows())
    };
    assert!(!is_own(&plan, OnBadRows::Raise));
    assert!(is_own(&plan, OnBadRows::Replace));
    assert!(is_own(&plan.ordered(Some(1), 0, 1), OnBadRows::Raise));
}

#[test]
fn epoch_whose_places_are_no_numbers_is_refused() {
    let files = Scratch::of(&[4]);
    let plan = files.plan();
    let packing = Packing::new(2, Strategy::Concat);
    let packs = plan
        .pack_ahead(
            packing,
            LengthsSource::Stated { column: 0 },
            &[0],
            Vec::new(),
            1,
            &Cancel::default(),
        )
        .unwrap();
    let packs = Arc::new(packs);
    let reached = |epoch| crate::packing::AheadEpoch::new(&packs, epoch, 1 << 60).is_ok();
    assert_eq!([0, 6, 7, 8, u64::MAX].map(reached), [true, true, false, false, false]);
}
