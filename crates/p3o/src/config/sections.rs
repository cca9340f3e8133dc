//! The sections that all algorithms share. An algorithm's own settings stand in its file under `algo/`.

use super::schema::{settings, words};
use crate::algo::p3o::Form;

words! {
    /// The function between layers.
    Activation {
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// max(0, x)
        Relu = "relu",
        /// x
        Identity = "identity",
    }
}

words! {
    /// How initial weights are drawn.
    Init {
        /// Orthogonal, with a small last layer for the policy.
        Orthogonal = "orthogonal",
        /// As in the code base of the paper.
        Glorot = "glorot",
    }
}

words! {
    /// What a critic is fitted to.
    Target {
        /// The discounted sum of what follows (Algorithm 1, lines 3 and 4).
        Return = "return",
        /// Value plus advantage estimate.
        Lambda = "lambda",
    }
}

words! {
    /// How a learning rate develops over the run.
    Decay {
        /// It stays.
        None = "none",
        /// It falls in a straight line from its value to zero at the run's end.
        Linear = "linear",
        /// It stays for the first half of the run and falls in a straight line to zero in the second.
        Late = "late",
    }
}

impl Decay {
    /// The learning rate after this share of the run.
    pub fn apply(self, rate: f64, done: f64) -> f64 {
        match self {
            Decay::None => rate,
            Decay::Linear => rate * (1.0 - done).max(0.0),
            Decay::Late => rate * (2.0 - 2.0 * done).clamp(0.0, 1.0),
        }
    }
}

words! {
    /// Which sum of a cost over an episode is held against its limit.
    Sum {
        /// The plain one.
        Episode = "episode",
        /// Step t counts gamma^t, as in FOCOPS's code.
        Discounted = "discounted",
    }
}

impl Sum {
    /// What the steps of an episode count together: T, or the sum of gamma^t over t < T.
    pub fn weight(self, length: f64, gamma: f64) -> f64 {
        match self {
            Sum::Episode => length,
            Sum::Discounted => (1.0 - libm::pow(gamma, length)) / (1.0 - gamma),
        }
    }
}

words! {
    /// What an offset stands beside where several agents move in one update.
    ///
    /// A team's policy is the product of its N agents', so that to first order its ratio is 1 + sum_i (r_i - 1), and J changes by
    /// T times the *sum* over the agents of mean( r_i A ). The surrogate is their mean: J reaches the limit where the mean plus
    /// (J - d) / (N T) is zero. Agents that learn alone each take an equal part of the change, which is the same.
    Team {
        /// The sum of all agents' surrogates: beside their mean stands an N-th of the offset.
        Together = "together",
        /// Each agent's surrogate, as if the others stood still.
        Alone = "alone",
    }
}

impl Team {
    /// By what the offset of a team of so many agents is divided.
    pub fn parts(self, agents: usize) -> f64 {
        match self {
            Team::Together => agents as f64,
            Team::Alone => 1.0,
        }
    }
}

settings! {
    /// How experience is gathered.
    Rollout {
        /// Environments side by side.
        envs: usize = 100, Count(1, 65_536);
        /// Steps per update over all environments; a multiple of their number.
        batch: usize = 20_000, Count(2, 100_000_000);
        /// Discount of the reward.
        gamma: f64 = 0.99, Number(0.0, 0.999_999);
        /// Discount of the costs.
        cost_gamma: f64 = 0.99, Number(0.0, 0.999_999);
        /// Lambda of the reward's generalised advantage estimate.
        lambda: f64 = 0.95, Number(0.0, 1.0);
        /// Lambda of the costs' generalised advantage estimates.
        cost_lambda: f64 = 0.5, Number(0.0, 1.0);
        /// Whether observations are brought to zero mean and unit standard deviation by running statistics.
        normalize_obs: bool = true, Switch;
        /// Whether the critics' value stands for what follows an episode that the time limit cut; if not, nothing follows.
        bootstrap: bool = true, Switch;
    }
}

settings! {
    /// The networks: an actor and a critic per signal, alike but for their outputs.
    Net {
        /// Widths of the hidden layers.
        hidden: Vec<usize> = vec![64, 64], Widths(1, 65_536);
        /// Function between layers.
        activation: Activation = Activation::Tanh, Words(Activation::WORDS);
        /// How initial weights are drawn.
        init: Init = Init::Orthogonal, Words(Init::WORDS);
        /// Initial logarithm of the policy's standard deviation.
        log_std: f64 = -0.5, Number(-20.0, 5.0);
        /// Width of a gated recurrent unit behind the hidden layers, with layer normalisation as in MAPPO; 0: feed-forward.
        gru: usize = 0, Count(0, 65_536);
        /// BPTT length: steps through which a recurrent network's gradients flow back; divides an environment's steps per update.
        bptt: usize = 25, Count(1, 100_000_000);
    }
}

