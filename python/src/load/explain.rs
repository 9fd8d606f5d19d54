//! The explanation of a batch and its epoch, as a dict.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use shardmill_load::explain::RankCost;
use shardmill_load::packing::explain::{FilePiece, PackFill};
use shardmill_load::packing::figures::{Figures, OrderReport};
use shardmill_load::packing::work::BalanceReport;
use shardmill_load::{Dataset, Explanation};

/// Includes the numbers of files, because their names are not unique.
pub(super) fn to_python<'py>(
    py: Python<'py>,
    explained: Explanation,
    dataset: &Dataset,
) -> PyResult<Bound<'py, PyDict>> {
    let name = |file: usize| dataset.files().get(file).map_or("", |file| file.relative.as_str());
    let answer = PyDict::new(py);
    let is_there = explained.batch.is_some();
    let batch = explained.batch.unwrap_or_default();
    let rows: Vec<_> = batch.rows.iter().map(|run| (name(run.file), run.start, run.rows)).collect();
    answer.set_item("rows", is_there.then_some(rows))?;
    let numbers: Vec<_> = batch.rows.iter().map(|run| run.file).collect();
    answer.set_item("row_files", is_there.then_some(numbers))?;
    answer.set_item("repeats", batch.repeats)?;
    answer.set_item("places", is_there.then_some((batch.places.start, batch.places.end)))?;
    answer.set_item(
        "lanes",
        batch.lanes.iter().map(|run| (run.lane, run.position, run.rows)).collect::<Vec<_>>(),
    )?;
    answer.set_item("steps", explained.steps)?;
    answer.set_item("rows_of_epoch", explained.rows_of_epoch)?;
    if let Some(fill) = explained.fill {
        let pieces = |pack: &Vec<FilePiece>| -> Vec<_> {
            pack.iter()
                .map(|piece| (name(piece.file), piece.row, piece.first_token, piece.tokens))
                .collect()
        };
        let files = |pack: &Vec<FilePiece>| pack.iter().map(|piece| piece.file).collect();
        let packs = explained.packs.as_deref();
        let shown: Option<Vec<_>> = packs.map(|packs| packs.iter().map(pieces).collect());
        answer.set_item("packs", shown)?;
        let numbers: Option<Vec<Vec<_>>> = packs.map(|packs| packs.iter().map(files).collect());
        answer.set_item("pack_files", numbers)?;
        set_fill(&answer, fill)?;
    } else if let Some(sources_of_epoch) = explained.sources_of_epoch {
        answer.set_item("sources", batch.sources)?;
        answer.set_item("sources_of_epoch", sources_of_epoch)?;
    }
    answer.set_item("blocks", explained.blocks)?;
    answer
        .set_item("lanes_of_rank", (explained.lanes_of_rank.start, explained.lanes_of_rank.end))?;
    answer.set_item("windows", explained.windows)?;
    answer.set_item("window_bytes", explained.mixing.window_bytes)?;
    answer.set_item("mixing_distance", explained.mixing.distance)?;
    answer.set_item("decode_amplification", explained.decode_amplification)?;
    answer.set_item(
        "ranks",
        explained
            .ranks
            .into_iter()
            .map(|cost| rank_cost(py, cost))
            .collect::<PyResult<Vec<_>>>()?,
    )?;
    if let Some(balance) = explained.balance {
        set_balance(&answer, balance)?;
    }
    Ok(answer)
}

fn set_balance(answer: &Bound<'_, PyDict>, balance: BalanceReport) -> PyResult<()> {
    let BalanceReport { rank_costs, figures } = balance;
    let Figures { balanced, as_packed, steps_after_first_end } = figures;
    let (imbalance, mix) = (PyDict::new(answer.py()), PyDict::new(answer.py()));
    for (name, OrderReport { all_steps, before_first_end, mix: of_steps }) in
        [("balanced", balanced), ("as_packed", as_packed)]
    {
        let figures = [
            ("all_steps", all_steps.mean),
            ("worst_step", all_steps.worst),
            ("before_first_end", before_first_end.mean),
            ("worst_before_first_end", before_first_end.worst),
        ];
        imbalance.set_item(name, figures.into_py_dict(answer.py())?)?;
        let of_order = PyDict::new(answer.py());
        of_order.set_item("documents", of_steps.documents)?;
        of_order.set_item("sources", of_steps.shares)?;
        mix.set_item(name, of_order)?;
    }
    answer.set_item("cost_imbalance", imbalance)?;
    answer.set_item("step_mix", mix)?;
    answer.set_item("rank_costs", rank_costs)?;
    answer.set_item("steps_after_first_end", steps_after_first_end)
}

fn set_fill(
    answer: &Bound<'_, PyDict>,
    PackFill { packs, totals, rate }: PackFill,
) -> PyResult<()> {
    answer.set_item("packs_of_epoch", packs)?;
    answer.set_item("tokens_of_epoch", totals.map(|totals| totals.tokens))?;
    answer.set_item("padded_tokens", totals.map(|totals| totals.padded_tokens))?;
    answer.set_item("truncated_tokens", totals.map(|totals| totals.truncated_tokens))?;
    answer.set_item("dropped_tokens", totals.map(|totals| totals.dropped_tokens))?;
    answer.set_item("dropped_rows", totals.map(|totals| totals.dropped_rows))?;
    answer.set_item("fill_rate", rate)
}

fn rank_cost(py: Python<'_>, cost: RankCost) -> PyResult<Bound<'_, PyDict>> {
    let RankCost { batches, blocks, decoded_bytes, stored_bytes } = cost;
    [
        ("batches", batches),
        ("blocks", blocks),
        ("decoded_bytes", decoded_bytes),
        ("stored_bytes", stored_bytes),
    ]
    .into_py_dict(py)
}
