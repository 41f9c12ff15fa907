//! Aggregates of pairs: regression, covariance, correlation.
//!
//! The pairs come as two lists. A pair with a NULL does not count. Sums of squares are taken of the distances from the mean as it
//! moves along, by the method of Youngs and Cramer, in the order in which Postgres calculates, so that the last digits agree.

use super::library::Library;
use super::list;
use repr::Datum;

/// The aggregates, by name.
pub const NAMES: [&str; 12] = [
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
];

/// What is known of the pairs.
#[derive(Default)]
struct Sums {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

/// Declares the functions of this file: over the lists of Y and of X.
pub fn declare(library: &mut Library) {
    // Of no rows there is no list.
    library.add("regr_count_list(float8[], float8[]) int8 !null", |_, a| Ok(Datum::Int8(sums(a).count as i64)));
    for name in NAMES.into_iter().filter(|name| *name != "regr_count") {
        library.add(&format!("{name}_list(float8[], float8[]) float8"), |call, a| {
            let name = call.name.trim_end_matches("_list");
            Ok(finish(name, &sums(a)).map_or(Datum::Null, Datum::Float8))
        });
    }
}

fn sums(a: &[Datum<'_>]) -> Sums {
    let mut sums = Sums::default();
    for pair in list(a, 0).iter().zip(list(a, 1)) {
        let (Datum::Float8(y), Datum::Float8(x)) = pair else { continue };
        sums.count += 1.0;
        sums.x += x;
        sums.y += y;
        if sums.count > 1.0 {
            let (dx, dy) = (x * sums.count - sums.x, y * sums.count - sums.y);
            let scale = 1.0 / (sums.count * (sums.count - 1.0));
            sums.xx += dx * dx * scale;
            sums.yy += dy * dy * scale;
            sums.xy += dx * dy * scale;
        } else if !x.is_finite() || !y.is_finite() {
            sums.xx += x * 0.0;
            sums.yy += y * 0.0;
            sums.xy += x * y * 0.0;
        }
    }
    sums
}

fn finish(name: &str, sums: &Sums) -> Option<f64> {
    let Sums { count, x, y, xx, yy, xy } = *sums;
    if count < 1.0 {
        return None;
    }
    match name {
        "regr_avgx" => Some(x / count),
        "regr_avgy" => Some(y / count),
        "regr_sxx" => Some(xx),
        "regr_syy" => Some(yy),
        "regr_sxy" => Some(xy),
        "covar_pop" => Some(xy / count),
        "covar_samp" => (count >= 2.0).then(|| xy / (count - 1.0)),
        "corr" => (xx != 0.0 && yy != 0.0).then(|| xy / (xx * yy).sqrt()),
        "regr_r2" if yy == 0.0 => (xx != 0.0).then_some(1.0),
        "regr_r2" => (xx != 0.0).then(|| xy * xy / (xx * yy)),
        "regr_slope" => (xx != 0.0).then(|| xy / xx),
        _ => (xx != 0.0).then(|| (y - x * xy / xx) / count),
    }
}