settings! {
    /// The policy's update: what all algorithms share.
    Policy {
        /// Learning rate of Adam.
        learning_rate: f64 = 3e-4, Number(0.0, 1.0), FirstOrder;
        /// How the learning rate develops: linear falls to zero at run.steps, late in the second half alone; more steps stretch it.
        lr_decay: Decay = Decay::None, Words(Decay::WORDS), FirstOrder;
        /// Passes over the batch at most.
        passes: usize = 40, Count(1, 1_000_000), FirstOrder;
        /// Rows of a mini-batch; 0 takes the whole batch at once.
        minibatch: usize = 0, Count(0, 100_000_000), FirstOrder;
        /// An update ends at the moving average of its parameters over the steps of about so many passes; 0: at the last ones.
        average: usize = 0, Count(0, 1_000_000), FirstOrder;
        /// Mean KL from the old policy at which the passes end, and to which second-order steps reach.
        target_kl: f64 = 0.01, Number(0.0, f64::MAX);
        /// Weight of the entropy bonus.
        entropy: f64 = 0.0, Number(0.0, 1e6);
        /// The bonus counts only while the policy's mean entropy per component of an action is below this.
        entropy_below: f64 = 1000.0, Number(-1000.0, 1000.0);
        /// Whether the bonus is for the mean entropy of an action's components instead of their sum.
        entropy_mean: bool = false, Switch;
        /// Share of the run for which the bonus counts, 1 for all of it; more steps than planned stretch it.
        entropy_until: f64 = 1.0, Number(0.0, 1.0);
    }
}

settings! {
    /// How a cost is held against its limit.
    Constraint {
        /// How the constraint is put: where J_C comes from, its offset, and what is standardised; literal is the paper to the letter.
        form: Form = Form::Scaled, Words(Form::WORDS), Constraints;
        /// Share of each limit held back as a safety margin.
        margin: f64 = 0.0, Number(0.0, 1.0), Constraints;
        /// How much of the last update's estimate of a cost stays in the next; 0.9 averages over ten updates.
        smoothing: f64 = 0.0, Number(0.0, 0.999), Constraints;
        /// Every update moves the training limit by this times the cost's distance from d (1 - margin), to bring the mean cost there.
        correction_rate: f64 = 0.0, Number(0.0, 1.0), Constraints;
        /// The largest correction, as a share of d (1 - margin).
        correction_max: f64 = 0.5, Number(0.0, 1.0), Constraints;
        /// Which sum of a cost training holds against its limit: an episode's, or one discounted by rollout.cost_gamma.
        sum: Sum = Sum::Episode, Words(Sum::WORDS), Constraints;
        /// Whether the agents of a team close the gap to a limit together, each an equal part, or each of them alone.
        team: Team = Team::Together, Words(Team::WORDS), Constraints;
    }
}

settings! {
    /// The critics' update.
    Critic {
        /// Learning rate of Adam.
        learning_rate: f64 = 1e-3, Number(0.0, 1.0);
        /// How the learning rate develops: linear falls to zero at run.steps, late in the second half alone; more steps stretch it.
        lr_decay: Decay = Decay::None, Words(Decay::WORDS);
        /// Passes over the batch.
        passes: usize = 40, Count(0, 1_000_000);
        /// Rows of a mini-batch; 0 takes the whole batch at once.
        minibatch: usize = 0, Count(0, 100_000_000);
        /// What a critic is fitted to: the discounted sum of what follows, or value plus advantage estimate.
        target: Target = Target::Return, Words(Target::WORDS);
        /// Whether a critic learns its targets in units of their running mean and standard deviation.
        normalize: bool = false, Switch;
    }
}

settings! {
    /// A run as a whole.
    Run {
        /// Decides every random number of the run.
        seed: u64 = 0, Count(0, i64::MAX as u64);
        /// Environment steps to train for; rounded up to whole batches.
        steps: u64 = 2_000_000, Count(1, i64::MAX as u64);
        /// Updates between two checkpoints.
        checkpoint_every: u64 = 10, Count(1, i64::MAX as u64);
    }
}
