//! Several discrete actions at once, each drawn on its own: categorical policies side by side.
//!
//! All functions take one row: the logits of all heads one after another, `sizes[i]` of them for head i, and one action
//! per head. Log-probability, entropy and KL are sums over the heads.

use crate::categorical::{self, Row};
use crate::real::Real;
use rand::Rng;

/// Each head's part of a row.
fn heads<'a, E>(sizes: &'a [usize], mut row: &'a [E]) -> impl Iterator<Item = &'a [E]> {
    sizes.iter().map(move |&n| {
        let (head, rest) = row.split_at(n);
        row = rest;
        head
    })
}

fn heads_mut<'a, E>(sizes: &'a [usize], mut row: &'a mut [E]) -> impl Iterator<Item = &'a mut [E]> {
    sizes.iter().map(move |&n| {
        let (head, rest) = std::mem::take(&mut row).split_at_mut(n);
        row = rest;
        head
    })
}

/// The index that an action slice holds as a number.
fn index<E: Real>(action: E) -> usize {
    action.f64() as usize
}

/// Draws an action for every head.
pub fn sample<E: Real>(sizes: &[usize], logits: &[E], actions: &mut [E], rng: &mut impl Rng) {
    for (action, logits) in actions.iter_mut().zip(heads(sizes, logits)) {
        *action = E::of(categorical::sample(logits, rng) as f64);
    }
}

/// The likeliest action of every head.
pub fn mode<E: Real>(sizes: &[usize], logits: &[E], actions: &mut [E]) {
    for (action, logits) in actions.iter_mut().zip(heads(sizes, logits)) {
        *action = E::of(categorical::mode(logits) as f64);
    }
}

/// log pi(actions)
pub fn log_prob<E: Real>(sizes: &[usize], logits: &[E], actions: &[E]) -> E {
    heads(sizes, logits).zip(actions).map(|(logits, &action)| categorical::log_prob(logits, index(action))).sum()
}

/// Entropy.
pub fn entropy<E: Real>(sizes: &[usize], logits: &[E]) -> E {
    heads(sizes, logits).map(categorical::entropy).sum()
}

/// KL(new || old)
pub fn kl<E: Real>(sizes: &[usize], logits: &[E], old_logits: &[E]) -> E {
    heads(sizes, logits).zip(heads(sizes, old_logits)).map(|(new, old)| categorical::kl(new, old)).sum()
}

/// Adds `weight` times the gradient of [`kl`] with respect to the new logits.
pub fn kl_grad<E: Real>(sizes: &[usize], logits: &[E], old_logits: &[E], weight: E, d_logits: &mut [E]) {
    let rows = heads(sizes, logits).zip(heads(sizes, old_logits)).zip(heads_mut(sizes, d_logits));
    rows.for_each(|((new, old), d)| categorical::kl_grad(new, old, weight, d));
}

/// Adds `weight` times M t to `product`, where M is the Fisher matrix of the logits: a block per head.
pub fn fisher<E: Real>(sizes: &[usize], logits: &[E], tangent: &[E], weight: E, product: &mut [E]) {
    let rows = heads(sizes, logits).zip(heads(sizes, tangent)).zip(heads_mut(sizes, product));
    rows.for_each(|((logits, tangent), product)| categorical::fisher(logits, tangent, weight, product));
}

/// Turns every head's logits into log-probabilities.
pub fn normalize<E: Real>(sizes: &[usize], logits: &mut [E]) {
    heads_mut(sizes, logits).for_each(categorical::normalize);
}

/// All functions that a pass needs of one row, from one exponential per logit: a [`Row`] for every head.
#[derive(Clone, Debug, Default)]
pub struct Rows<E> {
    sizes: Vec<usize>,
    /// What normalises each head.
    scales: Vec<[E; 2]>,
}

impl<E: Real> Rows<E> {
    /// For heads of these sizes.
    pub fn new(sizes: &[usize]) -> Self {
        Rows { sizes: sizes.to_vec(), scales: vec![[E::ZERO; 2]; sizes.len()] }
    }

    /// Takes up a row of logits; writes their probabilities. The other functions are called with the same logits.
    pub fn set(&mut self, logits: &[E], probabilities: &mut [E]) {
        let rows = heads(&self.sizes, logits).zip(heads_mut(&self.sizes, probabilities));
        self.scales.iter_mut().zip(rows).for_each(|(scale, (logits, p))| *scale = Row::new(logits, p).scale());
    }

    fn rows<'a>(&'a self, logits: &'a [E]) -> impl Iterator<Item = Row<'a, E>> {
        heads(&self.sizes, logits).zip(&self.scales).map(|(logits, scale)| Row::scaled(logits, *scale))
    }

    /// log pi(actions)
    pub fn log_prob(&self, logits: &[E], actions: &[E]) -> E {
        self.rows(logits).zip(actions).map(|(row, &action)| row.log_prob(index(action))).sum()
    }

    /// KL(new || old) for the log-probabilities of the old policy, as [`normalize`] computes them.
    pub fn kl(&self, logits: &[E], probabilities: &[E], old: &[E]) -> E {
        let rows = self.rows(logits).zip(heads(&self.sizes, probabilities)).zip(heads(&self.sizes, old));
        rows.map(|((row, probabilities), old)| row.kl(probabilities, old)).sum()
    }

    /// From probabilities to the gradient of `w` log pi(actions) + `e` entropy, in place.
    pub fn gradient(&self, logits: &[E], actions: &[E], w: E, e: E, probabilities: &mut [E]) {
        let rows = self.rows(logits).zip(actions).zip(heads_mut(&self.sizes, probabilities));
        rows.for_each(|((row, &action), p)| row.gradient(index(action), w, e, p));
    }
}
