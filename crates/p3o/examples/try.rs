//! scratch
use p3o::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let task = &args[1];
    let make = || p3o_env::tasks::make(task, &Default::default()).unwrap();
    let spec = make().spec().clone();
    let mut c = Config::preset("quick", &args[2], &spec).unwrap();
    for a in &args[3..] {
        c.set(a).unwrap();
    }
    let n = c.updates();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(std::env::var("T").ok().and_then(|t| t.parse().ok()).unwrap_or(2))
        .build()
        .unwrap();
    let mut tail = vec![];
    pool.install(|| {
        let mut l = Learner::new(c, &make).unwrap();
        for u in 0..n {
            let r = l.update().unwrap();
            if (u+1) % 10 == 0 || u == 0 {
            println!("{:4} {:8} ret {:6.2} cost {:6.1?} len {:.0} kl {:.4} steps {} redo {} pen {:.2?} off {:.2?} lossc {:.3?} ent {:.2} vl {:.3?} ev {:.2?} gn {:.2} | {:.0}+{:.0} ms", r.update, r.steps, r.ret, r.costs, r.length, r.passes.kl, r.passes.steps, r.passes.redone, r.passes.penalized, r.offsets, r.passes.loss_c, r.entropy, r.critic_losses, r.explained, r.passes.gradient_norm, r.rollout_ms, r.update_ms);
            }
            if u * 10 >= n * 9 && r.episodes > 0 { tail.push((r.ret, r.costs.clone())); }
        }
    });
    let k = tail.len() as f64;
    println!(
        "LAST TENTH ret {:.2} costs {:?}",
        tail.iter().map(|t| t.0).sum::<f64>() / k,
        (0..spec.costs.len()).map(|i| tail.iter().map(|t| t.1[i]).sum::<f64>() / k).collect::<Vec<_>>()
    );
}
